/** iptables mode on a real kernel: its metrics of rules agree with iptables-save and with the counters. */
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { defaultConfiguration } from '../support/configuration.ts'
import { prepareProxy } from '../../src/daemon/proxy-assembly.ts'
import type { Proxy } from '../../src/daemon/proxy.ts'
import type { EndpointSlice } from '../../src/service/objects.ts'
import type { ObjectSink } from '../../src/watch/source.ts'
import { freshNode } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'
import { parseMetrics, valueOf } from '../support/metrics-text.ts'
import { endpoint, node, service, servicePort, slice } from '../support/objects.ts'
import { recordingLog } from '../support/recording-log.ts'
import { isMet } from './needs.ts'

const SAVE = `iptables${isMet('iptables-nft') ? '' : '-legacy'}-save`
const NODE_PORT = 30_080
const WEB = service({ ports: [servicePort({ name: 'http', port: 80, nodePort: NODE_PORT })] })
const OURS = /^-A KUBE-(?!IPVS)/
const IPV4 = { ip_family: 'IPv4' }

function sliceOf(...addresses: string[]): EndpointSlice {
  return slice({
    triggeredAtMs: Date.now(),
    endpoints: addresses.map((address) => endpoint({ address, nodeName: 'a' })),
  })
}

describe('metrics of iptables mode', () => {
  let proxy: Proxy
  let sink: ObjectSink
  const value = async (name: string, labels?: Readonly<Record<string, string>>): Promise<number | undefined> =>
    valueOf(parseMetrics(await proxy.metrics.text()), `kubeproxy_${name}`, labels)
  const saved = (table: string): number =>
    sh(`${SAVE} -t ${table}`)
      .split('\n')
      .filter((line) => OURS.test(line)).length

  before(async () => {
    freshNode()
    const configuration = defaultConfiguration('iptables')
    const prepared = await prepareProxy({
      configuration: { ...configuration, iptables: { ...configuration.iptables, minSyncPeriodMs: 0 } },
      nodeName: 'node0',
      log: recordingLog(),
      openSource: (into) => {
        sink = into
        return { close: async () => undefined }
      },
    })
    await prepared.start()
    proxy = prepared.proxy
    sink.apply([{ kind: 'nodes', key: 'node0', value: node({ addresses: ['10.0.2.15'] }) }])
    sink.apply([
      { kind: 'services', key: 'demo/web', value: WEB },
      { kind: 'endpointslices', key: 'demo/web-1', value: sliceOf('10.244.0.1') },
    ])
    for (const kind of ['nodes', 'services', 'endpointslices'] as const) sink.listed(kind)
  })
  after(() => proxy.close())

  it('count the first sync as a full one, with the rules of the kernel', async () => {
    await eventually(async () =>
      assert.equal(await value('network_programming_duration_seconds_count', IPV4), 1, 'once the rules are in'),
    )
    assert.ok(((await value('sync_full_proxy_rules_duration_seconds_count', IPV4)) ?? 0) >= 1)
    assert.equal(await value('sync_partial_proxy_rules_duration_seconds_count', IPV4), 0)
    for (const table of ['nat', 'filter']) {
      assert.ok(saved(table) > 1)
      assert.equal(await value('sync_proxy_rules_iptables_total', { ...IPV4, table }), saved(table), table)
    }
  })

  it('count a change as a partial sync of few rules', async () => {
    sink.apply([{ kind: 'endpointslices', key: 'demo/web-1', value: sliceOf('10.244.0.1', '10.244.0.2') }])
    await eventually(async () => assert.equal(await value('sync_partial_proxy_rules_duration_seconds_count', IPV4), 1))
    // KUBE-SVC with its mark and two endpoints, and KUBE-SEP of the new one.
    const written = await value('sync_proxy_rules_iptables_last', { ...IPV4, table: 'nat' })
    assert.ok(written !== undefined && written >= 4 && written <= 6, String(written))
    assert.equal(await value('sync_proxy_rules_iptables_last', { ...IPV4, table: 'filter' }), 0)
    assert.equal(await value('sync_proxy_rules_iptables_total', { ...IPV4, table: 'nat' }), saved('nat'))
    assert.equal(await value('network_programming_duration_seconds_count', IPV4), 2)
  })

  it('show the packets that rules have counted', async () => {
    assert.equal(await value('iptables_localhost_nodeports_accepted_packets_total'), 0)
    const socket = connect(NODE_PORT, '127.0.0.1').on('error', () => undefined)
    await eventually(async () =>
      assert.ok(((await value('iptables_localhost_nodeports_accepted_packets_total')) ?? 0) >= 1),
    )
    socket.destroy()
    assert.equal(await value('iptables_ct_state_invalid_dropped_packets_total'), 0)
  })
})
