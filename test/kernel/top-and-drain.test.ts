/**
 * `kube-ipvs top` and `kube-ipvs drain` on real traffic: rates of connections, packets and bytes by
 * Service and by real server, and when the last connection to a pod has gone; in both modes, with a
 * daemon and without.
 */
import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { existsSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { TopJson } from '../../src/cli/top-json.ts'
import { ADDRESSES, Cluster, POD_PORT } from '../support/cluster.ts'
import { type Workbench } from '../support/daemon.ts'
import { removeVirtualServers } from '../support/kernel-state.ts'
import { run } from '../support/programs.ts'
import { eventually, until } from '../support/deadline.ts'
import { bothFamilies, everyKind, FAMILIES, frontend } from '../support/every-kind.ts'
import type { Place } from '../support/net-namespace.ts'

const A = `${ADDRESSES.a.IPv4}:${POD_PORT}`
const B = `${ADDRESSES.b.IPv4}:${POD_PORT}`
const WEB: Place = frontend(1, 'ClusterIP', 'IPv4', 'tcp')

/** How long a client waits between two connections. */
const BETWEEN_CONNECTIONS_MS = 20

/** Two Services, the first with pods a and b, the second with pod b, and a daemon of this mode. */
class World {
  readonly cluster = Cluster.start()
  readonly bench: Workbench
  daemon: ChildProcess

  constructor(mode: 'ipvs' | 'iptables') {
    this.bench = bothFamilies({}, { mode, clusterCIDR: '10.244.0.0/16,fd00:10:244::/47' })
    this.bench.write('web.yaml', ...everyKind(1, ['a', 'b']))
    this.bench.write('other.yaml', ...everyKind(2, ['b']))
    this.daemon = this.bench.start()
  }

  /** Starts a daemon again, and waits until commands can ask it. */
  async restart(): Promise<void> {
    this.daemon = this.bench.start()
    await this.isAsked()
  }

  /** Names of Services are known by the daemon alone. */
  async isAsked(): Promise<void> {
    await until('the local socket', () => existsSync(this.bench.socket))
  }

  /** Until both Services answer in both families, and the daemon, too. */
  async answers(): Promise<void> {
    await this.isAsked()
    for (const number of [1, 2])
      for (const family of FAMILIES)
        await eventually(async () => {
          assert.match(
            await this.cluster.ask('client', frontend(number, 'ClusterIP', family, 'tcp'), { withinMs: 1000 }),
            /node$/,
          )
        })
  }

  /** Until both Services answer, and the kernel has counted that: IPVS adds its counters up every two seconds. */
  async counted(): Promise<void> {
    await this.answers()
    await eventually(() => {
      const lines = run(['ipvsadm', '-L', '-n', '--stats', '--exact']).split('\n')
      const used = lines.filter((line) => /^TCP +\S+ +[1-9]/.test(line))
      assert.equal(used.length, 2 * FAMILIES.length, lines.join('\n'))
    })
  }

  async json(...flags: readonly string[]): Promise<TopJson> {
    const { code, stdout, stderr } = await this.bench.command('top', '--output', 'json', ...flags)
    assert.equal(code, 0, stderr)
    return JSON.parse(stdout) as TopJson // what our own program prints
  }

  /** What `top` shows while clients connect to Service 1 all the time; with the number of their connections. */
  async underLoad(...flags: readonly string[]): Promise<{ readonly shown: TopJson; readonly connections: number }> {
    let connections = 0
    let isOver = false
    const client = async (): Promise<void> => {
      while (!isOver) {
        assert.match(await this.cluster.ask('client', WEB), /^[ab] node$/)
        connections++
        // Hundreds of connections say no more than some tens.
        await sleep(BETWEEN_CONNECTIONS_MS)
      }
    }
    const clients = client()
    try {
      const shown = await this.json('--interval', '3s', ...flags)
      return { shown, connections }
    } finally {
      isOver = true
      await clients
    }
  }

  async close(): Promise<void> {
    await this.bench.close()
    this.cluster.stop()
    removeVirtualServers()
  }
}

describe('top and drain in ipvs mode', () => {
  let world: World
  const POD = ADDRESSES.b.IPv4
  const V6 = frontend(2, 'NodePort', 'IPv6', 'tcp')
  const waits = (...flags: readonly string[]) => world.bench.command('drain', '--wait', ...flags)
  before(async () => {
    world = new World('ipvs')
    await world.counted()
  })
  after(() => world.close())

  it('shows the rates of the Service that clients use, and none of the other', async () => {
    const { shown, connections } = await world.underLoad()
    assert.deepEqual([shown.mode, shown.by], ['ipvs', 'service'])
    const [web, ...others] = shown.rows
    assert.equal(web?.service, 'demo/every-kind-1')
    const rate = web?.connectionsPerSecond ?? 0
    const seconds = shown.seconds
    assert.ok(seconds >= 2.9, `${seconds} s`)
    assert.ok(rate > 0 && rate * seconds <= connections, `${rate} a second for ${seconds} s of ${connections}`)
    // A connection has at least a SYN, an ACK, the question and a FIN; each packet at least two headers.
    assert.ok((web?.packetsInPerSecond ?? 0) > 3 * rate)
    assert.ok((web?.packetsOutPerSecond ?? 0) > 2 * rate)
    assert.ok((web?.bytesInPerSecond ?? 0) > 40 * (web?.packetsInPerSecond ?? 0))
    assert.ok((web?.bytesOutPerSecond ?? 0) > 40 * (web?.packetsOutPerSecond ?? 0))
    assert.ok((web?.packetsInPerSecond ?? 0) < 20 * rate)
    assert.deepEqual(
      others.map(({ service, connectionsPerSecond, bytesInPerSecond }) => [
        service,
        connectionsPerSecond,
        bytesInPerSecond,
      ]),
      [['demo/every-kind-2', 0, 0]],
    )
    assert.equal(shown.total.connectionsPerSecond, rate)
  })

  it('shows real servers, whose rates are those of their Service together', async () => {
    const { shown } = await world.underLoad('--by', 'real-server', '--sort', 'name', 'demo/every-kind-1')
    const v4 = shown.rows.filter(({ realServer }) => realServer === A || realServer === B)
    assert.deepEqual(
      v4.map(({ service, realServer }) => [service, realServer]),
      [A, B].map((name) => ['demo/every-kind-1', name]),
    )
    const [a = 0, b = 0] = v4.map(({ connectionsPerSecond }) => connectionsPerSecond ?? Number.NaN)
    // The scheduler is round robin.
    assert.ok(a > 0 && Math.abs(a - b) * shown.seconds <= 2.1, `${a} and ${b}`)
    assert.ok(Math.abs((shown.total.connectionsPerSecond ?? 0) - a - b) < 0.1)
  })

  it('counts the connections there are', async () => {
    // The kernel may still be closing connections of the test before.
    assert.equal((await waits(`${ADDRESSES.a.IPv4},${ADDRESSES.b.IPv4}`, '--timeout', '60s')).code, 0)
    const connections = [await world.cluster.hold('client', WEB), await world.cluster.hold('client', WEB)]
    try {
      const { rows } = await world.json('--by', 'real-server', '--interval', '100ms', '--address', WEB.address)
      assert.deepEqual(rows.map(({ realServer, activeConnections }) => [realServer, activeConnections]).sort(), [
        [A, 1],
        [B, 1],
      ])
    } finally {
      for (const { end } of connections) end()
    }
  })

  it('prints a table without a terminal, filtered by an address', async () => {
    const { code, stdout } = await world.bench.command('top', '--interval', '100ms', '--address', WEB.address)
    assert.equal(code, 0)
    assert.match(stdout, /^1 Service in ipvs mode, over 0\.[0-9] s\ntotal /)
    assert.match(stdout, /^demo\/every-kind-1 +[\d.<k]+ /m)
  })

  it('shows virtual servers by their keys without a daemon, and says why', async () => {
    await world.bench.stop(world.daemon)
    const { code, stdout, stderr } = await world.bench.command('top', '--interval', '100ms')
    assert.equal(code, 0)
    assert.match(stderr, /^kube-ipvs top: no names of Services: no daemon answers at /)
    assert.match(stdout, /^10\.96\.0\.1:80\/tcp +/m)
    const filtered = await world.bench.command('top', 'demo', '--interval', '100ms')
    assert.match(filtered.stderr, /so nothing belongs to the Services that were asked for \(use --address\)/)
    await world.restart()
  })

  it('ends at once when no connection is left, through the daemon', async () => {
    const { code, stdout } = await waits(ADDRESSES.c.IPv4)
    assert.equal(code, 0)
    assert.match(stdout, /^no connection to 10\.244\.1\.1 is left after \d+s\n$/)
  })

  it('ends with 3 at the timeout, and with 0 when the last connection has closed', async () => {
    const [first, second] = [
      await world.cluster.hold('client', frontend(2, 'ClusterIP', 'IPv4', 'tcp')),
      await world.cluster.hold('client', V6),
    ]
    const target = `${POD},${ADDRESSES.b.IPv6}`
    const late = await waits(target, '--timeout', '300ms', '--output', 'json')
    assert.equal(late.code, 3, late.stderr)
    const { isDone, active, targets } = JSON.parse(late.stdout) as Readonly<Record<string, unknown>>
    assert.deepEqual([isDone, active, targets], [false, 2, [POD, ADDRESSES.b.IPv6]])
    const waiting = waits(target, '--timeout', '60s')
    first.end()
    assert.equal((await waits(target, '--timeout', '0s')).code, 3, 'the other connection keeps it')
    second.end()
    const { code, stdout, stderr } = await waiting
    assert.equal(code, 0, stderr)
    assert.match(stdout, /^no connection to \S+ is left after \d+s\n$/)
    // A connection that was reset is remembered for ten seconds.
    assert.equal((await waits(target, '--timeout', '0s', '--all')).code, 3)
  })

  it('knows the endpoints of a pod by the EndpointSlices that name it', async () => {
    const [object, ...slices] = everyKind(3, ['b'])
    const named = slices.map((one) => ({
      ...one,
      endpoints: (one['endpoints'] as readonly object[]).map((endpoint) => ({
        ...endpoint,
        targetRef: { kind: 'Pod', namespace: 'demo', name: 'web-7' },
      })),
    }))
    world.bench.write('named.yaml', ...(object === undefined ? [] : [object]), ...named)
    const place = frontend(3, 'ClusterIP', 'IPv4', 'tcp')
    await eventually(async () => assert.equal(await world.cluster.ask('client', place, { withinMs: 1000 }), 'b node'))
    // The kernel may still be closing the connection of the last answer.
    assert.equal((await waits('demo/web-7', '--timeout', '60s')).code, 0)
    const connection = await world.cluster.hold('client', place)
    const late = await waits('demo/web-7', '--timeout', '0s')
    assert.equal(late.code, 3, late.stderr)
    assert.match(late.stdout, /^1 active connection to demo\/web-7 left after \d+s$/m)
    connection.end()
    assert.equal((await waits('demo/web-7', '--timeout', '60s')).code, 0)
    const unknown = await waits('demo/nobody')
    assert.equal(unknown.code, 1)
    assert.match(unknown.stderr, /no EndpointSlice names the pod demo\/nobody/)
  })

  it('shows what drains, with the age and the Service that the daemon knows, and without a daemon', async () => {
    const place = frontend(1, 'ClusterIP', 'IPv4', 'tcp')
    const both = [await world.cluster.hold('client', place), await world.cluster.hold('client', place)]
    assert.equal((await world.bench.command('drain')).stdout, 'nothing is draining on this node\n')
    world.bench.write('web.yaml', ...everyKind(1, ['a']))
    await eventually(async () => {
      const { stdout } = await world.bench.command('drain')
      assert.match(stdout, /^10\.244\.0\.2:8080 +1 +\d+ +\d+s +- +10\.96\.0\.1:80\/tcp +demo\/every-kind-1:tcp$/m)
    })
    await world.bench.stop(world.daemon)
    const alone = await world.bench.command('drain')
    assert.match(alone.stderr, /^kube-ipvs drain: names, ages and deadlines are unknown: no daemon answers at /)
    assert.match(alone.stdout, /^10\.244\.0\.2:8080 +1 +\d+ +- +- +10\.96\.0\.1:80\/tcp +-$/m)
    assert.equal((await waits(POD, '--timeout', '0s')).code, 3, 'the kernel alone is enough for an IP')
    const waiting = waits(POD, '--timeout', '60s')
    for (const { end } of both) end()
    assert.equal((await waiting).code, 0)
    assert.equal((await waits('demo/web-7')).code, 1, 'only a daemon knows pods')
  })

  it('refuses to start a drain, and to count where nothing of a proxy is', async () => {
    const { code, stderr } = await world.bench.command('drain', '10.244.0.1:8080')
    assert.equal(code, 1)
    assert.match(stderr, /is not drained from here[^]*kubectl drain NODE/)
    assert.equal((await world.bench.command('cleanup')).code, 0)
    const empty = await waits(POD)
    assert.equal(empty.code, 1)
    assert.match(empty.stderr, /is it that of the node\?/)
    assert.match(
      (await world.bench.command('drain')).stderr,
      /^kube-ipvs drain: this network namespace has nothing of ipvs mode and no rules of iptables mode/m,
    )
  })
})

describe('top and drain in iptables mode', () => {
  let world: World
  before(async () => {
    world = new World('iptables')
    await world.answers()
  })
  after(() => world.close())

  it('shows new connections a second and the flows there are, and leaves packets and bytes unknown', async () => {
    const { shown, connections } = await world.underLoad()
    assert.equal(shown.mode, 'iptables')
    const [web] = shown.rows
    assert.equal(web?.service, 'demo/every-kind-1')
    const rate = web?.connectionsPerSecond ?? 0
    assert.ok(rate > 0 && rate * shown.seconds <= connections + 1, `${rate} for ${shown.seconds} s of ${connections}`)
    assert.deepEqual([web?.packetsInPerSecond, web?.bytesOutPerSecond], [null, null])
    assert.ok((web?.inactiveConnections ?? 0) > 0, 'closed connections are remembered for a while')
  })

  it('shows real servers without a daemon, with the names in the rules', async () => {
    const { end } = await world.cluster.hold('client', frontend(2, 'ClusterIP', 'IPv4', 'tcp'))
    await world.bench.stop(world.daemon)
    try {
      const { rows } = await world.json('demo/every-kind-2', '--by', 'real-server', '--interval', '100ms')
      assert.deepEqual(
        rows.flatMap(({ realServer, activeConnections }) => (realServer === B ? [activeConnections] : [])),
        [1],
      )
    } finally {
      end()
      await world.restart()
    }
  })

  it('counts flows through Services, with a daemon and without, and says that nothing drains', async () => {
    const target = ADDRESSES.b.IPv4
    const connection = await world.cluster.hold('client', frontend(2, 'ClusterIP', 'IPv4', 'tcp'))
    assert.equal((await world.bench.command('drain', '--wait', target, '--timeout', '0s')).code, 3)
    const shown = await world.bench.command('drain')
    assert.match(shown.stderr, /nothing drains in iptables mode/)
    await world.bench.stop(world.daemon)
    assert.equal((await world.bench.command('drain', '--wait', target, '--timeout', '0s')).code, 3)
    const waiting = world.bench.command('drain', '--wait', target, '--timeout', '60s')
    connection.end()
    const { code, stderr } = await waiting
    assert.equal(code, 0, stderr)
  })
})
