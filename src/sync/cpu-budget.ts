/**
 * Keeps background work below a share of one core by sleeping after it.
 * What could break: work is counted as wall time between two looks at the clock, so `pay` it right after a stretch
 * that did not wait for anything.
 */

/** Debts below this are carried over: a sleep for each few microseconds would cost more than the work. */
const SMALLEST_SLEEP_MS = 50

export class CpuBudget {
  readonly #share: number
  readonly #sleep: (ms: number, signal: AbortSignal) => Promise<void>
  #debtMs = 0

  /** `share`: 0.003 means 0.3 % of one core. */
  constructor(share: number, sleep: (ms: number, signal: AbortSignal) => Promise<void>) {
    this.#share = share
    this.#sleep = sleep
  }

  /** Sleeps until `workMs` of work fit into the share. Rejects when aborted. */
  async pay(workMs: number, signal: AbortSignal): Promise<void> {
    this.#debtMs += workMs / this.#share
    if (this.#debtMs < SMALLEST_SLEEP_MS) return
    const sleepMs = this.#debtMs
    this.#debtMs = 0
    await this.#sleep(sleepMs, signal)
  }
}
