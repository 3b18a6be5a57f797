import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { defaultConfiguration } from '../support/configuration.ts'
import type { DetectLocalMode } from '../../src/config/types.ts'
import { type NodeWaits, Readiness } from '../../src/daemon/readiness.ts'
import type { Node, ObjectChange } from '../../src/service/objects.ts'
import { node } from '../support/objects.ts'
import { type RecordingLog, recordingLog } from '../support/recording-log.ts'

const NODE = node({
  name: 'node0',
  addresses: ['10.9.2.15', '10.9.2.16', 'fd00:9:2::15'],
  podCidrs: ['10.244.0.0/24'],
})
const change = (value: Node | undefined): ObjectChange[] => [{ kind: 'nodes', key: 'node0', value }]

/** Lines of the informers, and of what start-log.test.ts is about. */
const OTHER_LINES =
  /^(Starting|Waiting for caches|Caches are|Caches pop|kube-proxy running|Record nodeIP|Kube-proxy conf)/

interface Situation {
  readonly detectLocalMode?: DetectLocalMode
  readonly waits?: NodeWaits
  readonly needsNode?: boolean
  readonly hasAddresses?: () => boolean
  /** Services and EndpointSlices list before everything else; default true. */
  readonly othersListed?: boolean
}

/** A Readiness with a clock of the test, the lines it logged about the Node, and the events it reported. */
function watched(t: TestContext, situation: Situation = {}) {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { detectLocalMode = 'ClusterCIDR', waits, needsNode, othersListed = true, hasAddresses } = situation
  const log = recordingLog()
  const events: string[] = []
  const readiness = new Readiness({
    configuration: { ...defaultConfiguration(), nodePortAddresses: ['primary'], detectLocalMode },
    nodeName: 'node0',
    support: { families: ['IPv4', 'IPv6'], lacks: [] },
    log,
    needsNode,
    ...(hasAddresses === undefined ? {} : { hasAddresses }),
    waits,
    listener: {
      nodesListed: () => events.push('Nodes listed'),
      passesMayRun: (mayRemove) => events.push(mayRemove ? 'passes may remove' : 'passes may run'),
      failed: (error) => events.push(`failed: ${error.message}`),
    },
  })
  t.after(() => readiness.close())
  const list = 'Waiting for the list of Nodes'
  const lines = (): unknown[] =>
    log.lines
      .filter(({ message }) => !OTHER_LINES.test(message) && (!othersListed || message !== list))
      .map(({ level, message, fields }) => [level, message, fields])
  if (othersListed) for (const kind of ['services', 'endpointslices'] as const) readiness.listed(kind)
  return { readiness, events, lines, log, tick: (ms: number) => t.mock.timers.tick(ms) }
}

/** How often the first sight of the Node was logged. */
const sightings = (log: RecordingLog): number =>
  log.lines.filter(({ message }) => message.startsWith('kube-proxy running')).length

test('Readiness lets passes run and remove once every kind and the Node are listed, and not before', (t) => {
  const { readiness, events, log } = watched(t, { othersListed: false })
  readiness.start()
  readiness.apply(change(NODE))
  readiness.listed('nodes')
  readiness.listed('services')
  assert.deepEqual(events, ['Nodes listed'])
  readiness.listed('endpointslices')
  assert.deepEqual(events.slice(1), ['passes may remove'])
  const informers = log.lines.filter(({ message }) => /caches|Caches are/.test(message))
  assert.deepEqual(
    informers.map(({ message, fields }) => [message, fields['controller']]),
    [
      ['Waiting for caches to sync', undefined],
      ['Waiting for caches to sync', 'service config'],
      ['Waiting for caches to sync', 'endpoint slice config'],
      ['Caches are synced', undefined],
      ['Caches are synced', 'service config'],
      ['Caches are synced', 'endpoint slice config'],
    ],
  )
})

test('Readiness waits 30 s for the list of Nodes, then lets passes run that remove nothing', (t) => {
  const { readiness, events, log, tick } = watched(t)
  const last = (): unknown[] => [log.lines.at(-1)?.level, log.lines.at(-1)?.message, log.lines.at(-1)?.fields]
  assert.deepEqual(last(), ['info', 'Waiting for the list of Nodes', { node: 'node0', timeout: '30s' }])
  tick(29_999)
  assert.deepEqual(events, [])
  tick(1)
  assert.deepEqual(events, ['passes may run'])
  const message = 'Continuing without the Node object; stale entries are kept until it is available'
  assert.deepEqual(last(), ['warn', message, { node: 'node0' }])
  readiness.apply(change(NODE))
  readiness.listed('nodes')
  tick(1_000_000)
  assert.deepEqual(events.slice(-2), ['Nodes listed', 'passes may remove'])
})

test('Readiness logs the IPs of the Node, their changes, and the deletion of the Node', (t) => {
  const { readiness, events, lines, log } = watched(t)
  readiness.apply(change(NODE))
  assert.deepEqual(lines(), [], 'the list is not complete')
  readiness.listed('nodes')
  readiness.apply(change({ ...NODE, zone: 'a' }))
  readiness.apply([{ kind: 'nodes', key: 'other', value: { ...NODE, name: 'other', addresses: [] } }])
  readiness.apply(change({ ...NODE, addresses: ['10.9.2.99'] }))
  readiness.apply(change(undefined))
  readiness.apply(change({ ...NODE, addresses: [] }))
  readiness.apply(change({ ...NODE, podCidrs: ['10.244.9.0/24'] }))
  const node = 'node0'
  const both = ['10.9.2.15', 'fd00:9:2::15']
  assert.deepEqual(lines(), [
    ['info', 'Successfully retrieved NodeIPs', { NodeIPs: both }],
    ['info', 'NodeIPs changed for the node', { node, newNodeIPs: ['10.9.2.99'], oldNodeIPs: both }],
    ['info', 'Node is being deleted', { node }],
    ['info', 'NodeIPs changed for the node', { node, newNodeIPs: null, oldNodeIPs: ['10.9.2.99'] }],
    ['info', 'NodeIPs changed for the node', { node, newNodeIPs: both, oldNodeIPs: null }],
  ])
  assert.deepEqual(events, ['Nodes listed', 'passes may remove'])
  assert.equal(sightings(log), 1)
})

for (const [what, there, message] of [
  ['an unknown Node', undefined, 'Timed out waiting for node to exist'],
  ['a Node without IPs', { ...NODE, addresses: [] }, 'Timed out waiting for node to be assigned IPs'],
] as const)
  test(`Readiness waits 30 s for ${what}, then lets passes remove`, (t) => {
    const { readiness, events, lines, log, tick } = watched(t)
    if (there !== undefined) readiness.apply(change(there))
    readiness.listed('nodes')
    const waiting = ['info', message.replace('Timed out waiting', 'Waiting'), { node: 'node0', timeout: '30s' }]
    assert.deepEqual(lines(), [waiting])
    tick(29_999)
    assert.equal(lines().length, 1)
    assert.deepEqual(events, ['Nodes listed', 'passes may run'])
    tick(1)
    assert.deepEqual(lines()[1], ['error', message, { node: 'node0' }])
    assert.deepEqual(events.slice(2), ['passes may remove'])
    tick(1_000_000)
    readiness.apply(change(NODE))
    assert.deepEqual(lines().at(-1), [
      'info',
      'NodeIPs changed for the node',
      { node: 'node0', newNodeIPs: ['10.9.2.15', 'fd00:9:2::15'], oldNodeIPs: null },
    ])
    assert.equal(sightings(log), 1)
  })

test('Readiness lets passes remove as soon as the Node appears', (t) => {
  const { readiness, events, lines, tick } = watched(t)
  readiness.listed('nodes')
  tick(20_000)
  readiness.apply(change(NODE))
  assert.deepEqual(events, ['Nodes listed', 'passes may run', 'passes may remove'])
  tick(1_000_000)
  assert.deepEqual([lines().length, events.length], [2, 3])
})

for (const [what, there, message] of [
  ['a Node object', undefined, 'The manifests have no Node object of this name; continuing without'],
  [
    'addresses of the Node',
    { ...NODE, addresses: [], podCidrs: [] },
    'The manifests have no addresses of the Node; continuing without',
  ],
] as const)
  test(`Readiness awaits no ${what} from a source that needs no Node, and follows a Node that appears later`, (t) => {
    const { readiness, events, lines, log, tick } = watched(t, { needsNode: false })
    if (there !== undefined) readiness.apply(change(there))
    readiness.listed('nodes')
    assert.deepEqual(lines(), [['info', message, { node: 'node0' }]])
    assert.deepEqual(events, ['Nodes listed', 'passes may remove'])
    tick(1_000_000)
    readiness.apply(change(NODE))
    assert.deepEqual(lines().at(-1), [
      'info',
      'NodeIPs changed for the node',
      { node: 'node0', newNodeIPs: ['10.9.2.15', 'fd00:9:2::15'], oldNodeIPs: null },
    ])
    assert.deepEqual([events.length, sightings(log)], [2, 1])
  })

test('Readiness does not wait for the Node when the wait is 0', (t) => {
  const { readiness, events } = watched(t, { waits: { nodeMs: 0, podCidrsMs: 0 } })
  readiness.listed('nodes')
  assert.deepEqual(events, ['Nodes listed', 'passes may remove'])
})

test('Readiness awaits pod CIDRs in NodeCIDR mode also from a source that needs no Node, and logs the wait', (t) => {
  const { readiness, events, lines, tick } = watched(t, { detectLocalMode: 'NodeCIDR', needsNode: false })
  readiness.listed('nodes')
  assert.deepEqual(lines().at(-1), [
    'info',
    'Waiting for node "node0" to exist; nothing is written until then',
    { timeout: '300s' },
  ])
  assert.equal(lines().length, 2)
  tick(299_999)
  assert.deepEqual(events, ['Nodes listed'])
  readiness.apply(change(NODE))
  tick(1_000_000)
  assert.deepEqual(events.slice(1), ['passes may remove'])
})

test('Readiness in NodeCIDR mode lets no pass run before the Node has pod CIDRs', (t) => {
  const { readiness, events, tick } = watched(t, { detectLocalMode: 'NodeCIDR' })
  readiness.apply(change({ ...NODE, podCidrs: [] }))
  readiness.listed('nodes')
  tick(299_999)
  assert.deepEqual(events, ['Nodes listed'])
  readiness.apply(change(NODE))
  tick(1_000_000)
  assert.deepEqual(events.slice(1), ['passes may remove'])
})

test('Readiness in NodeCIDR mode fails after 30 s and 5 min without the Node, and after 5 min without pod CIDRs', (t) => {
  const unknown = watched(t, { detectLocalMode: 'NodeCIDR' })
  unknown.readiness.listed('nodes')
  unknown.tick(30_000)
  unknown.tick(299_999)
  assert.deepEqual(unknown.events, ['Nodes listed'])
  unknown.tick(1)
  assert.deepEqual(unknown.events.slice(1), ['failed: timeout waiting for node "node0" to exist'])
  t.mock.timers.reset()
  const bare = watched(t, { detectLocalMode: 'NodeCIDR' })
  bare.readiness.apply(change({ ...NODE, podCidrs: [] }))
  bare.readiness.listed('nodes')
  bare.tick(300_000)
  assert.deepEqual(bare.events.slice(1), ['failed: timeout waiting for PodCIDR allocation on node "node0"'])
})

test('Readiness in NodeCIDR mode fails when the pod CIDRs of the Node change, and only then', (t) => {
  const { readiness, events, lines } = watched(t, { detectLocalMode: 'NodeCIDR' })
  readiness.apply(change(NODE))
  readiness.listed('nodes')
  readiness.apply(change(undefined))
  readiness.apply(change({ ...NODE, podCidrs: [] }))
  readiness.apply(change(NODE))
  assert.deepEqual(events, ['Nodes listed', 'passes may remove'])
  readiness.apply(change({ ...NODE, podCidrs: ['10.244.7.0/24'] }))
  assert.deepEqual(events.slice(2), ['failed: PodCIDRs changed for the node'])
  assert.deepEqual(lines().at(-1), [
    'info',
    'PodCIDRs changed for the node',
    { node: 'node0', newPodCIDRs: ['10.244.7.0/24'], oldPodCIDRs: ['10.244.0.0/24'] },
  ])
})

test('Readiness lets passes run without the addresses of the host, which node ports need, and remove once they are known', (t) => {
  let hasAddresses = false
  const { readiness, events } = watched(t, { hasAddresses: () => hasAddresses })
  readiness.apply(change(NODE))
  readiness.listed('nodes')
  assert.deepEqual(events, ['Nodes listed', 'passes may run'])
  readiness.addressesChanged()
  assert.equal(events.length, 2)
  hasAddresses = true
  readiness.addressesChanged()
  readiness.addressesChanged()
  assert.deepEqual(events.slice(2), ['passes may remove'])
})
