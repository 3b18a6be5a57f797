/** The proxy on a real kernel: its metrics agree with what it did and with what was done to it. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { after, before, it } from 'node:test'
import { defaultConfiguration } from '../support/configuration.ts'
import { prepareProxy } from '../../src/daemon/proxy-assembly.ts'
import type { Proxy } from '../../src/daemon/proxy.ts'
import type { EndpointSlice } from '../../src/service/objects.ts'
import type { ObjectSink } from '../../src/watch/source.ts'
import { freshNode, ipvsadm } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'
import { parseMetrics, type ParsedFamily, valueOf } from '../support/metrics-text.ts'
import { endpoint, node, service, servicePort, slice, slicePort } from '../support/objects.ts'
import { recordingLog } from '../support/recording-log.ts'

const NODE_ADDRESS = '10.0.2.15'
const VIP = '10.96.0.1'
const WEB = service({ clusterIps: { IPv4: VIP } })
const KEY = 'demo/web-1'
const TABLE = { table: 'virtual-servers' }

let proxy: Proxy
let sink: ObjectSink
let server: Server
/** How often the proxy has said that it worked: `onWork`. */
let worked = 0
/** How many passes have ended. The metric counts one that concerns both families twice. */
let passes = 0
const sockets: Socket[] = []
const log = recordingLog()

function sliceOf(...addresses: string[]): EndpointSlice {
  const { port } = server.address() as AddressInfo // it listens on TCP
  return slice({
    triggeredAtMs: Date.now(),
    ports: [slicePort({ name: 'http', port })],
    endpoints: addresses.map((address) => endpoint({ address, nodeName: 'node0' })),
  })
}

async function scrape(): Promise<(name: string, labels?: Readonly<Record<string, string>>) => number | undefined> {
  const families: ReadonlyMap<string, ParsedFamily> = parseMetrics(await proxy.metrics.text())
  return (name, labels) => valueOf(families, name, labels)
}

/** Passes and audits that have ended, also those that failed, and how often the proxy has said that it worked. */
async function counts(): Promise<{ readonly passes: number; readonly audits: number; readonly worked: number }> {
  const workedBefore = worked
  const families = parseMetrics(await proxy.metrics.text())
  // Something has ended meanwhile, and may be counted or not.
  if (worked !== workedBefore) return counts()
  const sum = (family: string, end: string): number =>
    (families.get(family)?.samples ?? [])
      .filter(({ name }) => name.endsWith(end))
      .reduce((total, { value }) => total + value, 0)
  const audits = sum('kubeipvs_audit_duration_seconds', '_count') + sum('kubeipvs_audit_failures_total', '_total')
  return { passes, audits, worked }
}

before(async () => {
  freshNode()
  server = createServer((socket) => sockets.push(socket.on('data', (data) => socket.write(data))))
  server.listen(0, NODE_ADDRESS)
  await once(server, 'listening')
  const configuration = defaultConfiguration()
  const prepared = await prepareProxy({
    configuration: {
      ...configuration,
      ipvs: { ...configuration.ipvs, syncPeriodMs: 1000, minSyncPeriodMs: 0 },
      kubeIPVS: { ...configuration.kubeIPVS, drainDeadlineMs: 500 },
    },
    nodeName: 'node0',
    log,
    onWork: () => worked++,
    passes: { add: () => passes++ },
    openSource: (into) => {
      sink = into
      return { close: async () => undefined }
    },
  })
  await prepared.start()
  proxy = prepared.proxy
  sink.apply([{ kind: 'nodes', key: 'node0', value: node({ addresses: [NODE_ADDRESS] }) }])
  sink.apply([
    { kind: 'services', key: 'demo/web', value: WEB },
    { kind: 'endpointslices', key: KEY, value: sliceOf(NODE_ADDRESS) },
  ])
  for (const kind of ['nodes', 'services', 'endpointslices'] as const) sink.listed(kind)
})

after(async () => {
  for (const socket of sockets) socket.destroy()
  server.close()
  await proxy.close()
})

/** Sends a request through the Service and waits for the answer. */
async function ask(text: string): Promise<Socket> {
  const socket = connect(80, VIP)
  sockets.push(socket)
  socket.write(text)
  const [answer] = await once(socket, 'data')
  assert.equal(String(answer), text)
  return socket
}

it('metrics count what the first pass wrote', async () => {
  await eventually(async () => {
    const value = await scrape()
    assert.equal(value('kubeipvs_table_entries', TABLE), 1)
    assert.equal(value('kubeipvs_table_entries', { table: 'addresses' }), 1)
    // Entries count when they are written; this, when the pass has ended.
    assert.equal(value('kubeproxy_network_programming_duration_seconds_count', { ip_family: 'IPv4' }), 1)
  })
  const value = await scrape()
  assert.equal(value('kubeipvs_real_servers'), 1)
  assert.equal(value('kubeipvs_services'), 1)
  assert.equal(value('kubeipvs_table_wanted_entries', TABLE), 1)
  assert.equal(value('kubeipvs_set_entries', { set: 'KUBE-CLUSTER-IP' }), 1)
  assert.equal(value('kubeipvs_set_max_entries', { set: 'KUBE-CLUSTER-IP' }), 65_536)
  // A virtual server and its real server.
  assert.equal(value('kubeipvs_operations_total', { direction: 'add', outcome: 'success', ...TABLE }), 2)
  assert.equal(value('kubeproxy_sync_proxy_rules_service_changes_total'), 1)
  assert.equal(value('kubeproxy_sync_proxy_rules_endpoint_changes_total'), 1)
  assert.equal(value('kubeproxy_sync_proxy_rules_endpoint_changes_pending'), 0)
  assert.equal(value('kubeproxy_network_programming_duration_seconds_count', { ip_family: 'IPv4' }), 1)
  const syncs = value('kubeproxy_sync_proxy_rules_duration_seconds_count', { ip_family: 'IPv4' }) ?? 0
  assert.ok(syncs >= 1, String(syncs))
  const syncedSeconds = value('kubeproxy_sync_proxy_rules_last_timestamp_seconds', { ip_family: 'IPv4' }) ?? 0
  assert.ok(Math.abs(syncedSeconds - Date.now() / 1000) < 60, String(syncedSeconds))
  assert.ok((value('kubeipvs_netlink_messages_total', { connection: 'ipvs' }) ?? 0) >= 2)
  // The folder itself is open while it is read. Programs of iptables may begin and end between the two counts.
  await eventually(async () =>
    assert.equal((await scrape())('process_open_fds'), readdirSync('/proc/self/fd').length - 1),
  )
})

it('metrics count the traffic of virtual servers', async () => {
  for (const text of ['one', 'two', 'three']) await ask(text)
  // The kernel sums up every two seconds, and a scrape within five seconds repeats the numbers of the one before.
  await eventually(async () => {
    const [line = ''] = sh('ipvsadm -Ln --stats --exact')
      .split('\n')
      .filter((text) => text.includes(`${VIP}:80`))
    const [connections, inPackets, outPackets, inBytes, outBytes] = line.trim().split(/\s+/).slice(2).map(Number)
    assert.equal(connections, 3)
    const value = await scrape()
    const service = { namespace: 'demo', service: 'web' }
    assert.deepEqual(
      [
        value('kubeipvs_service_connections_total', service),
        value('kubeipvs_service_packets_total', { direction: 'in', ...service }),
        value('kubeipvs_service_packets_total', { direction: 'out', ...service }),
        value('kubeipvs_service_bytes_total', { direction: 'in', ...service }),
        value('kubeipvs_service_bytes_total', { direction: 'out', ...service }),
      ],
      [connections, inPackets, outPackets, inBytes, outBytes],
    )
  })
})

it('the proxy says that it has worked after each pass and after each audit', async () => {
  const before = await counts()
  const other = { ...WEB, name: 'counted', clusterIps: { IPv4: '10.96.0.7' } }
  sink.apply([{ kind: 'services', key: 'demo/counted', value: other }])
  await eventually(async () => {
    const now = await counts()
    assert.ok(now.passes > before.passes && now.audits >= before.audits + 3)
  })
  const after = await counts()
  assert.equal(after.worked - before.worked, after.passes - before.passes + after.audits - before.audits)
  sink.apply([{ kind: 'services', key: 'demo/counted', value: undefined }])
})

it('metrics count drift that an audit found', async () => {
  sh(`ipvsadm -E -t ${VIP}:80 -s lc`)
  await eventually(async () => {
    const value = await scrape()
    assert.equal(value('kubeipvs_drift_repaired_total', TABLE), 1)
    assert.ok((value('kubeipvs_audit_duration_seconds_count', { audit: 'virtual-servers' }) ?? 0) >= 1)
    assert.equal(value('kubeipvs_audit_failures_total', { audit: 'virtual-servers' }), 0)
  })
  await eventually(() => assert.match(ipvsadm('-S', '-n'), new RegExp(`-A -t ${VIP}:80 -s rr`)))
})

it('metrics count a Service that claims the address of another', async () => {
  const late = { ...WEB, name: 'late', createdAtMs: Date.now() }
  sink.apply([{ kind: 'services', key: 'demo/late', value: late }])
  await eventually(async () => assert.equal((await scrape())('kubeipvs_conflicts'), 1))
  sink.apply([{ kind: 'services', key: 'demo/late', value: undefined }])
  await eventually(async () => assert.equal((await scrape())('kubeipvs_conflicts'), 0))
})

it('metrics count a drain and its end', async () => {
  sink.apply([{ kind: 'endpointslices', key: KEY, value: sliceOf('10.244.0.1') }])
  await eventually(async () => assert.equal((await scrape())('kubeipvs_real_servers_draining'), 1), 10_000, 5)
  await eventually(async () => {
    const value = await scrape()
    assert.equal(value('kubeipvs_real_servers_draining'), 0)
    assert.equal(value('kubeipvs_drains_finished_total', { reason: 'deadline' }), 1)
    assert.equal(value('kubeipvs_drains_finished_total', { reason: 'idle' }), 0)
  })
})

it('metrics count the repair of a device that was deleted with its addresses', async () => {
  const other = { ...WEB, name: 'other', clusterIps: { IPv4: '10.96.0.9' } }
  sh('ip link delete kube-ipvs0')
  sink.apply([{ kind: 'services', key: 'demo/other', value: other }])
  await eventually(() => assert.match(sh('ip -4 -o address show dev kube-ipvs0'), /10\.96\.0\.9/))
  await eventually(async () => {
    const value = await scrape()
    assert.equal(value('kubeipvs_table_entries', { table: 'addresses' }), 2)
    assert.equal(value('kubeipvs_table_wanted_entries', { table: 'addresses' }), 2)
    assert.ok((value('kubeipvs_drift_repaired_total', { table: 'addresses' }) ?? 0) >= 1)
  })
})

it('metrics count removed stale UDP flows', async () => {
  const dns = service({
    name: 'dns',
    clusterIps: { IPv4: '10.96.0.10' },
    ports: [servicePort({ name: 'dns', protocol: 'udp', port: 53 })],
  })
  sink.apply([{ kind: 'services', key: 'demo/dns', value: dns }])
  await eventually(async () =>
    assert.ok(
      ((await scrape())('kubeproxy_conntrack_reconciler_sync_duration_seconds_count', { ip_family: 'IPv4' }) ?? 0) >= 1,
    ),
  )
})
