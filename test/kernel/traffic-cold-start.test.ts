/**
 * A cold start with 2,000 Services and clients that send requests from before its first moment: no
 * packet to a VIP leaves unmasqueraded, none passes a firewall that does not exist yet, and the API
 * server's Service and the cluster's DNS are served first. Some requests must be answered before
 * the start ends, or the test proves nothing.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { after, before, describe, it } from 'node:test'
import { Cluster, NODES_OWN, type Outcome, POD_PORT } from '../support/cluster.ts'
import type { Workbench } from '../support/daemon.ts'
import { type Manifest, service, slice } from '../support/manifests.ts'
import { boundAddresses, localRoutes } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually, until } from '../support/deadline.ts'
import {
  bothFamilies,
  everyKind,
  FAMILIES,
  frontend,
  KINDS,
  VIRTUAL_ADDRESSES,
  type VirtualAddresses,
} from '../support/every-kind.ts'
import type { Place } from '../support/net-namespace.ts'

const SERVICES = 2000
const KUBERNETES = '10.96.200.1'
const DNS = '10.96.200.10'
const vip = (index: number): string => `10.100.${index >> 8}.${index & 255}`
const udp = (address: string, port = 80): Place => ({ protocol: 'udp', address, port })

function udpService(namespace: string, name: string, clusterIP: string, port = 80): Manifest[] {
  const ports = [{ name: 'u', protocol: 'UDP', port, targetPort: POD_PORT }]
  const metadata = { namespace }
  return [
    service(name, { clusterIP, ports }, { metadata }),
    slice(name, ['10.244.0.1'], { metadata, ports: [{ name: 'u', protocol: 'UDP', port: POD_PORT }] }),
  ]
}

/** The targets of the clients, in turn; the many Services one by one. */
const PLACES: readonly Place[] = [
  udp(KUBERNETES),
  udp(DNS, 53),
  ...FAMILIES.flatMap((family) =>
    KINDS.flatMap((kind) => (['udp', 'tcp'] as const).map((protocol) => frontend(1, kind, family, protocol))),
  ),
]
const GUARDED: readonly Place[] = FAMILIES.flatMap((family) =>
  (['udp', 'tcp'] as const).map((protocol) => frontend(2, 'LoadBalancer', family, protocol)),
)
const CLIENTS = 16

/** What `ip monitor` watches, and its line for an IPv4 address. */
const WATCHED: Readonly<Record<VirtualAddresses, { readonly what: string; readonly pattern: RegExp }>> = {
  addresses: { what: 'address', pattern: /kube-ipvs0 +inet (\S+)\/32/g },
  routes: { what: 'route', pattern: /^local ([\d.]+) dev lo table local proto 73/gm },
}

for (const virtualAddresses of VIRTUAL_ADDRESSES)
  describe(`a cold start with virtual IPs as ${virtualAddresses}`, () => {
    let cluster: Cluster
    let bench: Workbench
    let monitor: ChildProcess
    let daemon: ChildProcess
    /** Virtual IPs in the order of their announcement; some are missed when they are many at a time. */
    let announced = ''
    const outcomes: Outcome[] = []
    before(async () => {
      cluster = Cluster.start()
      monitor = spawn('ip', ['-o', 'monitor', WATCHED[virtualAddresses].what], { stdio: ['ignore', 'pipe', 'inherit'] })
      monitor.stdout?.on('data', (chunk) => {
        announced += chunk
      })
      await until('the first announcement', () => {
        sh('ip address replace 192.0.2.200/32 dev lo; ip address delete 192.0.2.200/32 dev lo')
        return announced !== ''
      })
      bench = bothFamilies({}, undefined, virtualAddresses)
      const many = Array.from({ length: SERVICES }, (_, index) => udpService('demo', `many-${index}`, vip(index)))
      bench.write('many.yaml', ...many.flat())
      bench.write('first.yaml', ...everyKind(1, ['a']))
      bench.write(
        'guarded.yaml',
        ...everyKind(2, ['b'], { loadBalancerSourceRanges: ['203.0.113.0/24', 'fd00:203::/64'] }),
      )
      bench.write(
        'last.yaml',
        ...udpService('kube-system', 'dns', DNS, 53),
        ...udpService('default', 'kubernetes', KUBERNETES),
      )

      let asked = 0
      let isOver = false
      const ask = async (): Promise<void> => {
        while (!isOver) {
          const number = asked++
          for (const place of [PLACES[number % PLACES.length], udp(vip((number * 7) % SERVICES))])
            if (place !== undefined) outcomes.push(await cluster.ask('client', place, { withinMs: 10 }))
          const guarded = GUARDED[number % GUARDED.length]
          if (guarded !== undefined) await cluster.ask('client', guarded, { withinMs: 10 })
        }
      }
      const asking = Array.from({ length: CLIENTS }, ask)
      daemon = bench.start()
      await eventually(async () => {
        for (const index of [0, SERVICES / 2, SERVICES - 1])
          assert.equal(await cluster.ask('client', udp(vip(index)), { withinMs: 500 }), 'a node')
      }, 60_000)
      await eventually(() => assert.ok(outcomes.filter((outcome) => outcome.startsWith('a ')).length > 100))
      // Each family has its own rules, for which its virtual servers wait.
      await eventually(() => {
        const bound = [...boundAddresses(), ...localRoutes()]
        for (const { address } of GUARDED) assert.ok(bound.some((one) => one.startsWith(`${address}/`)))
      }, 60_000)
      isOver = true
      await Promise.all(asking)
    })
    after(async () => {
      monitor.kill()
      // The next start is a cold one, too.
      await bench.stop(daemon)
      assert.equal((await bench.command('cleanup')).code, 0)
      await bench.close()
      cluster.stop()
    })

    it('gets requests from before its first moment until its end', () => {
      const first = outcomes.findIndex((outcome) => outcome.startsWith('a '))
      assert.ok(first > 50, `${first} were asked before the first answer`)
      assert.ok(outcomes.slice(first).includes('nothing'), 'some were there before others')
    })

    it('masquerades every packet, including the first', () => {
      const others = [...cluster.seen].filter((one) => !NODES_OWN.has(one.replace(/^. /, '')))
      assert.deepEqual(others, [])
      assert.deepEqual(
        [...new Set(outcomes)].filter((outcome) => outcome.endsWith(' own')),
        [],
      )
    })

    it('writes the firewall of a VIP before the VIP', () => {
      for (const { address } of GUARDED)
        assert.ok([...boundAddresses(), ...localRoutes()].some((one) => one.startsWith(`${address}/`)))
      assert.deepEqual(
        [...cluster.seen].filter((one) => one.startsWith('b ')),
        [],
      )
    })

    it('serves the API server and DNS first', () => {
      const addresses = [...announced.matchAll(WATCHED[virtualAddresses].pattern)].map((match) => match[1])
      assert.deepEqual(new Set(addresses.slice(0, 2)), new Set([KUBERNETES, DNS]))
    })
  })
