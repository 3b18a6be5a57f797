/**
 * Endpoint selection: the cases of kube-proxy's behaviour as rows, and laws that hold for any set
 * of endpoints. A row lists every endpoint with its verdict, so that a changed reason fails as well
 * as a changed selection.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type Endpoint, isUsed, selectEndpoints, type Selection, type Verdict } from '../../src/service/endpoints.ts'
import { READS_ZONE } from '../../src/service/node-context.ts'
import type { TrafficPolicy } from '../../src/service/objects.ts'
import { endpoint as sliceEndpoint } from '../support/objects.ts'

/**
 * One endpoint in words: `local` or `remote`, then `unready`, `serving` (terminating and serving)
 * or `dead` (terminating and not serving), `zone=a,b`, `node=x,y`.
 */
function endpoint(words: string, index: number): Endpoint {
  const parts = words.split(' ')
  const hints = (kind: string): { hints?: readonly string[] } => {
    const found = parts.find((part) => part.startsWith(`${kind}=`))
    return found === undefined ? {} : { hints: found.slice(kind.length + 1).split(',') }
  }
  const [zone, node] = [hints('zone').hints, hints('node').hints]
  const terminating = parts.includes('serving') || parts.includes('dead')
  const source = sliceEndpoint({
    address: `10.0.1.${index + 1}`,
    ready: !terminating && !parts.includes('unready'),
    serving: !parts.includes('unready') && !parts.includes('dead'),
    terminating,
    nodeName: parts[0] === 'local' ? 'node0' : 'node1',
    ...(zone === undefined ? {} : { zoneHints: zone }),
    ...(node === undefined ? {} : { nodeHints: node }),
  })
  return { address: source.address, port: 80, source }
}

const NODE = { nodeName: 'node0', zone: 'zone-a' }

interface Row {
  readonly title: string
  readonly internal?: TrafficPolicy
  readonly external?: TrafficPolicy
  readonly zone?: string | undefined
  /** endpoint, verdict for internal traffic, verdict for external traffic (when it differs) */
  readonly endpoints: readonly (readonly [words: string, internal: Verdict, external?: Verdict])[]
  /** Whether noLocalEndpoints is set, internal and external. */
  readonly noLocal?: readonly [boolean, boolean]
}

const ROWS: readonly Row[] = [
  { title: 'no endpoints', endpoints: [] },
  {
    title: 'three ready, one not',
    endpoints: [
      ['local', 'used'],
      ['remote', 'used'],
      ['remote', 'used'],
      ['remote unready', 'not-ready'],
    ],
  },
  {
    title: 'internal Local, one local of three',
    internal: 'Local',
    endpoints: [
      ['local', 'used-local', 'used'],
      ['remote', 'not-local', 'used'],
      ['remote', 'not-local', 'used'],
    ],
  },
  {
    title: 'deviation 5: internal Local without a local endpoint uses none, externally accessible or not',
    internal: 'Local',
    endpoints: [
      ['remote', 'not-local', 'used'],
      ['remote unready', 'not-ready'],
    ],
    noLocal: [true, false],
  },
  {
    title: 'external Cluster, some terminating',
    endpoints: [
      ['local', 'used'],
      ['local', 'used'],
      ['local serving', 'terminating'],
      ['local dead', 'not-serving'],
      ['remote', 'used'],
    ],
  },
  {
    title: 'the same with external Local',
    external: 'Local',
    endpoints: [
      ['local', 'used', 'used-local'],
      ['local', 'used', 'used-local'],
      ['local serving', 'terminating'],
      ['local dead', 'not-serving'],
      ['remote', 'used', 'not-local'],
    ],
  },
  {
    title: 'none ready: those that serve while they terminate, on any node',
    endpoints: [
      ['local serving', 'used-terminating'],
      ['local serving', 'used-terminating'],
      ['local dead', 'not-serving'],
      ['remote serving', 'used-terminating'],
      ['remote unready', 'not-ready'],
    ],
  },
  {
    title: 'external Local, local ones terminate, a remote one is ready',
    external: 'Local',
    endpoints: [
      ['local serving', 'terminating', 'used-terminating'],
      ['local serving', 'terminating', 'used-terminating'],
      ['local dead', 'not-serving'],
      ['remote serving', 'terminating', 'not-local'],
      ['remote', 'used', 'not-local'],
    ],
  },
  {
    title: 'deviation 4: external Local without a local endpoint falls back to the endpoints of policy Cluster',
    external: 'Local',
    endpoints: [
      ['remote', 'used', 'used-no-local'],
      ['remote serving', 'terminating'],
      ['local dead', 'not-serving'],
      ['local unready', 'not-ready'],
    ],
    noLocal: [false, true],
  },
  {
    title: 'external Local, nothing local, all remote ones terminating',
    external: 'Local',
    endpoints: [
      ['remote serving', 'used-terminating'],
      ['remote dead', 'not-serving'],
    ],
    noLocal: [false, true],
  },
  {
    title: 'both Local, nothing usable anywhere is not counted as missing local endpoints',
    internal: 'Local',
    external: 'Local',
    endpoints: [
      ['remote unready', 'not-ready'],
      ['local dead', 'not-serving'],
    ],
  },
  {
    title: 'both Local without a local endpoint',
    internal: 'Local',
    external: 'Local',
    endpoints: [['remote', 'not-local', 'used-no-local']],
    noLocal: [true, true],
  },
  {
    title: 'all ready ones have zone hints, some for this zone',
    endpoints: [
      ['remote zone=zone-a', 'used-zone-hint'],
      ['remote zone=zone-b', 'other-zone-hint'],
      ['local zone=zone-b,zone-a', 'used-zone-hint'],
      ['remote unready', 'not-ready'],
    ],
  },
  {
    title: 'one ready endpoint without a hint',
    endpoints: [
      ['remote zone=zone-a', 'used'],
      ['remote', 'used'],
    ],
  },
  {
    title: 'hints, but none for this zone',
    endpoints: [
      ['remote zone=zone-b', 'used'],
      ['remote zone=zone-c', 'used'],
    ],
  },
  {
    title: 'hints, but the node has no zone',
    zone: '',
    endpoints: [
      ['remote zone=zone-b', 'used'],
      ['remote zone=zone-a', 'used'],
    ],
  },
  {
    title: 'hints, and the zone is not known yet',
    zone: undefined,
    endpoints: [['remote zone=zone-a', 'used']],
  },
  {
    title: 'node hints on all, one for this node',
    endpoints: [
      ['remote node=node0', 'used-node-hint'],
      ['remote node=node1', 'other-node-hint'],
    ],
  },
  {
    title: 'node hints have precedence over zone hints',
    endpoints: [
      ['remote node=node0 zone=zone-b', 'used-node-hint'],
      ['remote node=node1 zone=zone-a', 'other-node-hint'],
    ],
  },
  {
    title: 'node hints but none for this node, zone hints fit',
    endpoints: [
      ['remote node=node1 zone=zone-a', 'used-zone-hint'],
      ['remote node=node2 zone=zone-b', 'other-zone-hint'],
    ],
  },
  {
    title: 'the fallback to terminating ones ignores hints',
    endpoints: [
      ['remote serving zone=zone-b', 'used-terminating'],
      ['remote serving zone=zone-a', 'used-terminating'],
    ],
  },
  {
    title: 'the hint of a terminating endpoint does not count',
    endpoints: [
      ['remote zone=zone-b', 'used'],
      ['remote serving zone=zone-a', 'terminating'],
    ],
  },
  {
    title: 'hints narrow the list that replaces missing local ones',
    external: 'Local',
    endpoints: [
      ['remote zone=zone-a', 'used-zone-hint', 'used-no-local'],
      ['remote zone=zone-b', 'other-zone-hint'],
    ],
    noLocal: [false, true],
  },
  {
    title: 'internal Local ignores hints',
    internal: 'Local',
    endpoints: [
      ['local zone=zone-b', 'used-local', 'other-zone-hint'],
      ['remote zone=zone-a', 'not-local', 'used-zone-hint'],
    ],
  },
]

for (const row of ROWS) {
  test(`selectEndpoints ${row.title}`, () => {
    const candidates = row.endpoints.map(([words], index) => endpoint(words, index))
    const node = 'zone' in row ? { ...NODE, zone: row.zone } : NODE
    const chosen = selectEndpoints(row.internal ?? 'Cluster', row.external ?? 'Cluster', candidates, node)
    const verdicts = { internal: chosen.internal.verdicts, external: chosen.external.verdicts }
    assert.deepEqual(verdicts, {
      internal: row.endpoints.map(([, internal]) => internal),
      external: row.endpoints.map(([, internal, external]) => external ?? internal),
    })
    for (const selection of [chosen.internal, chosen.external]) {
      const used = candidates.filter((_, index) => isUsed(selection.verdicts[index] ?? 'not-ready'))
      assert.deepEqual(selection.endpoints, used)
    }
    const noLocal = [chosen.internal.noLocalEndpoints, chosen.external.noLocalEndpoints]
    assert.deepEqual(noLocal, row.noLocal ?? [false, false])
  })
}

test('selectEndpoints returns the same object for equal selections', () => {
  const candidates = ['local', 'remote'].map(endpoint)
  const cluster = selectEndpoints('Cluster', 'Cluster', candidates, NODE)
  assert.equal(cluster.internal, cluster.external)
  assert.equal(cluster.internal.endpoints, candidates)
  const local = selectEndpoints('Local', 'Local', candidates, NODE)
  assert.equal(local.internal, local.external)
})

const anyWords = fc
  .tuple(
    fc.constantFrom('local', 'remote'),
    fc.constantFrom('', '', 'unready', 'serving', 'dead'),
    fc.constantFrom('', 'zone=zone-a', 'zone=zone-b', 'zone=zone-a,zone-b'),
    fc.constantFrom('', 'node=node0', 'node=node1'),
  )
  .map((words) => words.filter((word) => word !== '').join(' '))
const policy = fc.constantFrom<TrafficPolicy>('Cluster', 'Local')
const zone = fc.constantFrom(undefined, '', 'zone-a', 'zone-b', 'zone-c')
const situation = fc.tuple(fc.array(anyWords, { maxLength: 8 }), policy, policy, zone)

test('selectEndpoints uses only endpoints that are ready, or that serve while they terminate', () => {
  fc.assert(
    fc.property(situation, ([words, internal, external, zoneName]) => {
      const candidates = words.map(endpoint)
      const chosen = selectEndpoints(internal, external, candidates, { nodeName: 'node0', zone: zoneName })
      const usable = ({ source }: Endpoint): boolean => source.ready || (source.serving && source.terminating)
      const check = (selection: Selection, fallsBack: boolean): void => {
        assert.equal(selection.verdicts.length, candidates.length)
        assert.ok(selection.endpoints.every(usable))
        const ready = selection.endpoints.filter(({ source }) => source.ready).length
        assert.ok(ready === 0 || ready === selection.endpoints.length, 'ready and terminating ones never mix')
        const someUsable = candidates.some(usable)
        if (fallsBack) assert.equal(selection.endpoints.length > 0, someUsable, 'something usable is used')
      }
      check(chosen.internal, internal === 'Cluster')
      check(chosen.external, true)
      if (internal === 'Local') {
        assert.ok(chosen.internal.endpoints.every(({ source }) => source.nodeName === 'node0'))
      }
      if (external === 'Local' && !chosen.external.noLocalEndpoints) {
        assert.ok(chosen.external.endpoints.every(({ source }) => source.nodeName === 'node0'))
      }
    }),
    { numRuns: 2000 },
  )
})

test('selectEndpoints does not depend on the order of the candidates', () => {
  fc.assert(
    fc.property(situation, ([words, internal, external, zoneName]) => {
      const node = { nodeName: 'node0', zone: zoneName }
      const candidates = words.map(endpoint)
      const forward = selectEndpoints(internal, external, candidates, node)
      const backward = selectEndpoints(internal, external, candidates.toReversed(), node)
      for (const kind of ['internal', 'external'] as const) {
        assert.deepEqual(backward[kind].verdicts.toReversed(), forward[kind].verdicts)
        assert.deepEqual(backward[kind].endpoints.toReversed(), forward[kind].endpoints)
      }
    }),
  )
})

test('selectEndpoints reports that it read the zone whenever another zone gives another result', () => {
  fc.assert(
    fc.property(situation, zone, ([words, internal, external, zoneName], otherZone) => {
      const candidates = words.map(endpoint)
      const one = selectEndpoints(internal, external, candidates, { nodeName: 'node0', zone: zoneName })
      const other = selectEndpoints(internal, external, candidates, { nodeName: 'node0', zone: otherZone })
      for (const kind of ['internal', 'external'] as const) {
        if ((one[kind].reads & READS_ZONE) === 0) assert.deepEqual(other[kind], one[kind])
      }
    }),
    { numRuns: 2000 },
  )
})
