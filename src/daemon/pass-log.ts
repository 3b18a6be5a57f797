/**
 * What passes did, as log lines: failures, repairs, and conflicts.
 * What could break: a pass over everything can fail or repair thousands of keys; the number of lines is bounded.
 */
import type { DesiredFrontends } from '../sync/desired-frontends.ts'
import type { PassReport } from '../sync/reconciler.ts'
import type { Log } from '../values/log.ts'

export interface PassLogOptions {
  readonly log: Log
  readonly desired: Pick<DesiredFrontends, 'lossCount' | 'takeNewLosses'>
}

/** Tables of rules. */
const CHAINS = /^chains-(IPv[46])$/
/** Failures, repairs and conflicts of one pass that get a line each. */
const LINES = 20
/** A key that was repaired this often within a minute has somebody else writing it. */
const SECOND_PROXY = 3

export class PassLog {
  readonly #options: PassLogOptions

  constructor(options: PassLogOptions) {
    this.#options = options
  }

  passed(report: PassReport, durationMs: number): void {
    const { log } = this.#options
    const { failures, repairs, unreadable, applied } = report
    for (const { error, command, ...failure } of failures.slice(0, LINES)) {
      const ipFamily = CHAINS.exec(failure.table)?.[1]
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
      log.error('An operation failed and will be tried again', fields)
    }
    for (const { table, error } of unreadable) log.error('Cannot read a table', { table, error: error.message })
    for (const { commands, ...repair } of repairs.slice(0, LINES)) {
      const again = repair.times >= SECOND_PROXY
      const message = again
        ? 'Repaired again: is there a second proxy on this node?'
        : 'Repaired what was changed from outside'
      log.warn(message, { ...repair, commands: commands.join('; ') })
    }
    if (Math.max(failures.length, repairs.length) > LINES)
      log.warn('More of the same', { failures: failures.length, repairs: repairs.length })
    if (applied > 0) log.verbose(2, 'Pass done', { operations: applied, milliseconds: Math.round(durationMs) })
    this.#reportLosses()
  }

  /** Claims that lost since the last pass. */
  #reportLosses(): void {
    const { desired, log } = this.#options
    const losses = desired.takeNewLosses()
    for (const { key, winner, loser } of losses.slice(0, LINES))
      log.warn('Two Services claim one address and port', { frontend: key, winner, loser })
    if (losses.length > LINES) log.warn('More of the same', { conflicts: desired.lossCount })
  }
}

/** A chain is many commands; the error says which one it is about. */
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
