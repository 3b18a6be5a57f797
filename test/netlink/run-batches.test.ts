/** How a long list of operations is cut into datagrams, and who has a turn in between. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Outcome } from '../../src/netlink/connection.ts'
import { runInBatches } from '../../src/netlink/run-batches.ts'

const OPS = 120

/** A sink whose kernel takes `ms` for each datagram. */
function sinkOf(ms: number) {
  const datagrams: number[][] = []
  let open: number[] = []
  return {
    datagrams,
    encode(op: number): void {
      if (op === 7) throw new Error('cannot be encoded')
      open.push(op)
    },
    async commit(): Promise<readonly Outcome[]> {
      for (const endMs = performance.now() + ms; performance.now() < endMs; );
      const sent = open
      open = []
      datagrams.push(sent)
      return sent.map(() => undefined)
    },
  }
}
const ops = Array.from({ length: OPS }, (_, index) => index)

describe('runInBatches', () => {
  it('sends few operations at once, in order, and fails one alone that cannot be encoded', async () => {
    const sink = sinkOf(0)
    const outcomes = await runInBatches(ops, sink, new AbortController().signal)
    assert.deepEqual(
      sink.datagrams.flat(),
      ops.filter((op) => op !== 7),
    )
    assert.ok(Math.max(...sink.datagrams.map(({ length }) => length)) <= 50)
    assert.deepEqual(
      outcomes.flatMap((outcome, index) => (outcome === undefined ? [] : [index])),
      [7],
    )
  })

  it('lets others have a turn after a datagram that took the kernel long', async () => {
    const sink = sinkOf(5)
    const abort = new AbortController()
    setImmediate(() => abort.abort(new Error('enough')))
    await assert.rejects(runInBatches(ops, sink, abort.signal), /enough/)
    assert.equal(sink.datagrams.length, 1)
  })
})
