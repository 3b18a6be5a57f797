/** The daemon configured for ipvs mode on this machine's own kernel, where that kernel has no IPVS. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import { needs } from '../kernel/needs.ts'
import { deadline } from '../support/deadline.ts'
import type { FallbackRun } from './fallback-in-namespace.ts'

const INSIDE = new URL('./fallback-in-namespace.ts', import.meta.url).pathname

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN

describe('the daemon in ipvs mode on a kernel without ip_vs', needs('kernel-without:ip_vs', 'iptables-nft'), () => {
  let run: FallbackRun
  before(
    async () => {
      const { stdout } = await promisify(execFile)('unshare', ['--net', process.execPath, INSIDE])
      run = JSON.parse(stdout) as FallbackRun // fallback-in-namespace.ts wrote it
    },
    { timeout: deadline(120_000) },
  )

  it('serves every Service, and the time is told', (t) => {
    const [ipvs, iptables] = [median(run.servedMs.ipvs), median(run.servedMs.iptables)]
    t.diagnostic(`${ipvs.toFixed(0)} ms configured for ipvs mode, ${iptables.toFixed(0)} ms in iptables mode`)
    assert.ok(ipvs > 0 && iptables > 0, JSON.stringify(run.servedMs))
  })

  it('logs one warning with the reason and the remedy', () => {
    assert.equal(run.warnings.length, 1, run.warnings.join('\n'))
    assert.match(run.warnings[0] ?? '', /"Falling back to iptables mode" err="the kernel has no IPVS \(module ip_vs\)"/)
    assert.match(run.warnings[0] ?? '', /modprobe ip_vs.*\/etc\/modules-load\.d\/kube-ipvs\.conf.*ip_vs ip_vs_rr /)
    assert.match(run.log, /"Using iptables Proxier"/)
  })

  it('reports the active mode by /proxyMode and by a metric', () => {
    assert.equal(run.proxyMode, 'iptables')
    assert.equal(run.metric, 'kubeipvs_mode{active="iptables",configured="ipvs",reason="ipvs-missing"} 1')
  })

  it('reports an Event on the Node', () => {
    const line = run.log.split('\n').find((one) => one.includes('"Event occurred"') && one.includes('Fallback')) ?? ''
    assert.match(line, / object="node0" kind="Node" type="Warning" reason="FallbackToIptables" /)
    assert.match(line, / note="the kernel has no IPVS \(module ip_vs\): load it with /)
  })

  it('reports no Event when the proxy does not start, because the mode was changed back meanwhile', () =>
    assert.deepEqual(run.events, { discarded: [], started: ['FallbackToIptables'] }))

  it('shows the reason and the remedy in status', () => {
    assert.match(run.status, /^mode +iptables, reported by the proxy/m)
    assert.match(run.status, /^fallback +from ipvs mode: the kernel has no IPVS \(module ip_vs\)/m)
    assert.match(run.status, /^remedy +load it with "modprobe ip_vs".*the package is /m)
    const { fallback } = run.statusJson as { fallback: { reason: string } } // what status prints
    assert.equal(fallback.reason, 'ipvs-missing')
  })

  it('leaves route_localnet off, although iptables.localhostNodePorts is on by default', () =>
    assert.equal(run.routeLocalnet, '0'))

  it('opens node ports at the loopback address if kubeIPVS.localhostNodePorts says so', () =>
    assert.deepEqual(run.localhostNodePorts, ['127.0.0.1:30080']))

  it('asks the kernel again on SIGHUP, and continues', () =>
    assert.match(run.afterHangup, /iptables mode stays" lacks="the kernel has no IPVS \(module ip_vs\)"/))

  it('reports no fallback after the file has changed to iptables mode, and serves all Services', () => {
    assert.equal(run.configured.metric, 'kubeipvs_mode{active="iptables",configured="iptables",reason=""} 1')
    assert.deepEqual(run.configured.chains, [100, 100])
  })

  it('ends with the recorded message when kubeIPVS.fallback is none', () => {
    assert.equal(run.none.code, 1)
    for (const message of ['Error running ProxyServer', 'command failed'])
      assert.ok(run.none.stderr.includes(`"${message}" err="can't use the IPVS proxier: ipvs not supported"`))
  })

  it('falls back with --init-only too, where the container would keep the Pod from starting', () => {
    assert.equal(run.initOnly.code, 0, run.initOnly.stderr)
    assert.match(run.initOnly.stderr, /"Falling back to iptables mode"/)
  })

  it('has cleanup remove the sets and chains that ipvs mode left before ip_vs was unloaded', () => {
    assert.deepEqual([run.cleanup.code, run.cleanup.stderr], [0, ''])
    assert.match(run.cleanup.left, /^MINE$/m)
    // The guard of 127.0.0.1 stays: it may be of kubelet.
    assert.doesNotMatch(run.cleanup.left, /KUBE-(?!FIREWALL)/)
  })
})
