/** How often stale UDP flows are looked for. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { FlowRemoval } from '../../src/modes/flow-removal.ts'
import { recordingLog } from '../support/recording-log.ts'

/** A removal in a time of its own. `tookMs`: how long each list takes. */
function removal(t: TestContext, tookMs: number) {
  t.mock.timers.enable({ apis: ['setTimeout', 'setImmediate'] })
  let nowMs = 1_000_000
  const startsMs: number[] = []
  const staleFlows = {
    pending: 1,
    remove: async () => {
      startsMs.push(nowMs)
      nowMs += tookMs
      return { frontends: 1, deleted: 0, error: undefined }
    },
  }
  const flows = new FlowRemoval({ staleFlows, now: () => nowMs, log: recordingLog() })
  const pass = async (milliseconds: number): Promise<void> => {
    nowMs += milliseconds
    t.mock.timers.tick(milliseconds)
    for (let turn = 0; turn < 5; turn++) await Promise.resolve()
  }
  return { flows, startsMs, pass }
}

const rows: readonly [what: string, tookMs: number, periodMs: number][] = [
  ['a small table is listed again after 100 ms', 1, 100],
  ['a larger one after 50 times the time of the list', 8, 400],
  ['a large one after a second', 300, 1000],
]
for (const [what, tookMs, periodMs] of rows)
  test(what, async (t) => {
    const { flows, startsMs, pass } = removal(t, tookMs)
    flows.passed()
    await pass(0)
    assert.equal(startsMs.length, 1)
    flows.passed()
    await pass(periodMs - 1)
    assert.equal(startsMs.length, 1)
    await pass(1)
    assert.deepEqual(startsMs, [1_000_000, 1_000_000 + tookMs + periodMs])
    await flows.close()
  })

test('passes do not shorten the wait after a failure', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'setImmediate'] })
  let nowMs = 0
  const startsMs: number[] = []
  const remove = async () => {
    startsMs.push(nowMs)
    return { frontends: 0, deleted: 0, error: new Error('no conntrack') }
  }
  const flows = new FlowRemoval({ staleFlows: { pending: 1, remove }, now: () => nowMs, log: recordingLog() })
  for (; nowMs < 10_000; nowMs += 200) {
    flows.passed()
    t.mock.timers.tick(200)
    for (let turn = 0; turn < 5; turn++) await Promise.resolve()
  }
  assert.ok(startsMs.length >= 3 && startsMs.length <= 6, startsMs.join())
  await flows.close()
})
