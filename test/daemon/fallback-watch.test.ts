import assert from 'node:assert/strict'
import { test } from 'node:test'
import { watchFallback } from '../../src/daemon/fallback-watch.ts'
import { eventually } from '../support/deadline.ts'
import { recordingLog } from '../support/recording-log.ts'

const SAYS = 'The kernel has everything for ipvs mode now; the next start of this program uses it'

test('watchFallback asks until nothing is missing, survives failures, and logs the end once', async () => {
  const log = recordingLog(0)
  const answers: (() => Promise<string | undefined>)[] = [
    async () => 'ipvs-missing',
    () => Promise.reject(new Error('no answer')),
    async () => 'ipset-missing',
    async () => undefined,
  ]
  let asked = 0
  const ask = (): Promise<string | undefined> => answers[asked++]?.() ?? Promise.resolve(undefined)
  const watch = watchFallback({ log, ask, periodMs: 1 })
  // The timer does not keep the process alive.
  const alive = setInterval(() => undefined, 1000)
  await eventually(() => assert.ok(log.lines.some(({ message }) => message === SAYS)))
  await new Promise((resolve) => setTimeout(resolve, 20))
  clearInterval(alive)
  assert.equal(asked, answers.length)
  assert.deepEqual(
    log.lines.map(({ level, message }) => [level, message]).filter(([level]) => level === 'info'),
    [['info', SAYS]],
  )
  watch.close()
})

test('watchFallback logs nothing after it was closed', async () => {
  const log = recordingLog()
  const answer = Promise.withResolvers<undefined>()
  let asked = 0
  const ask = (): Promise<undefined> => {
    asked++
    return answer.promise
  }
  const watch = watchFallback({ log, ask, periodMs: 1 })
  const alive = setInterval(() => undefined, 1000)
  await eventually(() => assert.equal(asked, 1))
  watch.close()
  answer.resolve(undefined)
  await new Promise((resolve) => setTimeout(resolve, 20))
  clearInterval(alive)
  assert.deepEqual([asked, log.lines], [1, []])
})
