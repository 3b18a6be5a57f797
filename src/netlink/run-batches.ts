/**
 * Runs a long list of operations as datagrams of a suitable length and lets the event loop run in between. The kernel runs a whole
 * datagram inside `sendto`, so its length decides how long the event loop is blocked (an address costs 8 µs with 1,000 on a device,
 * 100 µs with 20,000).
 * @impure
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { asError } from '../values/errors.ts'
import { MAX_BATCH_MESSAGES } from './batch.ts'
import type { Outcome } from './connection.ts'

const TARGET_MS = 4
/** A machine that is busy with other work must not make batches tiny. */
const SMALLEST = 10

/** The number of messages in one datagram: as many as the kernel runs in about 4 ms, judged by the last datagram. */
export class BatchPace {
  #size = MAX_BATCH_MESSAGES

  /** Messages for the next datagram, 10 to 200. */
  get size(): number {
    return this.#size
  }

  /** Adapts the size to the duration of the last datagram. */
  observe(messages: number, elapsedMs: number): void {
    const fitting = elapsedMs <= 0 ? MAX_BATCH_MESSAGES : Math.floor((messages * TARGET_MS) / elapsedMs)
    this.#size = Math.max(SMALLEST, Math.min(MAX_BATCH_MESSAGES, fitting, this.#size * 2))
  }
}

export interface BatchSink<Op> {
  /** Encodes one operation into the current datagram. */
  encode(op: Op): void
  /** Sends the datagram; one outcome for each operation in it. */
  commit(): Promise<readonly Outcome[]>
}

/**
 * Resolves to one outcome for each operation, in order. When the outcome of a datagram is unknown (overrun, timeout), each of
 * its operations gets that error, so that the owner of a mirror reads those keys again. Rejects only when aborted, between two
 * datagrams.
 */
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
    const to = Math.min(ops.length, from + pace.size)
    // A few messages say nothing about the speed, and some kernels make a system call of each look at the clock.
    const startedMs = to - from < SMALLEST ? undefined : performance.now()
    await runOne(ops, from, to, sink, outcomes)
    if (startedMs !== undefined) pace.observe(to - from, performance.now() - startedMs)
    if (outcomes.length < ops.length) await nextTurn()
  }
  return outcomes
}

/** Appends one outcome for each operation. One that cannot be encoded fails alone; the others of its datagram are sent. */
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
