/**
 * Runs a long list of operations as datagrams of a bearable length, letting the event loop run in between.
 * What could break: one outcome per operation, in order. When the outcome of a datagram is not known (overrun, timeout)
 * each of its operations gets that error, so that whoever keeps a mirror reads those keys again.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Outcome } from './connection.ts'
import type { BatchPace } from './batch-pace.ts'
import { asError } from '../values/errors.ts'

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
  while (outcomes.length < ops.length) {
    signal.throwIfAborted()
    const from = outcomes.length
    const startedMs = performance.now()
    await runOne(ops, from, Math.min(ops.length, from + pace.size), sink, outcomes)
    pace.observe(outcomes.length - from, performance.now() - startedMs)
    if (outcomes.length < ops.length) await nextTurn()
  }
  return outcomes
}

/** Appends one outcome for each. An operation that cannot be encoded fails by itself; the others of its datagram are sent. */
async function runOne<Op>(
  ops: readonly Op[],
  from: number,
  to: number,
  sink: BatchSink<Op>,
  outcomes: (Error | undefined)[],
): Promise<void> {
  let unsent: Map<number, Error> | undefined
  for (let index = from; index < to; index++) {
    try {
      // The loop runs to `to`, which is at most the length.
      sink.encode(ops[index] as Op)
    } catch (error) {
      unsent ??= new Map()
      unsent.set(index, asError(error))
    }
  }
  let answers: readonly (Error | undefined)[] = []
  let failure: Error | undefined
  try {
    answers = await sink.commit()
  } catch (error) {
    failure = asError(error)
  }
  let answer = 0
  for (let index = from; index < to; index++) outcomes.push(unsent?.get(index) ?? failure ?? answers[answer++])
}
