import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { AuditRounds, BufferedSource } from '../../src/daemon/proxy.ts'
import type { ObjectChange } from '../../src/service/objects.ts'
import type { ObjectSink } from '../../src/watch/source.ts'

test('AuditRounds drops every round that has ended when audits start over often', async () => {
  const abort = new AbortController()
  let begun = 0
  const rounds = new AuditRounds(async (signal) => {
    begun++
    if (!signal.aborted) await once(signal, 'abort')
  }, abort.signal)
  for (let reload = 0; reload < 100; reload++) {
    rounds.start()
    await new Promise(setImmediate)
  }
  assert.deepEqual([begun, rounds.unfinished], [100, 1])
  await rounds.close()
  assert.equal(rounds.unfinished, 0)
})

test('AuditRounds.close waits for every round that is under way', async () => {
  const ends: (() => void)[] = []
  const rounds = new AuditRounds(() => new Promise((resolve) => ends.push(resolve)), new AbortController().signal)
  rounds.start()
  rounds.start()
  let isClosed = false
  const closing = rounds.close().then(() => {
    isClosed = true
  })
  ends[1]?.()
  await new Promise(setImmediate)
  assert.equal(isClosed, false)
  ends[0]?.()
  await closing
})

test('AuditRounds stops when its signal is aborted', async () => {
  const abort = new AbortController()
  const rounds = new AuditRounds(async (signal) => void (await once(signal, 'abort')), abort.signal)
  rounds.start()
  abort.abort()
  await new Promise(setImmediate)
  assert.equal(rounds.unfinished, 0)
})

const change = (key: string): ObjectChange => ({ kind: 'services', key, value: undefined })

function recorder(): { readonly reports: string[]; readonly sink: ObjectSink } {
  const reports: string[] = []
  const sink: ObjectSink = {
    apply: (changes) => reports.push(...changes.map(({ key }) => key)),
    listed: (kind) => reports.push(`listed ${kind}`),
    problems: (subject, problems) => reports.push(`${subject}: ${problems.length} problems`),
  }
  return { reports, sink }
}

test('BufferedSource delivers the reports before deliverTo once and in order, and later reports at once', async () => {
  let source: ObjectSink | undefined
  let closed = 0
  const buffered = new BufferedSource((sink) => {
    source = sink
    sink.apply([change('demo/a')])
    return { close: async () => void closed++ }
  })
  source?.problems('service demo/a', [])
  source?.listed('services')
  const { reports, sink } = recorder()
  buffered.deliverTo(sink)
  assert.deepEqual(reports, ['demo/a', 'service demo/a: 0 problems', 'listed services'])
  source?.apply([change('demo/b'), change('demo/c')])
  assert.deepEqual(reports.slice(3), ['demo/b', 'demo/c'])
  await buffered.close()
  assert.equal(closed, 1)
})
