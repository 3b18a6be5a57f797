import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import type { DetectLocalMode } from '../../src/config/types.ts'
import { NodePresence, type NodeWaits } from '../../src/daemon/node-presence.ts'
import type { Node, ObjectChange } from '../../src/service/objects.ts'
import { recordingLog } from '../support/recording-log.ts'

const NODE: Node = {
  name: 'node0',
  zone: '',
  addresses: ['10.9.2.15', '10.9.2.16', 'fd00:9:2::15'],
  podCidrs: ['10.244.0.0/24'],
  taintKeys: [],
  deleting: false,
}
const change = (value: Node | undefined): ObjectChange[] => [{ kind: 'nodes', key: 'node0', value }]

/** A presence on a clock of the test's, and what it did: lines of the log, then calls. */
function watched(
  t: TestContext,
  detectLocalMode: DetectLocalMode = 'ClusterCIDR',
  waits?: NodeWaits,
  needsNode?: boolean,
) {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const log = recordingLog()
  const calls: string[] = []
  const presence = new NodePresence({
    nodeName: 'node0',
    detectLocalMode,
    log,
    needsNode,
    ...(waits === undefined ? {} : { waits }),
    onChange: () => calls.push(`hold ${presence.mustHold}, settled ${presence.isSettled}`),
    onFirst: (nodeIps, podCidrs) => calls.push(`first ${nodeIps.join()} ${podCidrs.join()}`),
    onFatal: (error) => calls.push(`fatal ${error.message}`),
  })
  t.after(() => presence.close())
  const said = (): unknown[] => log.lines.map(({ level, message, fields }) => [level, message, fields])
  return { presence, calls, said, tick: (ms: number) => t.mock.timers.tick(ms) }
}

test('NodePresence says which IPs it found, when they change, and that the Node goes', (t) => {
  const { presence, calls, said } = watched(t)
  presence.apply(change(NODE))
  assert.deepEqual(said(), [], 'the list is not complete')
  presence.listed()
  presence.apply(change({ ...NODE, zone: 'a' }))
  presence.apply([{ kind: 'nodes', key: 'other', value: { ...NODE, name: 'other', addresses: [] } }])
  presence.apply(change({ ...NODE, addresses: ['10.9.2.99'] }))
  presence.apply(change(undefined))
  presence.apply(change({ ...NODE, addresses: [] }))
  presence.apply(change({ ...NODE, podCidrs: ['10.244.9.0/24'] }))
  const node = 'node0'
  const both = ['10.9.2.15', 'fd00:9:2::15']
  assert.deepEqual(said(), [
    ['info', 'Successfully retrieved NodeIPs', { NodeIPs: both }],
    ['info', 'NodeIPs changed for the node', { node, newNodeIPs: ['10.9.2.99'], oldNodeIPs: both }],
    ['info', 'Node is being deleted', { node }],
    ['info', 'NodeIPs changed for the node', { node, newNodeIPs: null, oldNodeIPs: ['10.9.2.99'] }],
    ['info', 'NodeIPs changed for the node', { node, newNodeIPs: both, oldNodeIPs: null }],
  ])
  assert.deepEqual(calls, ['first 10.9.2.15,fd00:9:2::15 10.244.0.0/24', 'hold false, settled true'])
})

for (const [what, there, message] of [
  ['an unknown Node', undefined, 'Timed out waiting for node to exist'],
  ['a Node without IPs', { ...NODE, addresses: [] }, 'Timed out waiting for node to be assigned IPs'],
] as const)
  test(`NodePresence waits 30 s for ${what}, then goes on`, (t) => {
    const { presence, calls, said, tick } = watched(t)
    if (there !== undefined) presence.apply(change(there))
    presence.listed()
    const waiting = ['info', message.replace('Timed out waiting', 'Waiting'), { node: 'node0', timeout: '30s' }]
    assert.deepEqual(said(), [waiting])
    tick(29_999)
    assert.deepEqual([said().length, presence.isSettled, presence.mustHold], [1, false, false])
    tick(1)
    assert.deepEqual(said()[1], ['error', message, { node: 'node0' }])
    assert.deepEqual(calls.slice(-1), ['hold false, settled true'])
    tick(1_000_000)
    presence.apply(change(NODE))
    assert.deepEqual(said().at(-1), [
      'info',
      'NodeIPs changed for the node',
      { node: 'node0', newNodeIPs: ['10.9.2.15', 'fd00:9:2::15'], oldNodeIPs: null },
    ])
    assert.equal(calls.filter((call) => call.startsWith('first')).length, 1)
  })

test('NodePresence goes on as soon as the Node comes', (t) => {
  const { presence, calls, said, tick } = watched(t)
  presence.listed()
  tick(20_000)
  presence.apply(change(NODE))
  tick(1_000_000)
  assert.equal(said().length, 2)
  assert.deepEqual(calls.slice(-1), ['hold false, settled true'])
})

for (const [what, there, message] of [
  ['a Node object', undefined, 'The manifests have no Node object of this name; going on without'],
  [
    'addresses of the Node',
    { ...NODE, addresses: [], podCidrs: [] },
    'The manifests have no addresses of the Node; going on without',
  ],
] as const)
  test(`NodePresence needs no ${what} where nobody makes one, and follows a Node that appears later`, (t) => {
    const { presence, calls, said, tick } = watched(t, 'ClusterCIDR', undefined, false)
    if (there !== undefined) presence.apply(change(there))
    presence.listed()
    assert.deepEqual(said(), [['info', message, { node: 'node0' }]])
    assert.deepEqual(calls, ['first  ', 'hold false, settled true'])
    tick(1_000_000)
    presence.apply(change(NODE))
    assert.deepEqual(said().at(-1), [
      'info',
      'NodeIPs changed for the node',
      { node: 'node0', newNodeIPs: ['10.9.2.15', 'fd00:9:2::15'], oldNodeIPs: null },
    ])
    assert.equal(calls.length, 2)
  })

test('NodePresence waits for pod CIDRs in NodeCIDR mode, also where nobody makes a Node, and says so at once', (t) => {
  const { presence, calls, said, tick } = watched(t, 'NodeCIDR', undefined, false)
  presence.listed()
  assert.deepEqual(said().at(-1), [
    'info',
    'Waiting for node "node0" to exist; nothing is written before',
    { timeout: '300s' },
  ])
  assert.equal(said().length, 2)
  tick(299_999)
  assert.equal(presence.mustHold, true)
  presence.apply(change(NODE))
  tick(1_000_000)
  assert.deepEqual(calls.slice(-1), ['hold false, settled true'])
})

test('NodePresence does not wait at all when told so', (t) => {
  const { presence, calls } = watched(t, 'ClusterCIDR', { addressesMs: 0, podCidrsMs: 0 })
  presence.listed()
  assert.deepEqual([presence.isSettled, calls.length], [true, 2])
})

test('NodePresence in NodeCIDR mode holds until the pod CIDRs come', (t) => {
  const { presence, calls, tick } = watched(t, 'NodeCIDR')
  assert.equal(presence.mustHold, true)
  presence.apply(change({ ...NODE, podCidrs: [] }))
  presence.listed()
  assert.deepEqual([presence.mustHold, presence.isSettled], [true, false])
  tick(299_999)
  presence.apply(change(NODE))
  tick(1_000_000)
  assert.deepEqual(calls.slice(-1), ['hold false, settled true'])
})

test('NodePresence in NodeCIDR mode ends after 30 s and 5 min without the Node, 5 min without pod CIDRs', (t) => {
  const unknown = watched(t, 'NodeCIDR')
  unknown.presence.listed()
  unknown.tick(30_000)
  unknown.tick(299_999)
  assert.ok(!unknown.calls.some((call) => call.startsWith('fatal')))
  unknown.tick(1)
  assert.deepEqual(unknown.calls.slice(-1), ['fatal timeout waiting for node "node0" to exist'])
  t.mock.timers.reset()
  const bare = watched(t, 'NodeCIDR')
  bare.presence.apply(change({ ...NODE, podCidrs: [] }))
  bare.presence.listed()
  bare.tick(300_000)
  assert.deepEqual(bare.calls.slice(-1), ['fatal timeout waiting for PodCIDR allocation on node "node0"'])
})

test('NodePresence in NodeCIDR mode ends when the pod CIDRs change, and only then', (t) => {
  const { presence, calls, said } = watched(t, 'NodeCIDR')
  presence.apply(change(NODE))
  presence.listed()
  presence.apply(change(undefined))
  presence.apply(change({ ...NODE, podCidrs: [] }))
  presence.apply(change(NODE))
  assert.ok(!calls.some((call) => call.startsWith('fatal')))
  presence.apply(change({ ...NODE, podCidrs: ['10.244.7.0/24'] }))
  assert.deepEqual(calls.slice(-1), ['fatal PodCIDRs changed for the node'])
  assert.deepEqual(said().at(-1), [
    'info',
    'PodCIDRs changed for the node',
    { node: 'node0', newPodCIDRs: ['10.244.7.0/24'], oldPodCIDRs: ['10.244.0.0/24'] },
  ])
})
