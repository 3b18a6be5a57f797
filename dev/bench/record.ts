/** A whole run: its circumstances and its results. */
import { execFileSync } from 'node:child_process'
import type { Calibration } from './calibration.ts'
import type { Disturbance, Machine } from './machine.ts'
import type { BenchResult } from './result.ts'

export interface Run {
  /** ISO 8601, UTC. */
  readonly at: string
  readonly commit: Commit | null
  readonly kernel: {
    readonly kind: 'host' | 'uml' | 'qemu'
    /** `uname -r` */
    readonly release: string | null
  }
  readonly machine: Machine
  /** Load averages over 1, 5 and 15 minutes before the run, and the median share of other work during it. */
  readonly load: Disturbance & { readonly average: readonly number[] }
  /** The median of all boots, as the measurements ran. */
  readonly calibration: Calibration | null
  /** Why the run cannot be compared with another; empty when it can. */
  readonly reasons: readonly string[]
  readonly results: readonly BenchResult[]
}

export interface Commit {
  readonly hash: string
  /** Whether files differ from it. */
  readonly changed: boolean
}

/** The commit of the repository in a folder; null where there is no repository or no git. */
export function commitOf(folder: string): Commit | null {
  const git = (...args: string[]): string =>
    execFileSync('git', args, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  try {
    return { hash: git('rev-parse', 'HEAD'), changed: git('status', '--porcelain') !== '' }
  } catch {
    return null
  }
}
