/**
 * Runs a long list of operations as datagrams and lets the event loop run in between. The kernel
 * runs a whole datagram inside `sendto`, so the event loop is blocked as long as its operations
 * take (an address 8 µs with 1,000 on a device, 100 µs with 20,000).
 * @impure
 */
import { asError } from '../values/errors.ts'
import { newBudget } from '../values/event-loop.ts'
import type { Outcome } from './connection.ts'

/** Messages in one datagram: with 20,000 addresses on a device 5 ms of the kernel. */
const MESSAGES = 50

export interface BatchSink<Op> {
  /** Encodes one operation into the current datagram. */
  encode(op: Op): void
  /** Sends the datagram; one outcome for each operation in it. */
  commit(): Promise<readonly Outcome[]>
}

/**
 * Resolves to one outcome for each operation, in order. When the outcome of a datagram is unknown
 * (overrun, timeout), each of its operations gets that error, so that the owner of a mirror reads
 * those keys again. Rejects only when aborted, between two datagrams.
 */
export async function runInBatches<Op>(
  ops: readonly Op[],
  sink: BatchSink<Op>,
  signal: AbortSignal,
): Promise<(Error | undefined)[]> {
  const outcomes: (Error | undefined)[] = []
  const budget = newBudget()
  while (outcomes.length < ops.length) {
    signal.throwIfAborted()
    await runOne(ops, outcomes.length, Math.min(ops.length, outcomes.length + MESSAGES), sink, outcomes)
    if (outcomes.length < ops.length && budget.spent()) await budget.turn()
  }
  return outcomes
}

/**
 * Appends one outcome for each operation. One that cannot be encoded fails alone; the others of its
 * datagram are sent.
 */
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
