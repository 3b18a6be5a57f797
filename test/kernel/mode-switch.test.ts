/**
 * A thousand established connections (fewer in a quick run) and a steady rate of new ones, at every kind of frontend and
 * in both families, while the mode is switched and the daemon is restarted: none is dropped and
 * none fails. Each step continues with what the step before left.
 */
import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { after, before, describe, it, type TestContext } from 'node:test'
import type { HeldReport, TrafficClient } from '../../dev/bench/traffic-client.ts'
import { Cluster } from '../support/cluster.ts'
import { ClusterTraffic } from '../support/cluster-traffic.ts'
import { type Workbench } from '../support/daemon.ts'
import { boundAddresses, links, rulesText, setsText, virtualServers } from '../support/kernel-state.ts'
import { eventually, until } from '../support/deadline.ts'
import { amountOfRun } from '../support/extent.ts'
import { bothFamilies, everyKind, FAMILIES, frontend, KINDS, settled } from '../support/every-kind.ts'
import { needs } from './needs.ts'

const ESTABLISHED = amountOfRun(1000, 300)
const PERIOD_MS = 2000
const NEW = amountOfRun(10_000, 2000)
const PER_SECOND = 400
/** IPVS forgets a connection that was reset after 10 s, and connections are counted every 10 s. */
const FORGOTTEN_MS = 40_000
/** Virtual servers wait for their rules for up to 15 s. */
const RULES_MS = 30_000
const PLACES = FAMILIES.flatMap((family) => KINDS.map((kind) => frontend(1, kind, family, 'tcp')))

describe('traffic', needs('iptables-nft', 'program:gcc'), () => {
  let cluster: Cluster
  let traffic: ClusterTraffic
  let bench: Workbench
  let daemon: ChildProcess
  let ofIpvs: TrafficClient<HeldReport>
  let ofIptables: TrafficClient<HeldReport>
  before(async () => {
    cluster = Cluster.start([])
    traffic = await ClusterTraffic.start()
    const clusterCIDR = '10.244.0.0/16,fd00:10:244::/47'
    bench = bothFamilies({ syncPeriod: '10s' }, { clusterCIDR, iptables: { minSyncPeriod: '0s' } })
    bench.write('web.yaml', ...everyKind(1, ['a', 'c']))
    daemon = bench.start()
    await settled(1, 2)
    ofIpvs = await traffic.hold(PLACES, ESTABLISHED, PERIOD_MS)
  })
  after(async () => {
    await traffic.close()
    await bench.close()
    cluster.stop()
  })

  const check = async (t: TestContext, ...clients: TrafficClient<HeldReport>[]): Promise<void> => {
    const reports = await Promise.all(clients.map((client) => client.report()))
    t.diagnostic(JSON.stringify(reports))
    for (const { connections, dropped } of reports)
      assert.deepEqual([connections, dropped], [ESTABLISHED, 0], clients.map((it) => it.failures.slice(0, 1000)).join())
  }
  const serviceChains = (): number =>
    (rulesText('iptables-save') + rulesText('ip6tables-save')).match(/^:KUBE-S(VC|EP)-/gm)?.length ?? 0
  const chainsOfIpvs = (): number =>
    (rulesText('iptables-save') + rulesText('ip6tables-save')).match(/^:KUBE-(LOAD-BALANCER|NODE-PORT )/gm)?.length ?? 0
  const isIptables = (): void => {
    assert.ok(serviceChains() > 0)
    assert.equal(chainsOfIpvs(), 0)
  }
  const isIpvs = (): void => assert.equal(serviceChains(), 0)
  const proxyMode = async (): Promise<string> => (await fetch('http://127.0.0.1:10249/proxyMode')).text()
  /** Real servers of TCP with a weight that is not 0. */
  const weighted = (): string[] => virtualServers().filter((line) => /^-a -t .* -w [1-9]/.test(line))

  it('of 10,000 new connections none fails while the running daemon switches to iptables mode and back', async (t) => {
    const fresh = await traffic.rate(PLACES, PER_SECOND)
    bench.configure({ mode: 'iptables' })
    await eventually(isIptables)
    await eventually(async () => assert.equal(await proxyMode(), 'iptables'))
    await until('the count of connections', () => /Connections still use virtual servers/.test(bench.log))
    // Connections of ipvs mode keep their virtual servers, which take no new ones.
    assert.ok(virtualServers().length > 0)
    assert.ok(boundAddresses().length > 0)
    await eventually(() => assert.deepEqual(weighted(), []))
    ofIptables = await traffic.hold(PLACES, ESTABLISHED, PERIOD_MS)
    await check(t, ofIpvs, ofIptables)
    bench.configure({ mode: 'ipvs' })
    // Until all rules of ipvs mode are there, those of iptables mode stay.
    await eventually(isIpvs, RULES_MS)
    await settled(1, 2)
    await eventually(() => assert.ok(weighted().length > 0))
    await eventually(async () => assert.ok((await fresh.report()).made >= NEW), 60_000)
    const report = await fresh.report()
    t.diagnostic(JSON.stringify(report))
    assert.equal(report.failed, 0, fresh.failures.slice(0, 1000))
    await fresh.close()
    assert.equal(daemon.exitCode, null)
    assert.equal(await proxyMode(), 'ipvs')
    assert.equal((await fetch('http://127.0.0.1:10256/healthz')).status, 200)
  })

  it('of 1,000 connections of either mode none is dropped by the switches', async (t) => {
    await check(t, ofIpvs, ofIptables)
    await ofIptables.close()
  })

  it('of 1,000 connections none is dropped by a restart, a SIGKILL and an upgrade by a second process', async (t) => {
    /** A daemon has listed everything; then a change reaches the kernel, which everything before it precedes. */
    const passIsDone = async (): Promise<void> => {
      bench.write('more.yaml', ...everyKind(2, ['a']))
      await settled(2)
      bench.remove('more.yaml')
      await settled(1)
    }
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      await bench.stop(daemon, signal)
      daemon = bench.start()
      await passIsDone()
    }
    const starts = (): number => bench.log.split('"Caches are synced"').length
    const count = starts()
    const next = bench.start()
    await until('the objects of the second daemon', () => starts() > count)
    await passIsDone()
    await bench.stop(daemon)
    daemon = next
    await passIsDone()
    await check(t, ofIpvs)
  })

  it('in iptables mode leaves nothing of ipvs mode after its last connection', async () => {
    bench.configure({ mode: 'iptables' })
    await eventually(isIptables)
    await ofIpvs.close()
    await eventually(() => assert.deepEqual([virtualServers(), boundAddresses()], [[], []]), FORGOTTEN_MS)
    await eventually(() => {
      assert.doesNotMatch(links(), /kube-ipvs0/)
      assert.doesNotMatch(setsText('list', '-n'), /KUBE-/)
      assert.doesNotMatch(rulesText('iptables-save') + rulesText('ip6tables-save'), /KUBE-IPVS/)
    })
    await bench.stop(daemon)
  })

  it('through virtual servers of ipvs mode ends after kubeIPVS.drainDeadline', async () => {
    const kubeIPVS = { drainDeadline: '3s' }
    bench.configure({ mode: 'ipvs', kubeIPVS })
    daemon = bench.start()
    await settled(1, 2)
    await eventually(isIpvs)
    const held = await traffic.hold(PLACES, PLACES.length, 200)
    bench.configure({ mode: 'iptables', kubeIPVS })
    await eventually(() => assert.ok(serviceChains() > 0))
    assert.equal((await held.report()).dropped, 0)
    await eventually(() => assert.deepEqual([virtualServers(), boundAddresses()], [[], []]))
    await held.close()
  })
})
