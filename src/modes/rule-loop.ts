/**
 * The loop over the chains of one family. It runs beside the passes, because a process may take its time or hang: nothing
 * else waits for it but the virtual servers that need a rule which is not there yet.
 * What could break: a restore that failed tells little about what is in the kernel, so everything is read again after it.
 */
import { MissingMatchError } from '../iptables/errors.ts'
import type { IptablesTable } from '../iptables/table.ts'
import type { IptablesItem, IptablesOperation } from '../iptables/types.ts'
import { Pacer } from '../sync/pacer.ts'
import { type PassReport, Reconciler, reconciled } from '../sync/reconciler.ts'
import { TableSync } from '../sync/table-sync.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { Clock } from '../values/clock.ts'

export interface RuleLoopOptions {
  readonly table: IptablesTable
  readonly now: Clock
  /** Hears of each pass; missing matches do not count as failures. `isFull`: it read all rules first. */
  readonly onPass: (report: PassReport, durationMs: number, family: IpFamily, isFull: boolean) => void
  /** The kernel turned out to lack a match; the chain was written without its rules. */
  readonly onMissing: (error: MissingMatchError) => void
  /** Something that must not happen happened; the loop goes on. */
  readonly onError: (error: unknown) => void
}

/** After a failure nobody foresaw. */
const UNEXPECTED_RETRY_MS = 1000

export class RuleLoop {
  readonly family: IpFamily
  readonly sync: TableSync<IptablesItem, IptablesOperation>
  readonly #options: RuleLoopOptions
  readonly #reconciler: Reconciler
  readonly #pacer: Pacer
  #mayRemove = false
  #clean = false
  #asked = 0
  #done = 0

  constructor(options: RuleLoopOptions) {
    this.#options = options
    this.family = options.table.family
    this.sync = new TableSync(options.table)
    // One process for all that comes and goes: with iptables mode that may be thousands of chains.
    this.#reconciler = new Reconciler([reconciled(this.sync, { atOnce: true })])
    this.#pacer = new Pacer({ minPeriodMs: () => 0, now: options.now, run: (signal) => this.#run(signal) })
  }

  /** Asks for a pass as soon as may be. */
  request(): void {
    this.#asked++
    this.#pacer.request()
  }

  /** From now on chains and jumps that nothing wants may go: Services' own, and what the other mode left. */
  allowRemovals(): void {
    if (this.#mayRemove) return
    this.#mayRemove = true
    this.request()
  }

  /** Whether a pass that was asked for is not over yet. */
  get isPending(): boolean {
    return this.#done < this.#asked
  }

  /** Whether the last pass was allowed to remove, and nothing failed in it. */
  get isClean(): boolean {
    return this.#clean
  }

  /** Stops; a process that is on is ended. */
  close(): Promise<void> {
    return this.#pacer.close()
  }

  async #run(signal: AbortSignal): Promise<number | undefined> {
    const { now, onPass, onMissing, onError } = this.#options
    const asked = this.#asked
    const startedMs = now()
    const mayRemove = this.#mayRemove
    const isFull = !this.sync.isKnown
    try {
      const report = await this.#reconciler.pass({ signal, now, mayRemove })
      const failures = report.failures.filter(({ error }) => {
        if (error instanceof MissingMatchError) onMissing(error)
        return !(error instanceof MissingMatchError)
      })
      if (failures.length > 0) this.sync.forget()
      this.#clean = mayRemove && this.#reconciler.nextDueMs() === undefined
      this.#done = asked
      const { applied, repairs, unreadable } = report
      onPass({ applied, repairs, unreadable, failures }, now() - startedMs, this.family, isFull)
      return this.#reconciler.nextDueMs()
    } catch (error) {
      if (signal.aborted) return undefined
      this.#done = asked
      onError(error)
      return now() + UNEXPECTED_RETRY_MS
    }
  }
}
