import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SharedSource } from '../../src/daemon/shared-source.ts'
import type { Node, ObjectChange } from '../../src/service/objects.ts'
import { AppliedObjects } from '../../src/sync/applied-objects.ts'
import type { ObjectSink } from '../../src/watch/source.ts'
import { node, service, slice } from '../support/objects.ts'

const put = (name: string): ObjectChange => ({ kind: 'services', key: `demo/${name}`, value: service({ name }) })
const gone = (name: string): ObjectChange => ({ kind: 'services', key: `demo/${name}`, value: undefined })
const putSlice = (name: string, serviceName: string): ObjectChange => ({
  kind: 'endpointslices',
  key: `demo/${name}`,
  value: slice({ name, serviceName }),
})
const changeNode = (value: Node | undefined): ObjectChange => ({ kind: 'nodes', key: 'node0', value })

function recorder() {
  const reports: string[] = []
  const sink: ObjectSink = {
    apply: (changes) => reports.push(...changes.map(({ key, value }) => `${value === undefined ? '-' : '+'} ${key}`)),
    listed: (kind) => reports.push(`listed ${kind}`),
    problems: (subject, problems) => reports.push(`${subject}: ${problems.length} problems`),
  }
  return { reports, sink }
}

/** A shared source, and what the source behind it reports to. */
function open(manyChanges?: number) {
  const opened: ObjectSink[] = []
  let closed = 0
  const shared = new SharedSource((sink) => {
    opened.push(sink)
    return { close: async () => void closed++ }
  }, manyChanges)
  const [source] = opened
  assert.ok(source)
  return { shared, source, closed: () => closed }
}

test('SharedSource delivers what was reported before the first proxy once and in order, and later reports at once', async () => {
  const { shared, source, closed } = open()
  source.apply([put('a')])
  source.problems('service demo/a', [])
  source.listed('services')
  const { reports, sink } = recorder()
  shared.deliverTo(sink)
  assert.deepEqual(reports, ['+ demo/a', 'service demo/a: 0 problems', 'listed services'])
  source.apply([put('b'), put('c')])
  assert.deepEqual(reports.slice(3), ['+ demo/b', '+ demo/c'])
  await shared.close()
  assert.equal(closed(), 1)
})

test('SharedSource keeps the latest change of each object while no proxy has started', () => {
  const { shared, source } = open(10)
  source.apply([put('kept'), put('removed')])
  source.listed('services')
  source.problems('service demo/kept', [{ code: 'x', about: 'object', subject: 'service demo/kept', message: 'x' }])
  source.apply([gone('removed')])
  for (let times = 0; times < 1000; times++) source.apply([put('changing'), gone(`short-${times}`)])
  const { reports, sink } = recorder()
  shared.deliverTo(sink)
  assert.ok(reports.length < 40, String(reports.length))
  const last = new Map(reports.map((report) => [report.slice(2), report.slice(0, 1)]))
  assert.deepEqual([last.get('demo/kept'), last.get('demo/changing')], ['+', '+'])
  assert.notEqual(last.get('demo/removed'), '+')
  assert.ok(reports.includes('listed services'))
  assert.ok(reports.includes('service demo/kept: 1 problems'))
})

test('SharedSource hands over every object, problem and complete list, and asks the source for nothing', async () => {
  const { shared, source, closed } = open()
  const before = new AppliedObjects()
  const first = recorder()
  shared.deliverTo({
    ...first.sink,
    apply: (changes) => {
      for (const change of changes) before.apply(change)
    },
  })
  const names = Array.from({ length: 500 }, (_, index) => `s${index}`)
  source.apply([changeNode(node()), ...names.map(put)])
  source.apply([putSlice('one', 's1'), putSlice('two', 's1'), putSlice('x', 's2')])
  for (const kind of ['nodes', 'services', 'endpointslices'] as const) source.listed(kind)
  source.problems('service demo/s1', [{ code: 'x', about: 'object', subject: 'service demo/s1', message: 'x' }])
  shared.hold(before)
  // The proxy before ends, and no other one is there yet.
  source.apply([put('late'), gone('s0'), gone('s1'), put('s1'), changeNode(undefined)])
  const { reports, sink } = recorder()
  await shared.handOver(before, sink)
  const listed = ['listed nodes', 'listed services', 'listed endpointslices']
  assert.deepEqual(reports.slice(-3), listed)
  assert.deepEqual(reports.slice(0, 3), ['+ node0', '- node0', '- demo/s0'])
  const wanted = [...names.slice(1), 'late', 'one', 'two', 'x'].map((name) => `+ demo/${name}`)
  assert.deepEqual(reports.filter((report) => report.startsWith('+ demo')).toSorted(), wanted.toSorted())
  assert.ok(reports.includes('service demo/s1: 1 problems'))
  source.apply([put('after')])
  assert.equal(reports.at(-1), '+ demo/after')
  assert.equal(closed(), 0)
})

test('SharedSource delivers lists that become complete, and changes that arrive, while it hands over', async () => {
  const { shared, source } = open()
  const before = new AppliedObjects()
  shared.hold(before)
  const state = new Map<string, boolean>()
  let isBusy = false
  const kinds: string[] = []
  const sink: ObjectSink = {
    apply: (changes) => {
      for (const { key, value } of changes) state.set(key, value !== undefined)
      // Each call takes longer than a portion, so the event loop turns many times.
      for (const endMs = performance.now() + 5; performance.now() < endMs; );
      if (isBusy) return
      isBusy = true
      setImmediate(() => {
        source.apply([gone('s3999'), put('new'), gone('s0')])
        source.listed('services')
      })
    },
    listed: (kind) => kinds.push(kind),
    problems: () => undefined,
  }
  source.apply(Array.from({ length: 4000 }, (_, index) => put(`s${index}`)))
  await shared.handOver(before, sink)
  assert.deepEqual([state.get('demo/s3999'), state.get('demo/s0'), state.get('demo/new')], [false, false, true])
  assert.equal([...state.values()].filter(Boolean).length, 3999)
  assert.deepEqual(kinds, ['services'])
})
