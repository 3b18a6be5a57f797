import assert from 'node:assert/strict'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, it, type TestContext } from 'node:test'
import { FollowedNodeLabels } from '../../src/daemon/followed-node-labels.ts'
import type { Frontend } from '../../src/service/frontends.ts'
import type { NodeLabels } from '../../src/service/node-context.ts'
import type { ObjectChange } from '../../src/service/objects.ts'
import { parseWeights } from '../../src/service/weights.ts'
import type { ObjectSink } from '../../src/watch/source.ts'
import { until } from '../support/deadline.ts'
import { frontendOf } from '../support/frontends.ts'
import { node } from '../support/objects.ts'

/** A frontend of a Service whose rules name these labels. */
function naming(...labels: readonly string[]): Frontend {
  const weights = parseWeights([...labels.map((label) => `node-label:${label}=x=2`), 'other=1'].join(','))
  assert.ok(weights)
  return frontendOf({ servicePort: { choices: { weights } } })
}

function nodeOf(name: string, labels?: Readonly<Record<string, string>>): ObjectChange {
  return { kind: 'nodes', key: name, value: node({ name, ...(labels === undefined ? {} : { labels }) }) }
}

interface OpenedSource {
  readonly labels: readonly string[]
  readonly sink: ObjectSink
  isClosed: boolean
}

interface Fixture {
  readonly followed: FollowedNodeLabels
  readonly opened: OpenedSource[]
  /** Every report, as plain objects. */
  readonly reports: (Readonly<Record<string, unknown>> | undefined)[]
}

function fixture(t: TestContext, options: { readonly isApi?: boolean; readonly periodMs?: number } = {}): Fixture {
  const { isApi = true, periodMs = 900_000 } = options
  const f: Omit<Fixture, 'followed'> = { opened: [], reports: [] }
  const followed = new FollowedNodeLabels({
    open: isApi
      ? (labels, sink) => {
          const one: OpenedSource = { labels: [...labels], sink, isClosed: false }
          f.opened.push(one)
          return {
            close: async () => {
              one.isClosed = true
            },
          }
        }
      : undefined,
    onChange: (labels: NodeLabels | undefined) => f.reports.push(labels && Object.fromEntries(labels)),
    now: () => performance.now(),
    limit: { lists: 3, periodMs, lingerMs: 100 },
  })
  t.after(() => followed.close())
  return Object.assign(f, { followed })
}

describe('FollowedNodeLabels', () => {
  it('opens a source with the first rule that names a label, and closes it after the last one', async (t) => {
    const { followed, opened, reports } = fixture(t)
    followed.frontend('one', frontendOf())
    followed.frontend('two', undefined)
    await nextTurn()
    assert.deepEqual([opened.length, followed.isAwaited], [0, false])
    followed.frontend('one', naming('pool', 'tier'))
    followed.frontend('two', naming('pool'))
    await until('a source', () => opened.length === 1)
    const [first] = opened
    assert.ok(first)
    assert.deepEqual(first.labels, ['pool', 'tier'])
    first.sink.apply([nodeOf('node1', { pool: 'gold' }), nodeOf('node2')])
    assert.deepEqual([reports, followed.isAwaited], [[], true])
    first.sink.listed('nodes')
    assert.deepEqual([reports, followed.isAwaited], [[{ node1: { pool: 'gold' } }], false])
    assert.equal(followed.nodeCount, 1)
    followed.frontend('one', frontendOf())
    await nextTurn()
    assert.ok(!first.isClosed)
    followed.frontend('two', undefined)
    await nextTurn()
    // A rule that comes back soon finds the source open.
    followed.frontend('two', naming('tier'))
    await new Promise((resolve) => setTimeout(resolve, 200))
    assert.deepEqual([opened.length, first.isClosed, followed.isAwaited], [1, false, false])
    followed.frontend('two', undefined)
    const endedMs = performance.now()
    await until('the end', () => first.isClosed)
    assert.ok(performance.now() - endedMs >= 90)
    assert.deepEqual([reports.length, reports[1], followed.nodeCount], [2, undefined, 0])
    // What the closed source still had to say does not count.
    first.sink.apply([nodeOf('node3', { pool: 'gold' })])
    first.sink.listed('nodes')
    assert.equal(reports.length, 2)
  })

  it('reports changes of labels, together when there are many, and nothing when none differs', async (t) => {
    const { followed, opened, reports } = fixture(t)
    followed.frontend('one', naming('pool'))
    await until('a source', () => opened.length === 1)
    const sink = opened[0]?.sink
    sink?.listed('nodes')
    assert.deepEqual(reports, [{}])
    for (let index = 0; index < 1000; index++) sink?.apply([nodeOf(`node${index}`, { pool: 'gold' })])
    await until('a report', () => reports.length === 2)
    assert.equal(Object.keys(reports[1] ?? {}).length, 1000)
    for (let index = 0; index < 1000; index++) sink?.apply([nodeOf(`node${index}`, { pool: 'gold' }), nodeOf('other')])
    await new Promise((resolve) => setTimeout(resolve, 1200))
    assert.equal(reports.length, 2)
    sink?.apply([{ kind: 'nodes', key: 'node0', value: undefined }, nodeOf('node1', { pool: 'tin' })])
    await until('a report', () => reports.length === 3)
    const last: Readonly<Record<string, unknown>> = reports.at(-1) ?? {}
    assert.deepEqual([last['node0'], last['node1']], [undefined, { pool: 'tin' }])
  })

  it('keeps the labels it has until the list with another label is complete', async (t) => {
    const { followed, opened, reports } = fixture(t)
    followed.frontend('one', naming('pool'))
    await until('a source', () => opened.length === 1)
    opened[0]?.sink.apply([nodeOf('node1', { pool: 'gold' })])
    opened[0]?.sink.listed('nodes')
    followed.frontend('two', naming('tier'))
    await until('another source', () => opened.length === 2)
    assert.deepEqual([opened[0]?.isClosed, opened[1]?.labels, reports.length], [true, ['pool', 'tier'], 1])
    opened[1]?.sink.apply([nodeOf('node1', { pool: 'gold', tier: 'x' })])
    opened[1]?.sink.listed('nodes')
    assert.deepEqual(reports[1], { node1: { pool: 'gold', tier: 'x' } })
    // Fewer labels need no other list.
    followed.frontend('two', undefined)
    await nextTurn()
    assert.equal(opened.length, 2)
  })

  it('lists a few times at once and then rarely, however often the rules change', async (t) => {
    const { followed, opened } = fixture(t, { periodMs: 400 })
    const beganMs = performance.now()
    for (let index = 0; index < 200; index++) {
      followed.frontend('one', naming(`label${index}`))
      await nextTurn()
    }
    assert.equal(opened.length, 3)
    await until('the next list', () => opened.length === 4, 10_000)
    assert.ok(performance.now() - beganMs >= 400)
    assert.deepEqual(opened[3]?.labels, ['label199'])
  })

  it('uses the labels that the proxy before knew until its own list is complete, and forgets them without a rule', async (t) => {
    const before = fixture(t)
    assert.equal(before.followed.labels, undefined)
    before.followed.frontend('one', naming('pool'))
    await until('a source', () => before.opened.length === 1)
    before.opened[0]?.sink.apply([nodeOf('node1', { pool: 'gold' })])
    before.opened[0]?.sink.listed('nodes')
    const { labels } = before.followed
    assert.ok(labels)

    const { followed, opened, reports } = fixture(t)
    followed.adopt(labels)
    assert.deepEqual(reports, [{ node1: { pool: 'gold' } }])
    followed.frontend('one', naming('pool'))
    await until('a source', () => opened.length === 1)
    opened[0]?.sink.apply([nodeOf('node1', { pool: 'tin' })])
    assert.equal(reports.length, 1)
    opened[0]?.sink.listed('nodes')
    assert.deepEqual(reports, [{ node1: { pool: 'gold' } }, { node1: { pool: 'tin' } }])

    const unused = fixture(t)
    unused.followed.adopt(labels)
    await until('the end', () => unused.followed.labels === undefined)
    assert.deepEqual([unused.opened.length, unused.reports.at(-1)], [0, undefined])
  })

  it('takes in all Nodes of manifests without a separate source', async (t) => {
    const { followed, reports } = fixture(t, { isApi: false })
    followed.apply([nodeOf('node1', { pool: 'gold' }), { kind: 'services', key: 'demo/web', value: undefined }])
    followed.apply([nodeOf('node1', { pool: 'gold' }), nodeOf('node2')])
    followed.frontend('one', naming('pool'))
    assert.deepEqual([reports, followed.isAwaited, followed.nodeCount], [[{ node1: { pool: 'gold' } }], false, 1])
    await followed.known(0)
  })

  it('tells a command that the labels are missing', async (t) => {
    const { followed, opened } = fixture(t)
    await followed.known(0)
    followed.frontend('one', naming('pool'))
    await assert.rejects(followed.known(50), { code: 'source-timeout' })
    const known = followed.known(10_000)
    opened[0]?.sink.listed('nodes')
    await known
  })
})
