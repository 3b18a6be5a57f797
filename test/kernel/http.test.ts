/**
 * The health port and the metrics port of the running daemon, over HTTP: what probes, load
 * balancers and operators get.
 */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Workbench } from '../support/daemon.ts'
import { type Manifest, node, service, slice } from '../support/manifests.ts'
import { freshNode, ipvsadm } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { deadline, eventually } from '../support/deadline.ts'
import { IptablesPrograms } from '../support/iptables-programs.ts'
import { parseMetrics, valueOf } from '../support/metrics-text.ts'

let bench: Workbench
const closers: (() => void)[] = []
beforeEach(freshNode)
afterEach(async () => {
  await bench.close()
  for (const close of closers.splice(0)) close()
})

const HEALTHZ = 'http://127.0.0.1:10256/healthz'
const LIVEZ = 'http://[::1]:10256/livez'
const METRICS = 'http://127.0.0.1:10249'

async function status(url: string): Promise<number> {
  return (await fetch(url)).status
}

async function text(url: string): Promise<string> {
  return (await fetch(url)).text()
}

async function both(): Promise<readonly number[]> {
  return [await status(HEALTHZ), await status(LIVEZ)]
}

async function squat(port: number): Promise<Server> {
  const server = createServer()
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, '::', resolve))
  closers.push(() => server.close())
  return server
}

function begin(ipvs: Manifest = {}, more: Manifest = {}): void {
  bench = new Workbench(ipvs, more)
  bench.write('web.yaml', service('web', { clusterIP: '10.96.0.1' }), slice('web', ['10.244.0.1']))
}

describe('health and metrics of the daemon', () => {
  it('are served where kube-proxy serves them', async () => {
    begin()
    bench.start()
    await eventually(async () => assert.deepEqual(await both(), [200, 200]))
    // The probes are answered before the first pass has ended where that takes long.
    const passed = /^kubeproxy_sync_proxy_rules_duration_seconds_count\{ip_family="IPv4"\} [1-9]/m
    await eventually(async () => assert.match(await text(`${METRICS}/metrics`), passed))
    const sockets = sh('ss -ltnH')
      .split('\n')
      .flatMap((line) => line.trim().split(/\s+/)[3] ?? [])
    assert.deepEqual(sockets.sort(), ['*:10256', '127.0.0.1:10249'])
    assert.deepEqual(Object.keys(JSON.parse(await text(HEALTHZ))), [
      'lastUpdated',
      'currentTime',
      'nodeEligible',
      'healthy',
      'status',
    ])
    assert.equal(await text(`${METRICS}/proxyMode`), 'ipvs')
    const shown = JSON.parse(await text(`${METRICS}/configz`))
    assert.equal(shown['kubeproxy.config.k8s.io'].mode, 'ipvs')
    assert.equal(await status(`${METRICS}/debug/pprof/profile`), 404)
    const page = await text(`${METRICS}/metrics`)
    assert.match(page, passed)
    assert.match(page, /^kubeproxy_proxy_healthz_total\{code="200"\} [1-9]/m)
    assert.match(page, /^kubeproxy_proxy_livez_total\{code="200"\} [1-9]/m)
    await text(`${METRICS}/healthz`)
    assert.match(await text(`${METRICS}/metrics/slis`), /^kubernetes_healthcheck\{name="ping",type="healthz"\} 1$/m)
  })

  it('show profiles and change the verbosity of the log when enableProfiling is set', async () => {
    begin({}, { enableProfiling: true })
    bench.start()
    await eventually(async () => assert.deepEqual(await both(), [200, 200]))
    const profile = await fetch(`${METRICS}/debug/pprof/profile?seconds=0.2`)
    assert.deepEqual([profile.status, profile.headers.get('content-type')], [200, 'application/octet-stream'])
    const put = await fetch(`${METRICS}/debug/flags/v`, { method: 'PUT', body: '0' })
    assert.equal(await put.text(), 'successfully set klog.logging.verbosity to 0\n')
    const follows = async (endpoint: string): Promise<void> => {
      bench.write('web.yaml', service('web', { clusterIP: '10.96.0.1' }), slice('web', [endpoint]))
      await eventually(() => assert.ok(ipvsadm('-S', '-n').includes(`-r ${endpoint}:8080 -m -w 1`)))
    }
    // Lines from before the answer may arrive after it; that of a pass precedes the next pass.
    await follows('10.244.0.7')
    const before = bench.log.length
    await follows('10.244.0.8')
    await follows('10.244.0.9')
    assert.doesNotMatch(bench.log.slice(before), /Pass done/)
  })

  it('show in the metrics what was written, refused and requested', async () => {
    begin({}, { kubeIPVS: { serviceMetricsLimit: 0 } })
    const programs = new IptablesPrograms()
    closers.push(() => programs.remove())
    bench.env = { PATH: programs.path }
    programs.fail('ip6tables', true)
    bench.start()
    await eventually(async () => assert.deepEqual(await both(), [200, 200]))
    const [ipv4, ipv6] = [{ ip_family: 'IPv4' }, { ip_family: 'IPv6' }]
    const failures = 'kubeproxy_sync_proxy_rules_iptables_restore_failures_total'
    await eventually(async () => {
      const answer = await fetch(`${METRICS}/metrics`)
      assert.equal(answer.headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8; escaping=underscores')
      const page = parseMetrics(await answer.text())
      assert.ok((valueOf(page, failures, ipv6) ?? 0) >= 1)
      assert.equal(valueOf(page, failures, ipv4), 0)
      assert.ok((valueOf(page, 'kubeipvs_sync_failures_total', { part: 'rules' }) ?? 0) >= 1)
      assert.equal(valueOf(page, 'kubeipvs_table_entries', { table: 'virtual-servers' }), 1)
      assert.ok((valueOf(page, 'kubeproxy_proxy_healthz_total', { code: '200' }) ?? 0) >= 1)
      assert.ok((valueOf(page, 'kubeproxy_sync_proxy_rules_last_timestamp_seconds', ipv4) ?? 0) > 1e9)
    })
    programs.fail('ip6tables', false)
    await eventually(async () => {
      const page = parseMetrics(await text(`${METRICS}/metrics`))
      const table = { table: 'chains-IPv6' }
      const wanted = valueOf(page, 'kubeipvs_table_wanted_entries', table)
      assert.ok(wanted !== undefined && wanted > 0)
      assert.equal(valueOf(page, 'kubeipvs_table_entries', table), wanted)
    }, 30_000)
    assert.equal(await status(`${METRICS}/healthz`), 200)
    const slis = parseMetrics(await text(`${METRICS}/metrics/slis`))
    const check = { name: 'ping', status: 'success', type: 'healthz' }
    assert.equal(valueOf(slis, 'kubernetes_healthchecks_total', check), 1)
  })

  it('follow the Node', async () => {
    begin()
    bench.start()
    await eventually(async () => assert.deepEqual(await both(), [200, 200]))
    const taints = [{ key: 'ToBeDeletedByClusterAutoscaler', effect: 'NoSchedule' }]
    bench.write('node.yaml', node(['10.0.2.15'], { spec: { taints } }))
    await eventually(async () => assert.deepEqual(await both(), [503, 200]))
    bench.write('node.yaml', node(['10.0.2.15']))
    await eventually(async () => assert.deepEqual(await both(), [200, 200]))
    bench.write('node.yaml', node(['10.0.2.15'], { metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } }))
    await eventually(async () => assert.deepEqual(await both(), [503, 200]))
    // Manifests need no Node.
    bench.remove('node.yaml')
    bench.write('other.yaml', node(['10.0.2.15'], { metadata: { name: 'node1' } }))
    await eventually(async () => assert.deepEqual(await both(), [200, 200]))
  })

  it('report a family as unhealthy when its rules cannot be written for long, and not the other', async () => {
    begin()
    const programs = new IptablesPrograms()
    closers.push(() => programs.remove())
    bench.env = { PATH: programs.path }
    programs.hang('ip6tables', true)
    bench.start()
    // On a busy machine the rules of IPv4 may be late, too, but not for ever.
    await eventually(async () => {
      assert.deepEqual(await both(), [503, 503])
      const { healthy, nodeEligible, status: families } = JSON.parse(await text(HEALTHZ))
      assert.deepEqual(
        [healthy, nodeEligible, families.IPv4.healthy, families.IPv6.healthy],
        [false, true, true, false],
      )
    })
  })

  it('stay healthy when the items of one Service cannot be written', async () => {
    // The proxy is unhealthy when a pass takes two of them.
    const periodMs = deadline(1000)
    begin({ syncPeriod: `${periodMs}ms` })
    // No interface accepts a multicast address.
    const families = { clusterIPs: ['10.96.0.9', 'fd00:10:96::9'], ipFamilies: ['IPv4', 'IPv6'] }
    const ingress = ['ff02::1:5', 'ff02::1:6', 'ff02::1:7'].map((ip) => ({ ip }))
    const bad = service('bad', { ...families, type: 'LoadBalancer' })
    bench.write('bad.yaml', { ...bad, status: { loadBalancer: { ingress } } })
    bench.start()
    await eventually(async () => assert.deepEqual(await both(), [200, 200]))
    await eventually(() => assert.match(bench.log, /An operation failed/))
    // Anything else that lasts for two syncPeriods makes the proxy unhealthy. The time is that of the daemon.
    const clock = async (): Promise<number> => Date.parse(JSON.parse(await text(HEALTHZ))['currentTime'])
    const failedMs = await clock()
    do assert.deepEqual(await both(), [200, 200])
    while ((await clock()) < failedMs + 5 * periodMs)
  })

  it('answer while the API server is away: the proxy is alive for a while, but the node gets no traffic', async () => {
    // The proxy stays alive for two syncPeriods, which leaves time for a slow start.
    begin({ syncPeriod: `${deadline(5000)}ms` })
    const kubeconfig = join(bench.directory, 'nobody.conf')
    const clusters = [{ name: 'nobody', cluster: { server: 'http://127.0.0.1:1' } }]
    const contexts = [{ name: 'nobody', context: { cluster: 'nobody', user: '' } }]
    writeFileSync(kubeconfig, JSON.stringify({ clusters, contexts, users: [], 'current-context': 'nobody' }))
    bench.startOnApi(kubeconfig)
    await eventually(async () => assert.deepEqual(await both(), [503, 200]), 9000)
    await eventually(async () => assert.deepEqual(await both(), [503, 503]))
  })

  it('wait for ports that another program uses', async () => {
    const [health, metrics] = [await squat(10256), await squat(10249)]
    begin()
    bench.start()
    await eventually(() => {
      assert.match(
        bench.log,
        /E.*"Healthz server failed" err="failed to start proxy healthz on 0.0.0.0:10256: listen tcp 0.0.0.0:10256: bind: address already in use"/,
      )
      assert.match(
        bench.log,
        /E.*"starting metrics server failed" err="listen tcp 127.0.0.1:10249: bind: address already in use"/,
      )
    })
    health.close()
    metrics.close()
    await eventually(async () =>
      assert.deepEqual([...(await both()), await status(`${METRICS}/healthz`)], [200, 200, 200]),
    )
  })

  it('end the daemon when a port is taken and bindAddressHardFail is set, before anything is written', async () => {
    const server = await squat(10256)
    begin({}, { bindAddressHardFail: true })
    const child = bench.start()
    const ended = (): Promise<number | null> => new Promise((resolve) => child.once('exit', resolve))
    assert.equal(await ended(), 1)
    await eventually(() =>
      assert.match(
        bench.log,
        /healthz server failed: failed to start proxy healthz on 0.0.0.0:10256: listen tcp 0.0.0.0:10256: bind: address already in use/,
      ),
    )
    assert.equal(ipvsadm('-S', '-n'), '')
    server.close()
  })
})
