/**
 * StaleFlows over a table in memory: which frontends wait, which are dropped, and laws for any
 * sequence of changes and failures.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { passes } from '../../src/conntrack/codec.ts'
import type { Deletion } from '../../src/conntrack/connection.ts'
import { StaleFlows } from '../../src/conntrack/stale-flows.ts'
import { type FlowFrontend, servingEndpoints } from '../../src/conntrack/stale-rule.ts'
import type { Flow, FlowFilter } from '../../src/conntrack/types.ts'
import { formatEndpoint } from '../../src/values/address.ts'
import { endpoint, flowFrontend, flowOf } from './flows.ts'

const signal = new AbortController().signal
const KEY = '10.96.0.10:53/udp'
const KEY6 = '[fd00::a]:53/udp'
const A = flowFrontend(endpoint('10.244.0.1:53'))

/** The table behind the methods that StaleFlows calls. */
class MemoryConntrack {
  flows: Flow[]
  dumps: FlowFilter[] = []
  largest = 0
  /** Errors of the next calls; undefined is success. */
  readonly dumpErrors: (Error | undefined)[] = []
  readonly deleteErrors: (Error | undefined)[] = []
  onDump: () => void = () => undefined

  constructor(...flows: readonly Flow[]) {
    this.flows = [...flows]
  }

  async findFlows(filter: FlowFilter, wanted: (flow: Flow) => boolean, { limit }: { readonly limit: number }) {
    this.dumps.push(filter)
    this.onDump()
    const error = this.dumpErrors.shift()
    if (error !== undefined) throw error
    return this.flows.filter((flow) => passes(flow, filter) && wanted(flow)).slice(0, limit)
  }

  async deleteFlows(flows: readonly Flow[]): Promise<Deletion> {
    this.largest = Math.max(this.largest, flows.length)
    const error = flows.length === 0 ? undefined : this.deleteErrors.shift()
    // The first deletion fails.
    const gone = new Set(error === undefined ? flows : flows.slice(1))
    this.flows = this.flows.filter((flow) => !gone.has(flow))
    return { deleted: gone.size, vanished: 0, failed: error === undefined ? 0 : 1, error }
  }

  get left(): string[] {
    return this.flows.map(({ original, reply }) =>
      [
        formatEndpoint(original.destination, original.destinationPort),
        formatEndpoint(reply.source, reply.sourcePort),
      ].join(' '),
    )
  }
}

describe('StaleFlows', () => {
  const toA = flowOf('10.96.0.10:53', '10.244.0.1:53')
  const toB = flowOf('10.96.0.10:53', '10.244.0.2:53')

  it('deletes the flows of a removed endpoint, and requests no others', async () => {
    const conntrack = new MemoryConntrack(toA, toB)
    const stale = new StaleFlows({ conntrack, isSettled: () => true })
    stale.suspect(KEY, A)
    assert.deepEqual(await stale.remove(signal), { frontends: 1, deleted: 1, error: undefined })
    assert.deepEqual(conntrack.left, ['10.96.0.10:53 10.244.0.1:53'])
    assert.deepEqual(conntrack.dumps, [
      { family: 'IPv4', protocol: 'udp', destination: '10.96.0.10', destinationPort: 53 },
    ])
    assert.equal(stale.pending, 0)
  })

  it('dumps once for many frontends of a family, and not at all without frontends', async () => {
    const conntrack = new MemoryConntrack()
    const stale = new StaleFlows({ conntrack, isSettled: () => true })
    await stale.remove(signal)
    assert.deepEqual(conntrack.dumps, [])
    for (let index = 0; index < 500; index++) stale.suspect(`10.96.${index >> 8}.${index & 255}:53/udp`, A)
    stale.suspect(KEY6, undefined)
    assert.equal((await stale.remove(signal)).frontends, 501)
    assert.deepEqual(conntrack.dumps, [
      { family: 'IPv4', protocol: 'udp', destinationPort: 53 },
      { family: 'IPv6', protocol: 'udp', destination: 'fd00::a', destinationPort: 53 },
    ])
  })

  it('ignores other protocols than UDP', async () => {
    const conntrack = new MemoryConntrack(flowOf('10.96.0.10:53', '10.244.0.2:53', { protocol: 'sctp' }))
    const stale = new StaleFlows({ conntrack, isSettled: () => true })
    stale.suspect('10.96.0.10:53/sctp', undefined)
    stale.suspect('10.96.0.10:53/tcp', undefined)
    assert.deepEqual([stale.pending, (await stale.remove(signal)).frontends, conntrack.flows.length], [0, 0, 1])
  })

  it('waits until the real server is removed', async () => {
    let settled = false
    const conntrack = new MemoryConntrack(toB)
    const stale = new StaleFlows({ conntrack, isSettled: () => settled })
    stale.suspect(KEY, A)
    assert.equal((await stale.remove(signal)).frontends, 0)
    assert.deepEqual([stale.pending, conntrack.dumps.length, conntrack.flows.length], [1, 0, 1])
    settled = true
    assert.equal((await stale.remove(signal)).deleted, 1)
  })

  it('uses the last change of a frontend', async () => {
    const conntrack = new MemoryConntrack(toA, toB)
    const stale = new StaleFlows({ conntrack, isSettled: () => true })
    stale.suspect(KEY, undefined)
    stale.suspect(KEY, flowFrontend(endpoint('10.244.0.1:53'), endpoint('10.244.0.2:53')))
    assert.equal((await stale.remove(signal)).deleted, 0)
  })

  it('keeps its frontends when the dump or a deletion fails, and continues with the other family', async () => {
    const conntrack = new MemoryConntrack(toB, flowOf('[fd00::a]:53', '[fd01::2]:53'))
    const stale = new StaleFlows({ conntrack, isSettled: () => true })
    stale.suspect(KEY, A)
    stale.suspect(KEY6, A)
    const error = new Error('no')
    conntrack.dumpErrors.push(error)
    assert.deepEqual(await stale.remove(signal), { frontends: 2, deleted: 1, error })
    assert.deepEqual([stale.pending, conntrack.left], [1, ['10.96.0.10:53 10.244.0.2:53']])
    conntrack.deleteErrors.push(error)
    assert.equal((await stale.remove(signal)).error, error)
    assert.deepEqual([stale.pending, conntrack.flows.length], [1, 1])
    assert.deepEqual(await stale.remove(signal), { frontends: 1, deleted: 1, error: undefined })
    assert.equal(stale.pending, 0)
  })

  it('keeps a change that was made during a failed removal', async () => {
    const conntrack = new MemoryConntrack(toA)
    const stale = new StaleFlows({ conntrack, isSettled: () => true })
    stale.suspect(KEY, undefined)
    conntrack.dumpErrors.push(new Error('no'))
    conntrack.onDump = () => stale.suspect(KEY, A)
    await stale.remove(signal)
    conntrack.onDump = () => undefined
    assert.equal((await stale.remove(signal)).deleted, 0)
  })

  it('rejects when aborted, and its frontends keep waiting', async () => {
    const conntrack = new MemoryConntrack(toB)
    const stale = new StaleFlows({ conntrack, isSettled: () => true })
    stale.suspect(KEY, A)
    const stop = new Error('stop')
    conntrack.dumpErrors.push(stop)
    await assert.rejects(stale.remove(AbortSignal.abort(stop)), /stop/)
    assert.equal(stale.pending, 1)
  })

  it('holds no more flows at once than its limit', async () => {
    const flows = Array.from({ length: 95 }, (_, id) => flowOf('10.96.0.10:53', '10.244.0.2:53', { id }))
    const conntrack = new MemoryConntrack(toA, ...flows)
    const stale = new StaleFlows({ conntrack, isSettled: () => true, limit: 10 })
    stale.suspect(KEY, A)
    assert.equal((await stale.remove(signal)).deleted, 95)
    assert.deepEqual([conntrack.largest, conntrack.dumps.length, conntrack.flows.length], [10, 10, 1])
  })

  it('fails when stale flows are created all the time, and retries later', async () => {
    const conntrack = new MemoryConntrack()
    const stale = new StaleFlows({ conntrack, isSettled: () => true, limit: 1 })
    conntrack.onDump = () => conntrack.flows.push(toB)
    stale.suspect(KEY, A)
    const { error } = await stale.remove(signal)
    assert.ok(error instanceof Error && 'code' in error && error.code === 'conntrack-stale')
    assert.equal(stale.pending, 1)
  })
})

/** Few of each, so that flows belong to frontends. */
const FRONTENDS = ['10.96.0.1:53', '10.96.0.1:54', '10.96.0.2:53', '[fd00::a]:53'] as const
const ENDPOINTS = ['10.244.0.1:53', '10.244.0.1:54', '10.244.0.2:53', '[fd01::1]:53', '[fd01::1]:54'] as const

const someFrontend: fc.Arbitrary<FlowFrontend | undefined> = fc.option(
  fc
    .subarray(ENDPOINTS.flatMap((place) => [endpoint(place), endpoint(place, { ready: false, serving: false })]))
    .map((endpoints) => flowFrontend(...endpoints)),
  { nil: undefined },
)

describe('after any changes and failures', () => {
  it('enough removals leave only flows that are not stale, and one more does nothing', async () => {
    const someFlows = fc.array(
      fc
        .tuple(fc.constantFrom(...FRONTENDS), fc.constantFrom(...FRONTENDS, ...ENDPOINTS), fc.nat(3))
        .filter(([to, from]) => to.startsWith('[') === from.startsWith('['))
        .map(([to, from, id]) => flowOf(to, from, { id })),
    )
    const change = fc.record({
      frontend: fc.constantFrom(...FRONTENDS),
      now: someFrontend,
      flows: someFlows,
      fails: fc.constantFrom('dump', 'deletion', 'nothing'),
      settled: fc.boolean(),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(change, { maxLength: 12 }), fc.integer({ min: 1, max: 5 }), async (changes, limit) => {
        const conntrack = new MemoryConntrack()
        const last = new Map<string, FlowFrontend | undefined>()
        const settled = new Set<string>()
        const stale = new StaleFlows({ conntrack, isSettled: (key) => settled.has(key), limit })
        for (const { frontend, now, flows, fails, settled: is } of changes) {
          conntrack.flows.push(...flows)
          last.set(frontend, now)
          if (is) settled.add(`${frontend}/udp`)
          else settled.delete(`${frontend}/udp`)
          stale.suspect(`${frontend}/udp`, now)
          if (fails === 'dump') conntrack.dumpErrors.push(new Error(fails))
          if (fails === 'deletion') conntrack.deleteErrors.push(new Error(fails))
          await stale.remove(signal)
        }
        // All frontends are checked again, since flows were created later.
        for (const [frontend, now] of last) {
          settled.add(`${frontend}/udp`)
          stale.suspect(`${frontend}/udp`, now)
        }
        const before = conntrack.flows
        conntrack.dumpErrors.length = 0
        conntrack.deleteErrors.length = 0
        await stale.remove(signal)
        const left = before.filter(({ original, reply }) => {
          const to = formatEndpoint(original.destination, original.destinationPort)
          const from = formatEndpoint(reply.source, reply.sourcePort)
          if (!last.has(to)) return true
          const now = last.get(to)
          return now === undefined ? from === to : servingEndpoints(now).has(from)
        })
        assert.deepEqual(conntrack.flows, left)
        assert.equal(stale.pending, 0)
        const dumps = conntrack.dumps.length
        await stale.remove(signal)
        assert.equal(conntrack.dumps.length, dumps)
      }),
    )
  })
})
