/**
 * A kernel whose IPVS is a module. First the kernel loads it by itself; then it may load none, as
 * on a node where only an operator does: IPVS is missing at a start, is loaded in two steps while
 * the daemon runs, and is unloaded and loaded again.
 */
import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import type { HeldReport, TrafficClient } from '../../../dev/bench/traffic-client.ts'
import { Cluster } from '../../support/cluster.ts'
import { ClusterTraffic } from '../../support/cluster-traffic.ts'
import { type Workbench } from '../../support/daemon.ts'
import { rulesText, virtualServers } from '../../support/kernel-state.ts'
import { sh } from '../../support/programs.ts'
import { eventually } from '../../support/deadline.ts'
import { amountOfRun } from '../../support/extent.ts'
import { bothFamilies, everyKind, FAMILIES, frontend, settled } from '../../support/every-kind.ts'
import { needs } from '../needs.ts'

/** The program that the kernel starts to load a module. */
const MODPROBE = '/proc/sys/kernel/modprobe'
const ESTABLISHED = amountOfRun(1000, 300)
const PERIOD_MS = 2000
/** This kernel is slower than the others. */
const START_MS = 30_000
/** New connections during the return, at a steady rate. */
const NEW = amountOfRun(2000, 600)
const PER_SECOND = 200
const PLACES = FAMILIES.map((family) => frontend(1, 'ClusterIP', family, 'tcp'))
/** xt_ipvs is the match of a rule of ours, which is left out as long as its module is not loaded again. */
const UNLOAD = "modprobe -r xt_ipvs $(lsmod | grep -o '^ip_vs_[a-z]*') ip_vs"
const NO_SCHEDULER =
  /"The kernel lacks a part of what ipvs mode needs; iptables mode stays" lacks="[^"]*\(module ip_vs_rr\)"/

describe('IPVS as a module', needs('program:gcc'), () => {
  let cluster: Cluster
  let traffic: ClusterTraffic
  let bench: Workbench
  let daemon: ChildProcess
  let held: TrafficClient<HeldReport>
  const modprobe = readFileSync(MODPROBE, 'utf8').trim()
  before(async () => {
    cluster = Cluster.start([])
    traffic = await ClusterTraffic.start()
    bench = bothFamilies(
      // No audit runs in this time: the kernel announces that IPVS was unloaded.
      { syncPeriod: '1h', tcpTimeout: '20m' },
      {
        clusterCIDR: '10.244.0.0/16,fd00:10:244::/47',
        iptables: { minSyncPeriod: '0s' },
        kubeIPVS: { switchBack: true },
      },
    )
    bench.write('web.yaml', ...everyKind(1, ['a', 'c']))
  })
  after(async () => {
    writeFileSync(MODPROBE, modprobe)
    await traffic.close()
    await bench.close()
    cluster.stop()
  })

  const get = async (path: string): Promise<string> => (await fetch(`http://127.0.0.1:10249${path}`)).text()
  const runs = async (mode: string, reason: string): Promise<void> => {
    assert.equal(await get('/proxyMode'), mode)
    const metric = `kubeipvs_mode{active="${mode}",configured="ipvs",reason="${reason}"} 1`
    assert.ok((await get('/metrics')).split('\n').includes(metric), metric)
    assert.equal((await fetch('http://127.0.0.1:10256/healthz')).status, 200)
  }
  /** The Service is served by rules. Debian's user-mode Linux has only the tables of iptables-legacy. */
  const hasRules = (): void => {
    const rules = ['iptables-legacy', 'ip6tables-legacy', 'iptables', 'ip6tables']
      .map((name) => rulesText(`${name}-save`))
      .join('')
    for (const address of ['10.96.0.1/32', 'fd00:10:96::1/128'])
      assert.match(rules, new RegExp(`^-A KUBE-SERVICES -d ${address} .* -j KUBE-SVC-`, 'm'))
  }
  const isLoaded = (module: string): boolean => new RegExp(`^${module} `, 'm').test(sh('lsmod'))
  const logged = (text: string): number => bench.log.split(text).length - 1
  const check = async (): Promise<void> => {
    const { connections, dropped } = await held.report()
    assert.deepEqual([connections, dropped], [ESTABLISHED, 0], held.failures.slice(0, 1000))
  }
  /** New virtual servers wait for their rules up to 15 s, and the rules of iptables mode serve meanwhile. */
  const hasReturned = (): Promise<void> => settled(1, 2, undefined, START_MS)
  const load = (...modules: readonly string[]): void => {
    for (const module of modules) sh(`modprobe ${module}`)
    daemon.kill('SIGHUP')
  }

  it('is loaded with all modules that either mode needs, where the kernel may load them', async () => {
    // The kernel may still be removing the network namespace of the file before.
    await eventually(() => void sh(UNLOAD), START_MS)
    const first = bench.start()
    await eventually(() => assert.ok(isLoaded('ip_vs') && isLoaded('ip_vs_rr')), START_MS)
    await hasReturned()
    bench.configure({ mode: 'iptables' })
    await eventually(hasRules, START_MS)
    await bench.stop(first)
  })

  it('is missing, and the daemon serves in iptables mode, where the kernel may load none', async () => {
    bench.configure({ mode: 'ipvs' })
    assert.equal((await bench.run('cleanup')).code, 0)
    await eventually(() => void sh(UNLOAD), START_MS)
    writeFileSync(MODPROBE, '/bin/false')
    bench.log = ''
    daemon = bench.start()
    await eventually(() => runs('iptables', 'ipvs-missing'), START_MS)
    assert.equal(logged('"Falling back to iptables mode"'), 1)
    await eventually(hasRules, START_MS)
    held = await traffic.hold(PLACES, ESTABLISHED, PERIOD_MS)
  })

  it('is there without the scheduler, and the daemon stays in iptables mode with one line', async () => {
    load('ip_vs')
    await eventually(() => assert.match(bench.log, NO_SCHEDULER))
    await runs('iptables', 'ipvs-missing')
    assert.equal(daemon.exitCode, null)
  })

  it(`is there with all modules of the remedy, and the daemon returns to ipvs mode and neither drops one of ${ESTABLISHED} connections nor refuses a new one`, async (t) => {
    // What systemd-modules-load does with the file that the warning names.
    const names = /\/etc\/modules-load\.d\/kube-ipvs\.conf that has one of these names a line: ([\w ]+);/.exec(
      bench.log,
    )?.[1]
    const fresh = await traffic.rate(PLACES, PER_SECOND)
    load(...(names?.split(' ') ?? []))
    await eventually(() => runs('ipvs', ''), START_MS)
    await hasReturned()
    await eventually(async () => assert.ok((await fresh.report()).made >= NEW), 60_000)
    const report = await fresh.report()
    t.diagnostic(JSON.stringify(report))
    assert.equal(report.failed, 0, fresh.failures.slice(0, 1000))
    await fresh.close()
    assert.equal(logged('"The kernel lacks a part of what ipvs mode needs; iptables mode stays"'), 1)
    await eventually(() =>
      assert.match(bench.log, /"Event occurred" object="node0" kind="Node" type="Normal" reason="ReturnedToIpvs" /),
    )
    assert.doesNotMatch((await bench.command('status')).stdout, /^fallback/m)
    await check()
    t.diagnostic(JSON.stringify(await held.report()))
  })

  it('is not unloaded by the kernel while there are virtual servers', () => assert.throws(() => sh(UNLOAD), /in use/))

  it('is unloaded all the same, and the daemon falls back while it runs, and returns once more', async (t) => {
    daemon.kill('SIGSTOP')
    sh(`ipvsadm -C; ${UNLOAD}`)
    daemon.kill('SIGCONT')
    await eventually(() => runs('iptables', 'ipvs-missing'), START_MS)
    assert.match((await bench.command('status')).stdout, /^fallback +from ipvs mode: the kernel has no IPVS/m)
    await check()
    load('ip_vs', 'ip_vs_rr')
    await eventually(() => runs('ipvs', ''), START_MS)
    await hasReturned()
    assert.ok(virtualServers().length > 0)
    await check()
    t.diagnostic(JSON.stringify(await held.report()))
  })

  it('is unloaded and loaded again before the daemon looks, which writes the settings and timeouts once more', async () => {
    const settings = (): readonly string[] => [
      ...['conntrack', 'expire_nodest_conn', 'expire_quiescent_template'].map((name) =>
        readFileSync(`/proc/sys/net/ipv4/vs/${name}`, 'utf8').trim(),
      ),
      sh('ipvsadm -L --timeout').trim(),
    ]
    const timeouts = (tcp: number): string => `Timeout (tcp tcpfin udp): ${tcp} 120 300`
    assert.deepEqual(settings(), ['1', '1', '1', timeouts(1200)])
    daemon.kill('SIGSTOP')
    sh(`ipvsadm -C; ${UNLOAD}; modprobe ip_vs; modprobe ip_vs_rr`)
    assert.deepEqual(settings(), ['0', '0', '0', timeouts(900)])
    daemon.kill('SIGCONT')
    await eventually(() => assert.deepEqual(settings(), ['1', '1', '1', timeouts(1200)]), START_MS)
    await hasReturned()
    await runs('ipvs', '')
    assert.equal(await bench.stop(daemon, 'SIGHUP'), 129)
  })
})
