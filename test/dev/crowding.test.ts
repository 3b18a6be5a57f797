/** Deadlines of tests on a machine that does other work too (test/support/deadline.ts). */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { crowding, eventually } from '../support/deadline.ts'

/** A clock for pieces of work that take so many milliseconds, in turn. */
function clockOf(pieces: readonly number[]): () => number {
  let nowMs = 0
  let reads = 0
  // Reads: the begin, then for each piece whether the time is over, its begin and its end.
  return () => {
    if (reads > 0 && reads % 3 === 0) nowMs += pieces[(reads / 3) % pieces.length] ?? 0
    reads++
    return nowMs
  }
}

describe('crowding', () => {
  const rows: readonly [what: string, pieces: readonly number[], factor: number][] = [
    ['a processor of its own', [1], 1],
    ['another program for every second piece', [1, 3], 2],
    ['many other programs', [1, 99], 8],
  ]
  for (const [what, pieces, factor] of rows)
    it(`is about ${factor} with ${what}`, () => {
      const found = crowding(clockOf(pieces))
      assert.ok(found >= 0.9 * factor && found <= 1.1 * factor, `${found}`)
    })
})

describe('eventually', () => {
  it('fails with the last error, at most a few deadlines after the first', async () => {
    const startedMs = performance.now()
    let checks = 0
    await assert.rejects(
      eventually(() => {
        throw new Error(`check ${++checks}`)
      }, 20),
      (error: Error) => error.message === `check ${checks}`,
    )
    assert.ok(checks >= 2 && performance.now() - startedMs >= 20)
  })
})
