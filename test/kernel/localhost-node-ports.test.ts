/**
 * Node ports at 127.0.0.1 and ::1 of a node in ipvs mode, with each firewall: who answers, what is
 * refused, what a reload, a removal and a taken port do, and what a client that does not read costs.
 */
import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { LOOPBACK_ADDRESS } from '../../src/values/well-known.ts'
import { ADDRESSES, Cluster, NODE } from '../support/cluster.ts'
import type { Workbench } from '../support/daemon.ts'
import { eventually, until } from '../support/deadline.ts'
import { bothFamilies, everyKind, FAMILIES, frontend, inBothFamilies } from '../support/every-kind.ts'
import { listenStream } from '../support/exchange.ts'
import { rowsOfRun } from '../support/extent.ts'
import { virtualServers } from '../support/kernel-state.ts'
import { service, slice } from '../support/manifests.ts'
import type { Place } from '../support/net-namespace.ts'
import { sh } from '../support/programs.ts'
import { listen } from '../support/tcp-client.ts'
import type { IpFamily } from '../../src/values/protocol.ts'
import { type Need, needs } from './needs.ts'

const CIDRS = { clusterCIDR: '10.244.0.0/16,fd00:10:244::/47' }
const TRANSFER_BYTES = 32 * 1024 * 1024
/** What the daemon may need for a client that does not read, beside what it needs anyway. */
const GROWTH_KIB = 16 * 1024
const BIG_PORT = 9090

const ROWS: readonly { readonly firewall: string; readonly needed: readonly Need[]; readonly other?: string }[] = [
  { firewall: 'iptables', needed: ['iptables-nft', 'nft'], other: 'nftables' },
  { firewall: 'nftables', needed: ['nft'] },
]

/** Service `number` at the loopback address. */
const local = (number: number, family: IpFamily, protocol: Place['protocol'] = 'tcp'): Place => ({
  protocol,
  address: LOOPBACK_ADDRESS[family],
  port: 30_000 + number,
})

/** Also after a reset, which `once` would reject. */
const closeOf = (socket: Socket): Promise<void> => new Promise((resolve) => socket.once('close', () => resolve()))

// The first row switches to the other firewall and back.
for (const { firewall, needed, other } of rowsOfRun(ROWS, (row) => row.other !== undefined))
  describe(`node ports at loopback addresses, firewall ${firewall}`, needs(...needed), () => {
    let cluster: Cluster
    let bench: Workbench
    let daemon: ChildProcess
    const configured = (localhostNodePorts: boolean, more: object = {}) => ({
      ...CIDRS,
      iptables: { localhostNodePorts: false },
      kubeIPVS: { firewall, localhostNodePorts, ...more },
    })
    const ask = (number: number, family: IpFamily): Promise<string> => cluster.ask('node', local(number, family))
    const answers = (number: number): Promise<void> =>
      eventually(() => inBothFamilies(async (family) => assert.match(await ask(number, family), /^[ac] node$/)))
    const refuses = (number: number): Promise<void> =>
      eventually(() => inBothFamilies(async (family) => assert.equal(await ask(number, family), 'refused')))
    const metric = async (name: string): Promise<number> => {
      const page = await (await fetch('http://127.0.0.1:10249/metrics')).text()
      const line = page.split('\n').find((text) => text.startsWith(`${name} `))
      return line === undefined ? Number.NaN : Number(line.split(' ').at(-1))
    }

    before(async () => {
      cluster = Cluster.start(['tcp', 'udp'])
      bench = bothFamilies({}, configured(true))
      bench.write('web.yaml', ...everyKind(1, ['a', 'c']))
      bench.write(
        'affinity.yaml',
        ...everyKind(2, ['a', 'c'], {
          sessionAffinity: 'ClientIP',
          sessionAffinityConfig: { clientIP: { timeoutSeconds: 600 } },
        }),
      )
      bench.write('local.yaml', ...everyKind(3, ['a', 'c'], { externalTrafficPolicy: 'Local' }))
      bench.write('elsewhere.yaml', ...everyKind(4, ['c'], { externalTrafficPolicy: 'Local' }))
      daemon = bench.start()
      await answers(1)
    })
    after(async () => {
      await bench.stop(daemon)
      assert.equal((await bench.command('cleanup')).code, 0)
      await bench.close()
      cluster.stop()
    })

    it('reach each endpoint, which sees the node', () =>
      inBothFamilies(async (family) => {
        const seen = new Set<string>()
        await until(`both pods answer in ${family}`, async () => seen.add(await ask(1, family)).size === 2)
        assert.deepEqual([...seen].sort(), ['a node', 'c node'])
      }))

    it('have no virtual server, no other socket, and no other protocol', async () => {
      assert.deepEqual(
        virtualServers().filter((line) => /127\.0\.0\.|\[::1\]/.test(line)),
        [],
      )
      const sockets = sh('ss -ltnH')
        .split('\n')
        .flatMap((line) => line.trim().split(/\s+/)[3] ?? [])
        .filter((socket) => /:3000\d$/.test(socket))
      const ports = [1, 2, 3].map((number) => 30_000 + number)
      assert.deepEqual(sockets.sort(), [
        ...ports.map((port) => `127.0.0.1:${port}`),
        ...ports.map((port) => `[::1]:${port}`),
      ])
      await inBothFamilies(async (family) =>
        assert.equal(await cluster.ask('node', local(1, family, 'udp')), 'refused', family),
      )
    })

    it('leave node ports at other addresses as they are', () =>
      inBothFamilies(async (family) => {
        for (const from of ['client', 'node', 'a'] as const)
          assert.match(await cluster.ask(from, frontend(1, 'NodePort', family, 'tcp')), /^[abc] /, `${from} ${family}`)
      }))

    it('keep the endpoint of a Service with affinity', () =>
      inBothFamilies(async (family) => {
        const outcomes = await cluster.askInTurn('node', local(2, family), 10)
        assert.equal(new Set(outcomes).size, 1, outcomes.join())
      }))

    it('under policy Local reach endpoints of this node alone, and refuse without one', () =>
      inBothFamilies(async (family) => {
        assert.deepEqual(await cluster.askInTurn('node', local(3, family), 10), new Array<string>(10).fill('a node'))
        assert.equal(await ask(4, family), 'refused')
        // Elsewhere ipvs mode uses all endpoints then, as kube-proxy does.
        assert.match(await cluster.ask('node', frontend(4, 'NodePort', family, 'tcp')), /^c /)
      }))

    it('close connections with the Service, and not with an endpoint', async () => {
      bench.write('gone.yaml', ...everyKind(5, ['a']))
      await answers(5)
      const sockets = await Promise.all(FAMILIES.map((family) => cluster.connect('node', local(5, family))))
      const echo = async (): Promise<string[]> =>
        Promise.all(
          sockets.map(async (socket) => {
            socket.write('?\n')
            return String((await once(socket, 'data'))[0]).slice(0, 1)
          }),
        )
      assert.deepEqual(await echo(), ['a', 'a'])
      bench.write('gone.yaml', ...everyKind(5, ['c']))
      await eventually(() => inBothFamilies(async (family) => assert.equal(await ask(5, family), 'c node')))
      assert.deepEqual(await echo(), ['a', 'a'])
      const closed = Promise.all(sockets.map(closeOf))
      bench.remove('gone.yaml')
      await closed
      await refuses(5)
    })

    it('report a port that another program has, and serve the others', async (t) => {
      const taken = await listen(30_006, '127.0.0.1')
      t.after(() => taken.close())
      bench.write('taken.yaml', ...everyKind(6, ['a']))
      await eventually(async () => assert.equal(await ask(6, 'IPv6'), 'a node'))
      const message = 'node node0 cannot listen at 127.0.0.1:30006 for the node port: address already in use'
      await eventually(() => assert.ok(bench.log.includes(message)))
      const { stdout } = await bench.command('status', '--problems')
      assert.match(stdout, /127\.0\.0\.1:30006/)
      assert.equal(await metric('kubeipvs_localhost_node_ports{state="failing"}'), 1)
      const explained = async (target: string): Promise<string> =>
        (await bench.command('explain', target)).stdout.replaceAll(/\s+/g, ' ')
      assert.match(await explained('127.0.0.1:30006'), /localhost 127\.0\.0\.1:30006: nobody listens: .*already in use/)
      assert.match(await explained('[::1]:30006'), /localhost \[::1\]:30006: the daemon listens and relays to \[fd00/)
      await answers(1)
      taken.close()
      await answers(6)
      const lines = bench.log.split('\n').filter((line) => line.includes('"Problem with an object"'))
      assert.equal(lines.filter((line) => line.includes(':30006')).length, 1, 'one line')
    })

    it('wait for a client that does not read, without memory for what it leaves', async () => {
      const piece = Buffer.alloc(65_536)
      let sent = 0
      const at: Place = { protocol: 'tcp', address: ADDRESSES.a.IPv4, port: BIG_PORT }
      const server = listenStream(`a-${process.pid}`, at, (socket) => {
        socket.on('error', () => undefined)
        const send = (): void => {
          while (sent < TRANSFER_BYTES) {
            sent += piece.length
            if (!socket.write(piece)) return void socket.once('drain', send)
          }
          socket.end()
        }
        send()
      })
      const ports = [{ name: 'http', protocol: 'TCP', port: 80, nodePort: 30_007, targetPort: BIG_PORT }]
      bench.write(
        'big.yaml',
        service('big', { type: 'NodePort', clusterIP: '10.96.0.77', ports }),
        slice('big', [ADDRESSES.a.IPv4], { ports: [{ name: 'http', protocol: 'TCP', port: BIG_PORT }] }),
      )
      await until('the port is open', () => sh('ss -ltnH').includes('127.0.0.1:30007'))
      const residentKib = (): number =>
        Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${daemon.pid ?? 0}/status`, 'utf8'))?.[1])
      const before = residentKib()
      const sockets = await Promise.all([1, 2, 3, 4].map(() => cluster.connect('node', local(7, 'IPv4'))))
      let earlier = -1
      await until('the senders wait', async () => {
        const isStill = sent === earlier && sent > 0
        earlier = sent
        await new Promise((resolve) => setTimeout(resolve, 200))
        return isStill
      })
      const growth = residentKib() - before
      assert.ok(growth < GROWTH_KIB, `${growth} KiB more`)
      let read = 0
      for (const socket of sockets)
        socket.on('data', (data) => {
          read += data.length
        })
      await Promise.all(sockets.map((socket) => once(socket, 'end')))
      assert.equal(read, sent)
      server.close()
      bench.remove('big.yaml')
    })

    // With the iptables firewall the node's own packets to a node port get a loopback source again.
    const resetsOthers = async (): Promise<void> => {
      await inBothFamilies(async (family) =>
        assert.equal(await cluster.ask('node', local(1, family), { address: NODE[family] }), 'ECONNRESET', family),
      )
      assert.equal(await metric('kubeipvs_localhost_connections_total{result="foreign"}'), 2)
    }
    if (firewall === 'nftables') it('reset a client that is not at a loopback address', resetsOthers)

    if (other !== undefined)
      it('keep their connections while the firewall is switched, and reset others with nftables', async () => {
        const sockets = await Promise.all(FAMILIES.map((family) => cluster.connect('node', local(1, family))))
        const echo = async (): Promise<void> => {
          for (const socket of sockets) {
            socket.write('?\n')
            await once(socket, 'data')
          }
        }
        await echo()
        for (const next of [other, firewall]) {
          bench.configure(configured(true, { firewall: next }))
          await eventually(async () => {
            const { stdout } = await bench.command('status')
            assert.match(stdout, new RegExp(`^firewall +${next}`, 'm'))
          })
          await echo()
          await answers(1)
          if (next === 'nftables') await resetsOthers()
        }
        for (const socket of sockets) socket.destroy()
      })

    it('are closed and opened by a reload, and closed in iptables mode', async () => {
      assert.ok((await metric('kubeipvs_localhost_connections_total{result="relayed"}')) > 0)
      const socket = await cluster.connect('node', local(1, 'IPv4'))
      socket.resume()
      const closed = closeOf(socket)
      bench.configure(configured(false))
      await closed
      await refuses(1)
      assert.ok(Number.isNaN(await metric('kubeipvs_localhost_connections')))
      bench.configure(configured(true))
      await answers(1)
      await answers(6)
      bench.configure({ ...configured(true), mode: 'iptables' })
      await refuses(1)
      // A source port that is in use already is followed by the next one.
      await eventually(async () =>
        assert.match(await cluster.ask('node', frontend(1, 'NodePort', 'IPv4', 'tcp')), /^[ac] /),
      )
      // A fourth switch would wait for a quarter of an hour.
      if (other === undefined) {
        bench.configure(configured(true))
        await answers(1)
      }
      assert.equal(daemon.exitCode, null)
    })
  })

it('are off unless the configuration says so', async () => {
  const cluster = Cluster.start(['tcp'])
  const bench = bothFamilies({}, CIDRS)
  bench.write('web.yaml', ...everyKind(1, ['a']))
  const daemon = bench.start()
  await eventually(async () =>
    assert.match(await cluster.ask('client', { protocol: 'tcp', address: NODE.IPv4, port: 30_001 }), /^a /),
  )
  await inBothFamilies(async (family) => assert.equal(await cluster.ask('node', local(1, family)), 'refused', family))
  await bench.stop(daemon)
  assert.equal((await bench.command('cleanup')).code, 0)
  await bench.close()
  cluster.stop()
})
