/**
 * Established connections and a steady rate of new ones, at every kind of frontend and in both
 * families, while the firewall of ipvs mode is switched, and the mode with it: none is dropped and
 * none fails. Each step continues with what the step before left.
 */
import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { after, before, describe, it, type TestContext } from 'node:test'
import type { HeldReport, TrafficClient } from '../../dev/bench/traffic-client.ts'
import { Cluster } from '../support/cluster.ts'
import { ClusterTraffic } from '../support/cluster-traffic.ts'
import { type Workbench } from '../support/daemon.ts'
import { boundAddresses, kubeLines, rulesText, virtualServers } from '../support/kernel-state.ts'
import { eventually } from '../support/deadline.ts'
import { bothFamilies, everyKind, FAMILIES, frontend, KINDS, settled } from '../support/every-kind.ts'
import { rowsOfRun } from '../support/extent.ts'
import { sh } from '../support/programs.ts'
import { needs } from './needs.ts'

const [ESTABLISHED = 300] = rowsOfRun([1000, 300], (count) => count === 300)
const PERIOD_MS = 2000
const PER_SECOND = 400
const [NEW = 2000] = rowsOfRun([10_000, 2000], (count) => count === 2000)
/** Each family tries again after 1, 2, 4, 8, 16 s. */
const [FAILURES = 4] = rowsOfRun([10, 4], (count) => count === 4)
/** Virtual servers wait for their rules for up to 15 s. */
const RULES_MS = 30_000
/** This mount namespace is the test's own. */
const FAILING_RESTORE =
  'folder=$(mktemp -d /run/sbin-XXXXXX) && cp -a /usr/sbin/. $folder && for program in $folder/ip*tables*-restore; do rm $program; printf "#!/bin/sh\\nexit 4\\n" >$program; chmod +x $program; done && mount --bind $folder /usr/sbin'
/** Audits have a small share of the processor. */
const AUDIT_MS = 60_000
const PLACES = FAMILIES.flatMap((family) => KINDS.map((kind) => frontend(1, kind, family, 'tcp')))
const CIDRS = { clusterCIDR: '10.244.0.0/16,fd00:10:244::/47', iptables: { minSyncPeriod: '0s' } }

describe('the firewall of ipvs mode', needs('iptables-nft', 'nft', 'program:gcc'), () => {
  let cluster: Cluster
  let traffic: ClusterTraffic
  let bench: Workbench
  let daemon: ChildProcess
  let held: TrafficClient<HeldReport>
  before(async () => {
    cluster = Cluster.start([])
    traffic = await ClusterTraffic.start()
    bench = bothFamilies({ syncPeriod: '2s' }, CIDRS)
    bench.write('web.yaml', ...everyKind(1, ['a', 'c']))
    daemon = bench.start()
    await settled(1, 2)
    held = await traffic.hold(PLACES, ESTABLISHED, PERIOD_MS)
  })
  after(async () => {
    await traffic.close()
    await bench.close()
    cluster.stop()
  })

  const rules = (): string[] =>
    [...kubeLines('iptables-save'), ...kubeLines('ip6tables-save')].filter((line) => !line.includes('KUBE-FIREWALL'))
  const privateTables = (): number => rulesText('nft list tables').match(/^table ip6? kube-ipvs$/gm)?.length ?? 0
  const isNftables = (): void => {
    assert.equal(privateTables(), 2)
    assert.deepEqual(rules(), [])
    assert.doesNotMatch(sh('ipset list -n'), /KUBE-/)
  }
  const isIptables = (): void => {
    assert.equal(privateTables(), 0)
    assert.ok(rules().some((line) => line.startsWith(':KUBE-LOAD-BALANCER')))
  }
  const answer = async (path: string): Promise<string> => (await fetch(`http://127.0.0.1:10249${path}`)).text()
  const check = async (t: TestContext, ...clients: TrafficClient<HeldReport>[]): Promise<void> => {
    const reports = await Promise.all(clients.map((client) => client.report()))
    t.diagnostic(JSON.stringify(reports))
    for (const { connections, dropped } of reports)
      assert.deepEqual([connections, dropped], [ESTABLISHED, 0], clients.map((it) => it.failures.slice(0, 1000)).join())
  }
  /** `work` is told how to say when something has been reached. */
  const whileConnecting = async (
    t: TestContext,
    work: (reached: (what: string) => void) => Promise<void>,
  ): Promise<void> => {
    const fresh = await traffic.rate(PLACES, PER_SECOND)
    const times: string[] = []
    const reached = (what: string): void => void times.push(`${new Date().toISOString().slice(11, 23)} ${what}`)
    reached('traffic has begun')
    bench.log = ''
    await work(reached)
    await eventually(async () => assert.ok((await fresh.report()).made >= NEW), 60_000)
    const report = await fresh.report()
    t.diagnostic(JSON.stringify(report))
    assert.equal(report.failed, 0, [fresh.failures.slice(0, 1000), ...times, bench.log.slice(0, 10_000)].join('\n'))
    await fresh.close()
    assert.equal(daemon.exitCode, null)
    assert.equal((await fetch('http://127.0.0.1:10256/healthz')).status, 200)
  }

  it('is iptables where that works, and status says so', async () => {
    await eventually(isIptables)
    const { stdout } = await bench.command('status')
    assert.match(stdout, /^firewall +iptables: this node has everything for it$/m)
    const metric = 'kubeipvs_firewall{active="iptables",configured="auto",reason=""} 1'
    assert.ok((await answer('/metrics')).includes(metric))
  })

  it('is switched to nftables and back: no new connection fails, and servers and addresses are not touched', async (t) => {
    const [servers, addresses] = [virtualServers(), boundAddresses()]
    await whileConnecting(t, async (reached) => {
      bench.configure({ ...CIDRS, kubeIPVS: { firewall: 'nftables' } })
      await eventually(isNftables, RULES_MS)
      reached('nftables')
      assert.match((await bench.command('status')).stdout, /^firewall +nftables: kubeIPVS\.firewall is nftables$/m)
      const metric = 'kubeipvs_firewall{active="nftables",configured="nftables",reason=""} 1'
      assert.ok((await answer('/metrics')).includes(metric))
      assert.deepEqual([virtualServers(), boundAddresses()], [servers, addresses])
      bench.configure({ ...CIDRS, kubeIPVS: { firewall: 'iptables' } })
      await eventually(isIptables, RULES_MS)
    })
    assert.deepEqual([virtualServers(), boundAddresses()], [servers, addresses])
    assert.equal(await answer('/proxyMode'), 'ipvs')
    await check(t, held)
  })

  it('is replaced by a restart too, and leaves nothing between clients and another mode', async (t) => {
    // A daemon switches three times in a quarter of an hour, so it is another one.
    await bench.stop(daemon)
    bench.configure({ ...CIDRS, kubeIPVS: { firewall: 'nftables' } })
    daemon = bench.start()
    await eventually(isNftables, RULES_MS)
    await whileConnecting(t, async (reached) => {
      bench.configure({ ...CIDRS, mode: 'iptables', kubeIPVS: { firewall: 'nftables' } })
      await eventually(async () => assert.equal(await answer('/proxyMode'), 'iptables'), RULES_MS)
      reached('iptables mode')
      await eventually(() => assert.match(rulesText('iptables-save'), /^:KUBE-SVC-/m), RULES_MS)
      // Connections keep their virtual servers, and those the sets that say whose they are, and the refusals.
      await eventually(() => {
        const table = rulesText('nft list table ip kube-ipvs')
        assert.doesNotMatch(table, /jump|fully-random|mark set/)
        assert.match(table, /reject/)
      })
      await eventually(() => assert.ok(virtualServers().every((line) => !/^-a -t .* -w [1-9]/.test(line))))
      reached('the way back')
      bench.configure({ ...CIDRS, mode: 'ipvs', kubeIPVS: { firewall: 'nftables' } })
      await eventually(isNftables, RULES_MS)
      await settled(1, 2)
    })
    await check(t, held)
  })

  it('removes rules and sets that another proxy writes beside nftables', async () => {
    sh('iptables -t nat -N KUBE-SERVICES && iptables -t nat -I PREROUTING -j KUBE-SERVICES')
    sh('ipset create KUBE-IPVS-IPS hash:ip && iptables -N KUBE-IPVS-FILTER && iptables -I INPUT -j KUBE-IPVS-FILTER')
    sh('iptables -A KUBE-IPVS-FILTER -m set --match-set KUBE-IPVS-IPS dst -j REJECT')
    await eventually(isNftables, AUDIT_MS)
  })

  it('stays as long as the rules of the other one cannot be written', async () => {
    await bench.stop(daemon)
    bench.configure({ ...CIDRS, kubeIPVS: { firewall: 'iptables' } })
    sh(FAILING_RESTORE)
    try {
      bench.log = ''
      daemon = bench.start()
      const failures = (): number => bench.log.match(/"Failed to execute iptables-restore"/g)?.length ?? 0
      await eventually(() => assert.ok(failures() > FAILURES), RULES_MS)
      const first = failures()
      // A pass over the tables follows each failed restore. The waits between restores grow to 30 s.
      await eventually(() => assert.ok(failures() > first + 1), AUDIT_MS)
      assert.equal(privateTables(), 2)
    } finally {
      // One of its programs may run at this moment.
      sh('umount --lazy /usr/sbin')
    }
    await eventually(isIptables, RULES_MS)
    bench.configure({ ...CIDRS, kubeIPVS: { firewall: 'nftables' } })
    await eventually(isNftables, RULES_MS)
  })

  it('is removed by cleanup, with the virtual servers that it names', async () => {
    await held.close()
    await bench.stop(daemon)
    const preview = await bench.run('cleanup', '--dry-run')
    assert.deepEqual([preview.code, preview.stderr], [0, ''])
    assert.match(preview.stdout, /^nft delete table ip kube-ipvs$/m)
    const { code, stderr } = await bench.run('cleanup')
    assert.deepEqual([code, stderr], [0, ''])
    assert.deepEqual([privateTables(), virtualServers(), boundAddresses()], [0, [], []])
    const again = await bench.run('cleanup')
    assert.deepEqual([again.code, again.stdout, again.stderr], [0, '', ''])
  })
})
