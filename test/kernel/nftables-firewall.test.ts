/**
 * ipvs mode with the nftables firewall: no program is started, every kind of frontend answers and
 * refuses as with iptables, and the private tables survive a flush, a rival and an upgrade in which
 * two daemons run at once.
 */
import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { openNetfilter } from '../../native/open.ts'
import { NftablesFirewall } from '../../src/modes/ipvs/nftables-firewall/firewall.ts'
import { NFTABLES_FIREWALL, watchTables } from '../../src/modes/ipvs/nftables-firewall/kernel.ts'
import type { NetlinkConnection } from '../../src/netlink/connection.ts'
import { PrivateTables } from '../../src/nftables/private-table.ts'
import { Reconciler } from '../../src/sync/reconciler.ts'
import { silentLog } from '../../src/values/log.ts'
import { NFT } from '../support/bare-guest.ts'
import { Cluster, type From, REFUSAL_MS } from '../support/cluster.ts'
import { Workbench } from '../support/daemon.ts'
import { eventually } from '../support/deadline.ts'
import { everyKind, FAMILIES, frontend, inBothFamilies, type Kind, settled } from '../support/every-kind.ts'
import { frontendOf } from '../support/frontends.ts'
import { freshNode } from '../support/kernel-state.ts'
import { run, sh } from '../support/programs.ts'
import { needs } from './needs.ts'

const CONFIGURATION = { kubeIPVS: { firewall: 'nftables' }, clusterCIDR: '10.244.0.0/16,fd00:10:244::/56' }
const RANGES = { loadBalancerSourceRanges: ['10.0.2.100/32', 'fd00:10:0:2::100/128'] }
const LOCAL = { externalTrafficPolicy: 'Local' }
/** Programs that the iptables firewall starts, or that anybody would. */
const PROGRAMS = [
  'iptables',
  'ip6tables',
  'ipset',
  'nft',
  'modprobe',
  'kmod',
  'ip',
  'conntrack',
  'sh',
  'uname',
].flatMap((name) =>
  name.endsWith('tables')
    ? ['', '-save', '-restore', '-nft', '-nft-save', '-nft-restore', '-legacy', '-legacy-save', '-legacy-restore'].map(
        (suffix) => `${name}${suffix}`,
      )
    : [name],
)
/** The first is a Service of pod a, the second of pod c with policy Cluster, then Local and source ranges. */
const SERVICES = [everyKind(1, ['a']), everyKind(2, ['c']), everyKind(3, ['a'], LOCAL), everyKind(4, ['a'], RANGES)]

const FLUSHES = 20

const list = (family: 'ip' | 'ip6'): string => run([NFT, 'list', 'table', family, 'kube-ipvs'])

describe('the nftables firewall of a daemon', needs('nft'), () => {
  let cluster: Cluster
  let bench: Workbench
  let daemon: ChildProcess
  let programs: string
  let started: string
  before(async () => {
    cluster = Cluster.start(['tcp', 'udp', 'sctp'])
    programs = mkdtempSync(join(tmpdir(), 'programs-'))
    started = join(programs, 'started')
    for (const name of PROGRAMS)
      writeFileSync(join(programs, name), `#!/bin/bash\necho "${name} $*" >> ${started}\nexit 1\n`, { mode: 0o755 })
    bench = new Workbench({}, CONFIGURATION)
    bench.env = { PATH: programs }
    bench.write(
      'node.yaml',
      // Both families: the node of Cluster.
      {
        apiVersion: 'v1',
        kind: 'Node',
        metadata: { name: 'node0', labels: { 'topology.kubernetes.io/zone': 'a' } },
        status: {
          addresses: [
            { type: 'InternalIP', address: '10.0.2.15' },
            { type: 'InternalIP', address: 'fd00:10:0:2::15' },
          ],
        },
      },
    )
    SERVICES.forEach((service, index) => bench.write(`${index}.yaml`, ...service))
    daemon = bench.start()
    await settled(SERVICES.length)
    await eventually(() => assert.match(list('ip'), /chain keep-destination \{\s*dnat to ip daddr/))
  })
  after(async () => {
    await bench.stop(daemon)
    bench.env = {}
    assert.equal((await bench.command('cleanup')).code, 0)
    assert.doesNotMatch(run([NFT, 'list', 'tables']), /kube-ipvs/)
    await bench.close()
    cluster.stop()
    rmSync(programs, { recursive: true })
  })

  const ROWS: readonly (readonly [number: number, kind: Kind, from: From, expected: string])[] = [
    [1, 'ClusterIP', 'client', 'a node'],
    [1, 'ClusterIP', 'b', 'a own'],
    [1, 'ClusterIP', 'a', 'a node'],
    [1, 'ClusterIP', 'node', 'a node'],
    [2, 'ClusterIP', 'client', 'c node'],
    [1, 'NodePort', 'client', 'a node'],
    [1, 'NodePort', 'node', 'a node'],
    [1, 'ExternalIP', 'client', 'a node'],
    [1, 'LoadBalancer', 'client', 'a node'],
    [1, 'LoadBalancer', 'a', 'a node'],
    [3, 'ClusterIP', 'client', 'a node'],
    [3, 'NodePort', 'client', 'a own'],
    [3, 'ExternalIP', 'client', 'a own'],
    [3, 'LoadBalancer', 'client', 'a own'],
    [4, 'LoadBalancer', 'client', 'a node'],
    [4, 'LoadBalancer', 'other', 'nothing'],
    [4, 'LoadBalancer', 'b', 'nothing'],
    [4, 'LoadBalancer', 'node', 'nothing'],
    [4, 'ExternalIP', 'other', 'a node'],
  ]
  for (const [number, kind, from, expected] of ROWS)
    it(`Service ${number}: ${from} asks its ${kind}, and ${expected}`, () =>
      inBothFamilies(async (family) => {
        const place = frontend(number, kind, family, 'tcp')
        assert.equal(await cluster.ask(from, place, { withinMs: REFUSAL_MS }), expected, family)
      }))

  it('refuses other ports of a virtual IP, and pings', () =>
    inBothFamilies(async (family) => {
      const place = frontend(1, 'LoadBalancer', family, 'tcp')
      assert.equal(await cluster.ask('client', { ...place, port: 81 }, { withinMs: REFUSAL_MS }), 'refused', family)
      const ping = { ...place, protocol: 'ping', port: 0 } as const
      assert.equal(await cluster.ask('client', ping, { withinMs: REFUSAL_MS }), 'refused', family)
    }))

  it('keeps the destination from a hostPort of another program', async () => {
    sh(`${NFT} -f - <<'END'
table ip hostport { chain pre { type nat hook prerouting priority dstnat; tcp dport 80 dnat to 10.244.0.2:8080; }
}
END`)
    try {
      assert.equal(await cluster.ask('client', frontend(1, 'LoadBalancer', 'IPv4', 'tcp')), 'a node')
    } finally {
      run([NFT, 'delete', 'table', 'ip', 'hostport'])
    }
  })

  it('survives a flush of all rules, or is whole again', async () => {
    run([NFT, 'flush', 'ruleset'])
    await eventually(() => assert.match(list('ip6'), /set virtual-ips \{[^}]*elements/))
    for (const family of FAMILIES)
      assert.equal(await cluster.ask('client', frontend(1, 'ClusterIP', family, 'tcp')), 'a node')
  })

  it('is handed over when a second daemon runs before the first has ended', async () => {
    const next = bench.start('--healthz-bind-address', '127.0.0.1:10356', '--metrics-bind-address', '127.0.0.1:10349')
    await eventually(() => assert.match(list('ip'), /203|virtual-ips/))
    await bench.stop(daemon)
    daemon = next
    bench.write('5.yaml', ...everyKind(5, ['a']))
    await settled(SERVICES.length + 1)
    await eventually(() => {
      const { address } = frontend(5, 'ClusterIP', 'IPv4', 'tcp')
      assert.match(list('ip'), new RegExp(`${address.replaceAll('.', '\\.')} \\. tcp \\. 80`))
    })
    assert.equal(await cluster.ask('client', frontend(5, 'ClusterIP', 'IPv4', 'tcp')), 'a node')
  })

  it('has started no program', () => {
    assert.equal(existsSync(started), false)
  })

  it('is compared with what is wanted, element by element', async () => {
    const diff = await bench.command('diff')
    assert.deepEqual([diff.code, diff.stdout], [0, ''], diff.stderr)
    const explained = await bench.command('explain', 'demo/every-kind-4', '--output', 'json')
    assert.match(explained.stdout, /"nft-element"/)
    assert.match(explained.stdout, /table ip kube-ipvs, set source-ranges/)
    assert.doesNotMatch(explained.stdout, /"state": ?"(?:missing|differs|unknown)"/)
  })
})

describe('the nftables firewall on tables that belong to no socket', needs('nft'), () => {
  const signal = new AbortController().signal
  let netlink: NetlinkConnection
  let firewall: NftablesFirewall
  let watched: { close(): void }
  let resumed = 0
  const writers: number[] = []
  beforeEach(() => {
    freshNode()
    netlink = openNetfilter()
    const families = ['IPv4', 'IPv6'] as const
    firewall = new NftablesFirewall({
      kernel: {
        families,
        mayOwn: false,
        table: new PrivateTables(netlink, { families }),
        watch: (listener) => watchTables(netlink.portId, listener),
        audit: async () => undefined,
        connections: () => [],
        close: () => netlink.close(),
      },
      settings: {
        detectLocalMode: 'ClusterCIDR',
        clusterCIDR: '10.244.0.0/16',
        detectLocal: { bridgeInterface: '', interfaceNamePrefix: '' },
        iptables: { masqueradeAll: false, masqueradeBit: 14 },
      },
      nodeName: 'node0',
      problems: { report: () => undefined },
      log: silentLog,
      now: () => performance.now(),
      listener: { partPassed: () => undefined, postponedReady: () => void resumed++ },
    })
    watched = firewall.watch((portId) => void writers.push(portId))
  })
  afterEach(async () => {
    watched.close()
    await firewall.close()
    run([NFT, 'flush', 'ruleset'])
  })

  it('is whole again after every flush before a pass, and counts it as a repair three times', async () => {
    const reconciler = new Reconciler(firewall.stages(() => undefined))
    const pass = () => reconciler.pass({ signal, now: () => performance.now(), mayRemove: true })
    for (let index = 1; index <= 200; index++) {
      const one = frontendOf({ address: `10.96.1.${index}` })
      firewall.frontend(one.key, one)
    }
    await pass()
    const times: number[] = []
    for (let flush = 0; flush < 6; flush++) {
      const before = resumed
      run([NFT, 'flush', 'ruleset'])
      await eventually(() => assert.ok(resumed > before))
      await eventually(() => {
        assert.match(list('ip'), /10\.96\.1\.200 \. tcp \. 80/)
        assert.match(list('ip6'), /goto refuse-unknown-ports/)
      })
      const { failures, repairs } = await pass()
      assert.deepEqual(failures, [])
      times.push(Math.max(0, ...repairs.map((repair) => repair.times)))
      assert.equal(list('ip').match(/10\.96\.1\.\d+ \. tcp \. 80/g)?.length, 200)
      assert.match(list('ip'), /goto refuse-unknown-ports/)
    }
    // The announcements of a flush may arrive in two turns, and then count for one family after the other.
    assert.equal(Math.max(...times), 3, times.join())
    assert.equal(times.at(-1), 0, times.join())
    assert.ok(writers.length > 0)
  })

  it('is repaired again and again, each time by one pass that the announcement asks for', async (t) => {
    const reconciler = new Reconciler(firewall.stages(() => undefined))
    const pass = () => reconciler.pass({ signal, now: () => performance.now(), mayRemove: true })
    for (let index = 1; index <= 200; index++) {
      const one = frontendOf({ address: `10.96.1.${index}` })
      firewall.frontend(one.key, one)
    }
    await pass()
    const whole = FAMILIES.map((family) => list(family === 'IPv4' ? 'ip' : 'ip6'))
    const times: number[] = []
    for (let flush = 0; flush < FLUSHES; flush++) {
      const before = resumed
      run([NFT, 'flush', 'ruleset'])
      const start = performance.now()
      while (resumed === before) await turn()
      assert.deepEqual((await pass()).failures, [])
      times.push(performance.now() - start)
      assert.deepEqual(
        FAMILIES.map((family) => list(family === 'IPv4' ? 'ip' : 'ip6')),
        whole,
        `after flush ${flush + 1}`,
      )
    }
    t.diagnostic(`repaired within ${Math.min(...times).toFixed(1)} to ${Math.max(...times).toFixed(1)} ms`)
  })

  it('repairs one element that another program deleted', async () => {
    const reconciler = new Reconciler(firewall.stages(() => undefined))
    const pass = () => reconciler.pass({ signal, now: () => performance.now(), mayRemove: true })
    const one = frontendOf({ address: '10.96.1.1' })
    firewall.frontend(one.key, one)
    await pass()
    const before = resumed
    run([NFT, 'delete', 'element', 'ip', 'kube-ipvs', 'cluster-ips', '{ 10.96.1.1 . tcp . 80 }'])
    await eventually(() => assert.ok(resumed > before))
    const { repairs } = await pass()
    assert.deepEqual(
      repairs.map(({ key }) => key),
      ['ip element cluster-ips 10.96.1.1 . tcp . 80'],
    )
  })

  it('is found and removed by what comes after it, which knows its virtual servers', async () => {
    const one = frontendOf({ address: '10.96.1.1' })
    firewall.frontend(one.key, one)
    await new Reconciler(firewall.stages(() => undefined)).pass({ signal, now: () => 0, mayRemove: true })
    assert.equal(await NFTABLES_FIREWALL.isLeft(['IPv4', 'IPv6'], signal), true)
    const remains = await NFTABLES_FIREWALL.remains(['IPv4', 'IPv6'], signal)
    assert.ok(remains !== undefined)
    const isOwned = await remains.owned(new Set(), signal)
    assert.deepEqual([isOwned(one.key), isOwned('10.96.1.2:80/tcp')], [true, false])
    await new Reconciler(remains.removal()).pass({ signal, now: () => 0, mayRemove: true })
    remains.close()
    assert.equal(await NFTABLES_FIREWALL.isLeft(['IPv4', 'IPv6'], signal), false)
    assert.doesNotMatch(run([NFT, 'list', 'ruleset']), /kube-ipvs/)
  })
})
