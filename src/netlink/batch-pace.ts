/**
 * How many messages go into one datagram: as many as the kernel runs in about 4 ms, going by the last datagram.
 * What could break: the kernel runs a whole datagram inside `sendto`, so its length is how long the event loop stands
 * still (an address costs 8 µs at 1,000 on a device, 100 µs at 20,000).
 */
import { MAX_BATCH_MESSAGES } from './batch.ts'

const TARGET_MS = 4
/** A machine that was busy with something else must not make batches tiny. */
const SMALLEST = 10

export class BatchPace {
  #size = MAX_BATCH_MESSAGES

  /** Messages for the next datagram, 10 to 200. */
  get size(): number {
    return this.#size
  }

  /** Takes into account how long the last datagram took. */
  observe(messages: number, elapsedMs: number): void {
    if (messages === 0) return
    const fitting = elapsedMs <= 0 ? MAX_BATCH_MESSAGES : Math.floor((messages * TARGET_MS) / elapsedMs)
    this.#size = Math.max(SMALLEST, Math.min(MAX_BATCH_MESSAGES, fitting, this.#size * 2))
  }
}
