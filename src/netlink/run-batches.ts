/**
 * Runs a long list of operations as datagrams of a bearable length, letting the event loop run in between.
 * What could break: one outcome per operation, in order. When the outcome of a datagram is not known (overrun, timeout)
 * each of its operations gets that error, so that whoever keeps a mirror reads those keys again.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Outcome } from './connection.ts'
import type { BatchPace } from './batch-pace.ts'

export interface BatchSink<Op> {
  /** Encodes one operation into the current datagram. */
  encode(op: Op): void
  /** Sends the datagram; one outcome for each operation in it. */
  commit(): Promise<readonly Outcome[]>
}

/** Rejects only when aborted, between two datagrams. */
export async function runInBatches<Op>(
  ops: readonly Op[],
  sink: BatchSink<Op>,
  pace: BatchPace,
  signal: AbortSignal,
): Promise<(Error | undefined)[]> {
  const outcomes: (Error | undefined)[] = []
  let next = 0
  while (next < ops.length) {
    signal.throwIfAborted()
    const batch = ops.slice(next, next + pace.size)
    next += batch.length
    const startedMs = performance.now()
    for (const outcome of await runOne(batch, sink)) outcomes.push(outcome)
    pace.observe(batch.length, performance.now() - startedMs)
    if (next < ops.length) await nextTurn()
  }
  return outcomes
}

/** An operation that cannot be encoded fails by itself; the others of its datagram are sent. */
async function runOne<Op>(batch: readonly Op[], sink: BatchSink<Op>): Promise<readonly (Error | undefined)[]> {
  const outcomes: (Error | undefined)[] = []
  const sent: number[] = []
  batch.forEach((op, index) => {
    try {
      sink.encode(op)
      sent.push(index)
    } catch (error) {
      outcomes[index] = asError(error)
    }
  })
  try {
    const answers = await sink.commit()
    sent.forEach((index, answer) => {
      outcomes[index] = answers[answer]
    })
  } catch (error) {
    const reason = asError(error)
    for (const index of sent) outcomes[index] = reason
  }
  return Array.from({ length: batch.length }, (_, index) => outcomes[index])
}

function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown))
}
