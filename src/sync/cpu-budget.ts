/**
 * Keeps background work below a share of one core by sleeping after it.
 * What could break: the share holds over time, not at every moment; what was not used before may be used at once, up to
 * a credit.
 */

export interface CpuBudgetOptions {
  /** 0.003 means 0.3 % of one core. */
  readonly share: number
  /** As much work, in milliseconds, may run ahead of the share. */
  readonly creditMs: number
  /** Milliseconds on a clock that never goes back. */
  readonly now: () => number
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>
}

export class CpuBudget {
  readonly #options: CpuBudgetOptions
  #creditMs: number
  #paidAtMs: number

  constructor(options: CpuBudgetOptions) {
    this.#options = options
    this.#creditMs = options.creditMs
    this.#paidAtMs = options.now()
  }

  /** Sleeps until `workMs` of work (processor time) fit into the share. Rejects when aborted. */
  async pay(workMs: number, signal: AbortSignal): Promise<void> {
    const { share, creditMs, now, sleep } = this.#options
    const nowMs = now()
    this.#creditMs = Math.min(creditMs, this.#creditMs + (nowMs - this.#paidAtMs) * share) - workMs
    this.#paidAtMs = nowMs
    if (this.#creditMs < 0) await sleep(-this.#creditMs / share, signal)
  }
}
