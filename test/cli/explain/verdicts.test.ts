import assert from 'node:assert/strict'
import { test } from 'node:test'
import { verdictWords } from '../../../src/cli/explain/verdicts.ts'
import type { EndpointView } from '../../../src/inspect/view.ts'
import { isUsed, type Verdict } from '../../../src/service/endpoints.ts'

const NODE = { name: 'node0', zone: 'a' }
const POLICIES = { internalPolicy: 'Cluster', externalPolicy: 'Local' } as const

function endpoint(verdict: Verdict, more: Partial<EndpointView> = {}): EndpointView {
  return {
    key: '10.244.0.1:8080',
    node: 'node1',
    isLocal: false,
    ready: true,
    serving: true,
    terminating: false,
    zoneHints: ['b', 'c'],
    nodeHints: ['node7'],
    internal: verdict,
    external: verdict,
    ...more,
  }
}

/** Each verdict once: a new one does not compile without a line here. */
const SENTENCES: Readonly<Record<Verdict, readonly [because: string, rule: string]>> = {
  used: ['it is ready', 'condition ready'],
  'used-local': [
    'it is ready and runs on this node, and externalTrafficPolicy is Local',
    'externalTrafficPolicy: Local',
  ],
  'used-node-hint': ['it is ready, and its hints name this node ("node0")', 'hints for nodes'],
  'used-zone-hint': ['it is ready, and its hints name the zone of this node ("a")', 'hints for zones'],
  'used-no-local': [
    'it is ready; externalTrafficPolicy is Local and no endpoint runs on this node, so only clients inside the cluster are ' +
      'served, by endpoints elsewhere',
    'externalTrafficPolicy: Local, without an endpoint on this node',
  ],
  'used-terminating': [
    'it terminates but still serves, and no endpoint is ready',
    'terminating endpoints when none is ready',
  ],
  'not-ready': ['it is not ready', 'condition ready'],
  'not-serving': ['it terminates and no longer serves', 'condition serving'],
  terminating: ['it terminates, and there are ready endpoints that can be used', 'condition terminating'],
  'not-local': [
    'it runs on node "node1", not on this one, and externalTrafficPolicy is Local',
    'externalTrafficPolicy: Local',
  ],
  'other-node-hint': [
    'its hints are for node "node7", and other endpoints are hinted to this node ("node0")',
    'hints for nodes',
  ],
  'other-zone-hint': ['its hints are for zones "b", "c", and this node is in zone "a"', 'hints for zones'],
}

for (const [verdict, [because, rule]] of Object.entries(SENTENCES) as [Verdict, readonly [string, string]][])
  test(`the verdict ${verdict} has a sentence`, () => {
    assert.deepEqual(verdictWords(endpoint(verdict), 'external', POLICIES, NODE), {
      verdict,
      isUsed: isUsed(verdict),
      because,
      rule,
    })
  })

test('a sentence names the policy of its kind of traffic', () => {
  const local = { internalPolicy: 'Local', externalPolicy: 'Cluster' } as const
  assert.match(verdictWords(endpoint('not-local'), 'internal', local, NODE).because, /internalTrafficPolicy is Local$/)
  const here = endpoint('used-terminating', { isLocal: true })
  assert.equal(
    verdictWords(here, 'internal', local, NODE).because,
    'it terminates but still serves, and no endpoint on this node is ready',
  )
  assert.equal(
    verdictWords(here, 'external', local, NODE).because,
    'it terminates but still serves, and no endpoint is ready',
  )
})

test('what is not known of the node is said, and foreign names are quoted', () => {
  const unknown = { name: '', zone: null }
  assert.match(verdictWords(endpoint('other-zone-hint'), 'internal', POLICIES, unknown).because, /in zone unknown$/)
  const hostile = endpoint('not-local', { node: 'a\u001b[31m\nb' })
  assert.match(verdictWords(hostile, 'external', POLICIES, NODE).because, /node "a\\x1b\[31m\\nb", not/)
  assert.match(
    verdictWords(endpoint('not-local', { node: '' }), 'external', POLICIES, NODE).because,
    /on no known node/,
  )
  const many = endpoint('other-zone-hint', { zoneHints: Array.from({ length: 100 }, (_, index) => `z${index}`) })
  assert.match(
    verdictWords(many, 'external', POLICIES, NODE).because,
    /^its hints are for zones "z0", "z1", "z2", "z3" and 96 more,/,
  )
})
