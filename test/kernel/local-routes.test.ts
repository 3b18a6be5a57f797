/**
 * Virtual IPs as local routes (`kubeIPVS.virtualAddresses: routes`) on a real kernel: drift,
 * restarts with either setting, other addresses of the node, cleanup, the switch to iptables mode,
 * and answers to ARP. traffic-*.test.ts send traffic to them.
 */
import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'
import { Cluster } from '../support/cluster.ts'
import { Workbench } from '../support/daemon.ts'
import { node, service, slice } from '../support/manifests.ts'
import { boundAddresses, freshNode, localRoutes } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'
import { bothFamilies, everyKind, frontend, settled } from '../support/every-kind.ts'
import { parseMetrics } from '../support/metrics-text.ts'

const routeLines = (): string[] =>
  sh('ip route show table local proto 73; ip -6 route show table local proto 73')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
const IPV4 = 'local 10.96.0.1 dev lo scope host src 10.0.2.15'
const IPV6 = 'local fd00:10:96::1 dev lo src fd00:2::15 metric 1024 pref medium'

/** Operations since the start of the daemon, by table; only what is not 0. */
async function operations(): Promise<Readonly<Record<string, number>>> {
  const text = await (await fetch('http://127.0.0.1:10249/metrics')).text()
  const done: Record<string, number> = {}
  for (const { labels, value } of parseMetrics(text).get('kubeipvs_operations_total')?.samples ?? [])
    if (value > 0) done[labels.get('table') ?? ''] = (done[labels.get('table') ?? ''] ?? 0) + value
  return done
}

describe('local routes', () => {
  let bench: Workbench
  let daemon: ChildProcess
  beforeEach(async () => {
    freshNode()
    sh('ip address add fd00:2::15/64 dev eth0 nodad')
    bench = new Workbench({}, { kubeIPVS: { virtualAddresses: 'routes' }, metricsBindAddress: '127.0.0.1:10249' })
    bench.write('node.yaml', node(['10.0.2.15', 'fd00:2::15']))
    bench.write(
      'web.yaml',
      service('web', { clusterIP: '10.96.0.1', clusterIPs: ['10.96.0.1', 'fd00:10:96::1'] }),
      slice('web', ['10.244.0.1']),
    )
    daemon = bench.start()
    await eventually(() => assert.deepEqual(routeLines(), [IPV4, IPV6]))
  })
  afterEach(() => bench.close())

  it('have an address of the node as their source, and no address is on kube-ipvs0', () => {
    assert.deepEqual(boundAddresses(), [])
    assert.match(sh('ip route get 10.96.0.1'), /local 10\.96\.0\.1 .*src 10\.0\.2\.15/)
    assert.match(sh('ip route get fd00:10:96::1'), /src fd00:2::15/)
  })

  it('are put right after other programs have deleted or replaced them', async () => {
    sh('ip route delete local 10.96.0.1 dev lo table local; ip -6 route delete local fd00:10:96::1 dev lo table local')
    await eventually(() => assert.deepEqual(routeLines(), [IPV4, IPV6]))
    sh('ip route replace local 10.96.0.1 dev lo table local src 127.0.0.1 proto static')
    await eventually(() => assert.ok(routeLines().includes(IPV4)))
    sh('ip route prepend local 10.96.0.1 dev lo table local src 127.0.0.1 proto 73')
    await eventually(() => assert.deepEqual(routeLines(), [IPV4, IPV6]))
  })

  it('stay when other programs have routes and addresses, which stay too', async () => {
    sh('ip route add local 198.18.0.1 dev lo table local proto static; ip address add 198.18.0.2/32 dev lo')
    bench.write('other.yaml', service('other', { clusterIP: '10.96.0.2' }))
    await eventually(() => assert.deepEqual(localRoutes(), ['10.96.0.1/32', '10.96.0.2/32', 'fd00:10:96::1/128']))
    bench.remove('other.yaml')
    await eventually(() => assert.deepEqual(routeLines(), [IPV4, IPV6]))
    assert.match(sh('ip route show table local'), /local 198\.18\.0\.1 .*proto static/)
    assert.match(sh('ip route show table local'), /local 198\.18\.0\.2 /)
    sh('ip route delete local 198.18.0.1 dev lo table local; ip address delete 198.18.0.2/32 dev lo')
  })

  it('are adopted by the next start, which writes nothing', async () => {
    assert.equal(await bench.stop(daemon), 143)
    daemon = bench.start()
    bench.write('marker.yaml', service('marker', { clusterIP: '10.96.0.9' }))
    await eventually(() => assert.equal(localRoutes().length, 3))
    // The ports are served a moment later than Services.
    await eventually(async () => {
      const { routes, addresses } = await operations()
      assert.deepEqual([routes, addresses], [1, undefined])
    })
  })

  it('become addresses when the next start has the other setting, and routes again', async () => {
    for (const virtualAddresses of ['addresses', 'routes'] as const) {
      assert.equal(await bench.stop(daemon), 143)
      bench.configure({ kubeIPVS: { virtualAddresses } })
      daemon = bench.start()
      const both = ['10.96.0.1/32', 'fd00:10:96::1/128']
      const expected = virtualAddresses === 'routes' ? [[], both] : [both, []]
      await eventually(() => assert.deepEqual([boundAddresses(), localRoutes()], expected))
    }
    assert.deepEqual(routeLines(), [IPV4, IPV6])
  })

  it('get another source with another address of the node, and none when it has none', async () => {
    sh('ip address add 10.0.2.16/24 dev eth0; ip address add fd00:2::16/64 dev eth0 nodad')
    bench.write('node.yaml', node(['10.0.2.16', 'fd00:2::16']))
    const [ipv4, ipv6] = [IPV4, IPV6].map((line) => line.replace('15', '16'))
    await eventually(() => assert.deepEqual(routeLines(), [ipv4, ipv6]))
    // Not an address of this machine.
    bench.write('node.yaml', node(['203.0.113.7', 'fd00:203::7']))
    await eventually(() =>
      assert.deepEqual(routeLines(), [
        'local 10.96.0.1 dev lo scope host src 10.96.0.1',
        'local fd00:10:96::1 dev lo metric 1024 pref medium',
      ]),
    )
  })

  it('are removed by a cleanup', async () => {
    assert.equal(await bench.stop(daemon), 143)
    assert.equal((await bench.run('cleanup')).code, 0)
    assert.deepEqual(routeLines(), [])
  })

  it('are removed after the switch to iptables mode', async () => {
    assert.equal(await bench.stop(daemon), 143)
    bench.configure({ mode: 'iptables' })
    daemon = bench.start()
    await eventually(() => assert.deepEqual(routeLines(), []), 30_000)
  })
})

describe('ARP for a virtual IP', () => {
  const client = `client-${process.pid}`
  let cluster: Cluster
  before(() => {
    freshNode()
    sh('ip link delete eth0')
    cluster = Cluster.start()
  })
  after(() => cluster.stop())

  for (const virtualAddresses of ['addresses', 'routes'] as const)
    for (const strictARP of [false, true])
      it(`is ${strictARP ? 'not ' : ''}answered with ${virtualAddresses} and strictARP ${strictARP}`, async () => {
        const bench = bothFamilies({ strictARP }, undefined, virtualAddresses)
        const { address, port } = frontend(1, 'LoadBalancer', 'IPv4', 'tcp')
        try {
          bench.write('web.yaml', ...everyKind(1, ['a']))
          bench.start()
          await settled(1, undefined, virtualAddresses)
          // What the test before left in the kernel is complete at once.
          await eventually(() =>
            assert.equal(sh('sysctl -n net.ipv4.conf.all.arp_ignore').trim(), strictARP ? '1' : '0'),
          )
          sh(`ip -n ${client} route replace ${address}/32 dev eth0; ip -n ${client} neigh flush dev eth0`)
          const asked = strictARP ? { withinMs: 4000 } : {}
          const outcome = await cluster.ask('client', { protocol: 'tcp', address, port }, asked)
          if (strictARP) assert.notEqual(outcome, 'a node')
          else assert.equal(outcome, 'a node')
        } finally {
          sh('sysctl -qw net.ipv4.conf.all.arp_ignore=0 net.ipv4.conf.all.arp_announce=0')
          sh(`ip -n ${client} route flush ${address}/32`)
          await bench.close()
        }
      })
})
