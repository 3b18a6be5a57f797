/**
 * What passes did: failures, repairs and conflicts as log lines, the last ones, and totals. One
 * pass can fail or repair thousands of keys, so the number of lines is limited.
 */
import { familyOfChains } from '../iptables/diff.ts'
import type { DesiredFrontends } from '../sync/desired-frontends.ts'
import { CONTESTED_REPAIRS } from '../sync/key-history.ts'
import type { Part } from '../sync/part.ts'
import type { PassReport } from '../sync/pass.ts'
import type { Clock } from '../values/clock.ts'
import type { Log } from '../values/log.ts'

export interface PassLogOptions {
  readonly log: Log
  readonly desired: Pick<DesiredFrontends, 'lossCount' | 'takeNewLosses'>
  readonly now: Clock
}

/** The last pass over a part. */
export interface LastPass {
  readonly endedMs: number
  readonly durationMs: number
  /** Operations that it applied, those that failed, and tables that it could not read. */
  readonly applied: number
  readonly failed: number
  readonly unreadable: number
}

/** One pass logs at most this many failures, as many repairs and as many conflicts. */
const LINES = 20

export class PassLog {
  /** The last pass over each part that had one, by its name. */
  readonly last = new Map<string, LastPass>()
  readonly #options: PassLogOptions

  constructor(options: PassLogOptions) {
    this.#options = options
  }

  passed({ name }: Part, report: PassReport, durationMs: number): void {
    const { log, now } = this.#options
    const { failures, unreadable, applied } = report
    const counts = { applied, failed: failures.length, unreadable: unreadable.length }
    this.last.set(name, { endedMs: now(), durationMs, ...counts })
    // What another program keeps changing is reported once, by Rivals.
    const repairs = report.repairs.filter(({ times }) => times < CONTESTED_REPAIRS)
    for (const { error, command, ...failure } of failures.slice(0, LINES)) {
      const ipFamily = familyOfChains(failure.table)
      if (ipFamily !== undefined) {
        log.error('Failed to execute iptables-restore', {
          error: error.message,
          ipFamily,
          item: failure.key,
          rules: command,
        })
        continue
      }
      const fields = { ...failure, command: firstLine(command), error: error.message }
      log.error('An operation failed and will be retried', fields)
    }
    for (const { table, error } of unreadable) log.error('Cannot read a table', { table, error: error.message })
    for (const { commands, ...repair } of repairs.slice(0, LINES))
      log.warn('Repaired a change that another program made', { ...repair, commands: commands.join('; ') })
    if (Math.max(failures.length, repairs.length) > LINES)
      log.warn('Further failures and repairs omitted', { failures: failures.length, repairs: repairs.length })
    if (applied > 0) log.verbose(2, 'Pass done', { operations: applied, milliseconds: Math.round(durationMs) })
    this.#reportLosses()
  }

  /** Logs the claims that lost since the last pass. */
  #reportLosses(): void {
    const { desired, log } = this.#options
    const losses = desired.takeNewLosses()
    for (const { key, winner, loser } of losses.slice(0, LINES))
      log.warn('Two Services claim one address and port', { frontend: key, winner, loser })
    if (losses.length > LINES) log.warn('Further conflicts omitted', { conflicts: desired.lossCount })
  }
}

/** A chain has many commands; the error names the one that failed. */
function firstLine(commands: string): string {
  const [first = '', ...more] = commands.split('\n')
  return more.length === 0 ? first : `${first} and ${more.length} more`
}

/** What all passes did together. */
export class PassTotals {
  readonly #firstPass = Promise.withResolvers<void>()
  /** Operations that were applied to the kernel. */
  operations = 0
  /** Operations that failed, and tables that could not be read. */
  failures = 0

  /** Resolves when everything was tried once. */
  get complete(): Promise<void> {
    return this.#firstPass.promise
  }

  /** @param isComplete nothing is under way that another pass waits for */
  add(report: PassReport, isComplete: boolean): void {
    this.operations += report.applied
    this.failures += report.failures.length + report.unreadable.length
    if (isComplete) this.#firstPass.resolve()
  }
}
