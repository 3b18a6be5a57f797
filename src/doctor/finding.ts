/** A check and its findings as values: what is wrong, what it breaks, and exactly how to repair it. */
import type { Seen } from './seen.ts'
import type { NodeFacts } from './facts.ts'

/**
 * `error`: Services do not work correctly, or will not after a start. `warning`: they may not.
 * `note`: worth knowing.
 */
export type FindingSeverity = 'error' | 'warning' | 'note'

export interface Finding {
  readonly severity: FindingSeverity
  /** What is there, in one sentence. Text of the node is quoted. */
  readonly what: string
  /** What it breaks or changes. */
  readonly effect: string
  /** Commands, or lines of a file under a comment that names the file; none where nothing has to be done. */
  readonly remedy: readonly string[]
}

/** What a check found; `unseen` says which fact it lacked, and why. */
export interface CheckResult {
  readonly findings: readonly Finding[]
  readonly unseen?: string
}

export const GROUPS = {
  daemon: 'The daemon',
  proxies: 'Other proxies',
  kernel: 'Kernel and programs',
  settings: 'Settings of the kernel',
  network: 'Network plug-ins and daemons',
  rules: 'Rules and connections',
  start: 'Configuration and next start',
} as const
export type Group = keyof typeof GROUPS

export interface Check {
  /** Stable, and the anchor of its section in docs/doctor.md. */
  readonly id: string
  readonly group: Group
  /** What is right when the check finds nothing. */
  readonly good: string
  readonly check: (facts: NodeFacts) => CheckResult
}

/** Nothing is wrong. */
export const FINE: CheckResult = { findings: [] }

export function found(...findings: readonly Finding[]): CheckResult {
  return { findings }
}

/** Checks a fact, or reports why it is absent. */
export function when<T>(fact: Seen<T>, check: (value: T) => CheckResult): CheckResult {
  return 'unseen' in fact ? { findings: [], unseen: fact.unseen } : check(fact.value)
}

/** A result that depends on which programs run: that none was found counts only where every process is visible. */
export function amongProcesses({ hiddenProcesses }: NodeFacts, result: CheckResult): CheckResult {
  return hiddenProcesses === null || result.findings.length > 0 ? result : { ...result, unseen: hiddenProcesses }
}

/** The value of a fact; `fallback` when it is absent. */
export function valueOr<T>(fact: Seen<T>, fallback: T): T {
  return 'unseen' in fact ? fallback : fact.value
}
