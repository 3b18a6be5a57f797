import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ProxyHealth } from '../../src/daemon/proxy-health.ts'
import type { Node, ObjectChange } from '../../src/service/objects.ts'
import { TABLES } from '../../src/sync/part.ts'
import { node } from '../support/objects.ts'

const NODE = node({ name: 'node0' })
const TAINTED = node({ name: 'node0', taintKeys: ['ToBeDeletedByClusterAutoscaler'] })
const DELETING = node({ name: 'node0', deleting: true })
const change = (value: Node | undefined, key = 'node0'): ObjectChange[] => [{ kind: 'nodes', key, value }]

/** Whether the node is eligible at first and after each of these changes. */
function eligible(needsNode: boolean | undefined, ...nodes: readonly (Node | undefined)[]): boolean[] {
  const health = new ProxyHealth({
    nodeName: 'node0',
    ...(needsNode === undefined ? {} : { needsNode }),
    families: ['IPv4'],
    syncPeriodMs: () => 30_000,
    now: () => 0,
  })
  const states = [health.state.nodeEligible]
  for (const node of nodes) {
    health.apply(change(node))
    health.apply(change(DELETING, 'another'))
    states.push(health.state.nodeEligible)
  }
  return states
}

test('ProxyHealth has an eligible node while the Node exists, is not tainted and is not being deleted', () => {
  assert.deepEqual(eligible(undefined, NODE, TAINTED, NODE, DELETING), [false, true, false, true, false])
})

test('ProxyHealth keeps the last state of the Node when its object is deleted', () => {
  assert.deepEqual(eligible(undefined, NODE, undefined, NODE), [false, true, true, true])
  assert.deepEqual(eligible(undefined, DELETING, undefined), [false, false, false])
})

test('ProxyHealth has an eligible node without a Node object where none is needed, and follows one that exists', () => {
  assert.deepEqual(eligible(false, TAINTED, undefined, NODE), [true, false, true, true])
})

test('ProxyHealth forgets the troubles of a kernel when another proxy starts, and that one has the whole grace period', () => {
  let nowMs = 0
  const health = new ProxyHealth({
    nodeName: 'node0',
    families: ['IPv4'],
    syncPeriodMs: () => 30_000,
    now: () => nowMs,
  })
  const kernel = (wrong: boolean) => ({
    families: ['IPv4'] as const,
    tables: () => [{ what: 'virtual servers', families: ['IPv4'] as const, wrong }],
    parts: [],
  })
  const done = { applied: 0, failures: [], repairs: [], unreadable: [] }
  health.follow(kernel(true))
  health.passed(TABLES, done)
  nowMs = 60_000
  assert.equal(health.isHealthy, false)
  health.follow(kernel(false))
  assert.equal(health.isHealthy, true)
  nowMs = 119_000
  assert.equal(health.isHealthy, true)
  nowMs = 120_000
  assert.equal(health.isHealthy, false)
  health.passed(TABLES, done)
  assert.equal(health.isHealthy, true)
})
