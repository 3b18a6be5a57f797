/**
 * The dataplane of iptables mode over iptables and conntrack in memory: which UDP flows it removes,
 * and when; and its rules on a kernel that turns out to lack a match.
 */
import assert from 'node:assert/strict'
import { it, type TestContext } from 'node:test'
import { passes } from '../../../src/conntrack/codec.ts'
import type { FlowTable } from '../../../src/conntrack/connection.ts'
import type { Flow } from '../../../src/conntrack/types.ts'
import { IptablesDataplane } from '../../../src/modes/iptables/dataplane.ts'
import type { NodeContext } from '../../../src/service/node-context.ts'
import type { ObjectChange } from '../../../src/service/objects.ts'
import { DesiredFrontends } from '../../../src/sync/desired-frontends.ts'
import { flowOf } from '../../conntrack/flows.ts'
import { MemoryIptables } from '../../iptables/memory-iptables.ts'
import { until } from '../../support/deadline.ts'
import { endpoint, service, servicePort, slice, slicePort } from '../../support/objects.ts'

const signal = new AbortController().signal
const NODE: NodeContext = {
  nodeName: 'node0',
  zone: '',
  nodeIps: { IPv4: '10.0.2.15' },
  localAddresses: new Set(['10.0.2.15']),
  nodePortAddresses: { IPv4: [], IPv6: [] },
}
const SERVICE_CHANGE: Extract<ObjectChange, { kind: 'services' }> = {
  kind: 'services',
  key: 'demo/web',
  value: service({ ports: [servicePort({ protocol: 'udp', port: 53, nodePort: 30_053 })] }),
}

function sliceChange(address: string): ObjectChange {
  const value = slice({
    ports: [slicePort({ protocol: 'udp', port: 5353 })],
    endpoints: [endpoint({ address, nodeName: 'node1' })],
  })
  return { kind: 'endpointslices', key: 'demo/web-1', value }
}

function memoryConntrack(flows: Flow[]): FlowTable {
  return {
    findFlows: async (filter, wanted) => flows.filter((flow) => passes(flow, filter) && wanted(flow)),
    deleteFlows: async (stale) => {
      for (const flow of stale) flows.splice(flows.indexOf(flow), 1)
      return { deleted: stale.length, vanished: 0, failed: 0, error: undefined }
    },
  }
}

function worldOf(flows: Flow[], context: TestContext) {
  const iptables = Object.assign(new MemoryIptables(), { choice: { randomFully: true, suffix: '' as const } })
  iptables.tables.set('mangle', new Map())
  const errors: unknown[] = []
  const dataplane = new IptablesDataplane({
    iptables,
    localhostNodePorts: true,
    settings: {
      detectLocalMode: 'ClusterCIDR',
      clusterCIDR: '',
      detectLocal: { bridgeInterface: '', interfaceNamePrefix: '' },
      iptables: {
        masqueradeAll: false,
        masqueradeBit: 14,
        localhostNodePorts: true,
        syncPeriodMs: 0,
        minSyncPeriodMs: 0,
      },
    },
    families: ['IPv4'],
    conntrack: memoryConntrack(flows),
    now: () => performance.now(),
    onPass: ({ failures }) => errors.push(...failures),
    onMissing: (error) => errors.push(error),
    onError: (error) => errors.push(error),
  })
  context.after(() => dataplane.loops.close())
  const addresses = (...IPv4: readonly string[]): void => {
    const places = { IPv4, IPv6: 'all' } as const
    dataplane.nodeChanged({
      podCidrs: [],
      nodePorts: { places, addresses: { IPv4, IPv6: [] }, includesLoopback: true },
    })
  }
  addresses('10.0.2.15')
  const desired = new DesiredFrontends(NODE, { nodePorts: 'every-address' })
  const apply = async (...changes: readonly ObjectChange[]): Promise<void> => {
    for (const change of changes) desired.apply(change)
    desired.flushAll({ frontend: dataplane.frontend.bind(dataplane), problems: () => undefined })
    await dataplane.pass({ mayRemove: true })
  }
  const settled = (): Promise<void> => until('the rules are written', () => dataplane.isComplete)

  return { dataplane, errors, addresses, apply, settled, rules: () => iptables.text() }
}

it('IptablesDataplane removes flows of a node port at the addresses of the node, once its rules are written', async (t) => {
  const [first, second] = ['10.244.1.1:5353', '10.244.1.2:5353']
  const flows = [
    flowOf('10.96.0.1:53', first),
    flowOf('10.0.2.15:30053', first),
    flowOf('10.0.2.15:30053', second),
    flowOf('192.0.2.9:30053', first),
  ]
  const { dataplane, errors, apply, settled } = worldOf(flows, t)
  await apply(SERVICE_CHANGE, sliceChange('10.244.1.1'))
  await settled()
  await apply(sliceChange('10.244.1.2'))
  assert.equal((await dataplane.staleFlows.remove(signal)).frontends, 0, 'the rules are not written yet')
  await settled()
  assert.deepEqual(errors, [])
  const { frontends, deleted, error } = await dataplane.staleFlows.remove(signal)
  assert.deepEqual([frontends, deleted, error], [2, 2, undefined])
  assert.deepEqual(
    flows.map(({ original, reply }) => `${original.destination} ${reply.source}`),
    ['10.0.2.15 10.244.1.2', '192.0.2.9 10.244.1.1'],
  )
})

it('IptablesDataplane removes flows of a node port at an address that the node has got, once the rules name it', async (t) => {
  const [old, late] = ['10.0.2.15:30053', '10.0.2.50:30053']
  const flows = [flowOf(old, '10.244.1.1:5353'), flowOf(late, late)]
  const { dataplane, errors, addresses, apply, settled, rules } = worldOf(flows, t)
  await apply(SERVICE_CHANGE, sliceChange('10.244.1.1'))
  await settled()
  await dataplane.staleFlows.remove(signal)
  assert.equal(flows.length, 2)
  addresses('10.0.2.15', '10.0.2.50')
  assert.equal((await dataplane.staleFlows.remove(signal)).frontends, 0, 'the rules do not name it yet')
  await apply()
  await settled()
  assert.match(rules(), /-d 10\.0\.2\.50\/32 .*-j KUBE-NODEPORTS/)
  assert.equal((await dataplane.staleFlows.remove(signal)).deleted, 1)
  assert.deepEqual(
    flows.map(({ original }) => original.destination),
    ['10.0.2.15'],
  )
  assert.deepEqual(errors, [])
})

it('IptablesDataplane writes rules without a match that the kernel lost, and with it once the kernel has it again', async (t) => {
  const { dataplane, errors, apply, settled, rules } = worldOf([], t)
  const { value } = SERVICE_CHANGE
  await apply(
    { ...SERVICE_CHANGE, value: value && { ...value, affinityTimeoutSeconds: 60 } },
    sliceChange('10.244.1.1'),
  )
  await settled()
  const complete = rules()
  assert.match(complete, /-m recent --set/)
  dataplane.setMatches({ hasRecent: false, hasStatistic: true })
  await settled()
  assert.doesNotMatch(rules(), /-m recent/)
  assert.match(rules(), /-j DNAT --to-destination 10\.244\.1\.1:5353/)
  dataplane.setMatches({ hasRecent: true, hasStatistic: true })
  await settled()
  assert.equal(rules(), complete)
  assert.deepEqual(errors, [])
})
