/** Audits that begin again with other settings: the ones before are stopped, and those that are not over yet are waited for. */

/** Runs audits until the signal is aborted; resolves then and never rejects. */
export type RunAudits = (signal: AbortSignal) => Promise<void>

export class AuditRounds {
  readonly #run: RunAudits
  readonly #signal: AbortSignal
  readonly #unfinished = new Set<Promise<void>>()
  #current = new AbortController()

  /** `signal` ends them for good. */
  constructor(run: RunAudits, signal: AbortSignal) {
    this.#run = run
    this.#signal = signal
  }

  /** Begins, or begins again with the settings of now. */
  start(): void {
    this.#current.abort()
    this.#current = new AbortController()
    const round: Promise<void> = this.#run(AbortSignal.any([this.#signal, this.#current.signal])).finally(() =>
      this.#unfinished.delete(round),
    )
    this.#unfinished.add(round)
  }

  /** Rounds that have not ended: one while audits run, more only while stopped ones come to their end. */
  get unfinished(): number {
    return this.#unfinished.size
  }

  /** Resolves when no audit is under way. */
  async close(): Promise<void> {
    this.#current.abort()
    await Promise.all(this.#unfinished)
  }
}
