/**
 * iptables-save and iptables-restore of the chosen back end, one process a call.
 * @impure
 */
import { CodedError } from '../values/errors.ts'
import type { IpFamily } from '../values/protocol.ts'
import { type FamilyPrograms, missingPrograms } from './installed-iptables.ts'
import type { IptablesChoice } from './iptables-choice.ts'
import { type ProgramCall, type ProgramResult, type RunProgram, runProgram } from './programs.ts'

/** Seconds that iptables-restore waits for /run/xtables.lock, which only legacy uses. Less than the deadline. */
const LOCK_WAIT_SECONDS = 5
const DEADLINE_MS = 10_000
const MAX_DEADLINE_MS = 600_000
/** How long after its end a process still counts as ours, because its announcements may still arrive. */
const REMEMBER_MS = 2000

export class HostIptables {
  readonly choice: IptablesChoice
  readonly #run: RunProgram
  /** Doubles when a process was killed at it: the tables of a large cluster take minutes on a slow node. */
  #deadlineMs: number
  /** Process ids of our restores, and the time until which they count; Infinity while they run. */
  readonly #own = new Map<number, number>()
  #starts = 0

  /** @param deadlineMs first limit for one process; iptables mode has large tables and needs more */
  constructor(choice: IptablesChoice, run: RunProgram = runProgram, deadlineMs = DEADLINE_MS) {
    this.choice = choice
    this.#deadlineMs = deadlineMs
    this.#run = run
  }

  /** Processes started so far. */
  get starts(): number {
    return this.#starts
  }

  /** Whether a netlink port id belongs to one of our own restores, whose announcements say nothing new. */
  isOwn(portId: number): boolean {
    const untilMs = this.#own.get(portId)
    return untilMs !== undefined && untilMs > performance.now()
  }

  /**
   * Output of iptables-save. Rejects with CodedError `iptables-missing`, `iptables-save-failed` or
   * one of runProgram.
   */
  async save(family: IpFamily, signal: AbortSignal): Promise<string> {
    return this.#print(family, [], signal)
  }

  /** The same of one table. */
  async saveTable(family: IpFamily, table: string, signal: AbortSignal): Promise<string> {
    return this.#print(family, ['-t', table], signal)
  }

  /** The same with the counters of rules: `[packets:bytes] -A CHAIN RULE`. */
  async saveCounters(family: IpFamily, table: string, signal: AbortSignal): Promise<string> {
    return this.#print(family, ['-c', '-t', table], signal)
  }

  /**
   * What `iptables -S CHAIN` prints for some chains, by one process: iptables-restore takes the
   * same commands. Nothing changes. Rejects as `save` does when one of them cannot be printed.
   */
  async showChains(family: IpFamily, table: string, chains: readonly string[], signal: AbortSignal): Promise<string> {
    const input = [`*${table}`, ...chains.map((chain) => `-S ${chain}`), 'COMMIT', ''].join('\n')
    const program = this.#programs(family).restore
    this.#starts++
    return outputOf(program, await this.#timed({ program, args: this.#restoreArgs, input, signal }))
  }

  async #print(family: IpFamily, args: readonly string[], signal: AbortSignal): Promise<string> {
    const program = this.#programs(family).save
    this.#starts++
    return outputOf(program, await this.#timed({ program, args, signal }))
  }

  /** Runs iptables-restore --noflush; a non-zero exit code is a result. Rejects as `save` does. */
  async restore(
    family: IpFamily,
    input: string,
    signal: AbortSignal,
  ): Promise<{ readonly exitCode: number; readonly errorText: string }> {
    const program = this.#programs(family).restore
    const args = this.#restoreArgs
    this.#starts++
    let started: number | undefined
    const onStart = (processId: number): void => {
      started = processId
      this.#own.set(processId, Number.POSITIVE_INFINITY)
    }
    try {
      return await this.#timed({ program, args, input, signal, onStart })
    } finally {
      const nowMs = performance.now()
      for (const [processId, untilMs] of this.#own) if (untilMs < nowMs) this.#own.delete(processId)
      if (started !== undefined) this.#own.set(started, nowMs + REMEMBER_MS)
    }
  }

  get #restoreArgs(): readonly string[] {
    return ['--noflush', ...(this.choice.waits ? ['-w', String(LOCK_WAIT_SECONDS)] : [])]
  }

  async #timed(call: ProgramCall): Promise<ProgramResult> {
    const deadlineMs = this.#deadlineMs
    try {
      return await this.#run({ ...call, deadlineMs })
    } catch (error) {
      if (error instanceof CodedError && error.code === 'program-timeout')
        this.#deadlineMs = Math.max(this.#deadlineMs, Math.min(2 * deadlineMs, MAX_DEADLINE_MS))
      throw error
    }
  }

  #programs(family: IpFamily): FamilyPrograms {
    const programs = this.choice.programs[family]
    if (programs !== undefined) return programs
    throw new CodedError('iptables-missing', missingPrograms(family, this.choice.mode))
  }
}

function outputOf(program: string, { exitCode, output, errorText }: ProgramResult): string {
  if (exitCode === 0) return output
  throw new CodedError('iptables-save-failed', `${program} ended with ${exitCode}: ${errorText.trim()}`)
}
