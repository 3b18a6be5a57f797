import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { AuditRounds } from '../../src/daemon/proxy.ts'

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
