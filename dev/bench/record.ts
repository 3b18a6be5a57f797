/** A whole run as one object, and the file in which runs are stored, one line each. */
import { execFileSync } from 'node:child_process'
import { appendFileSync, readFileSync } from 'node:fs'
import type { Calibration } from './calibration.ts'
import type { Disturbance, Machine } from './machine.ts'
import type { BenchOptions } from './options.ts'
import { type BenchResult, type Field, plainResult } from './result.ts'

/** A run: its circumstances and its results. */
export interface Run {
  /** ISO 8601, UTC. */
  readonly at: string
  readonly commit: Commit | null
  readonly kernel: {
    /** `native`: this machine's own, in namespaces. */
    readonly kind: 'host' | 'uml' | 'qemu' | 'native'
    /** `uname -r` */
    readonly release: string | null
  }
  readonly machine: Machine
  /** Load averages over 1, 5 and 15 minutes before the run, and the median share of other work during it. */
  readonly load: Disturbance & { readonly average: readonly number[] }
  /** The median of all boots, as the measurements ran. */
  readonly calibration: Calibration | null
  readonly trusted: boolean
  readonly reasons: readonly string[]
  readonly options: BenchOptions
  readonly results: readonly BenchResult[]
}

export interface Commit {
  readonly hash: string
  /** Whether files differ from it. */
  readonly changed: boolean
}

/** A run as a file stores it: only compared fields have a type. */
export interface RecordedRun {
  readonly at: string
  readonly commit: Commit | null
  readonly kernel: { readonly kind: string; readonly release: string | null }
  readonly trusted: boolean
  readonly results: readonly RecordedResult[]
}

export type RecordedResult = Readonly<Partial<Record<Field, number | null>>> & {
  readonly program: string
  readonly mode: string
  readonly kubeProxyRatio: Readonly<Partial<Record<Field, number>>> | null
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

/** One line of JSON, without its end. */
export function formatRun(run: Run): string {
  return JSON.stringify({ ...run, results: run.results.map(plainResult) })
}

export function appendRun(file: string, run: Run): void {
  appendFileSync(file, `${formatRun(run)}\n`)
}

/** The runs of a file, the oldest first. Throws an error with the number of the first invalid line. */
export function readRuns(file: string): RecordedRun[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .flatMap((line, index) => (line === '' ? [] : [parseRun(line, `${file}:${index + 1}`)]))
}

function parseRun(line: string, place: string): RecordedRun {
  let run: unknown
  try {
    run = JSON.parse(line)
  } catch {
    throw new Error(`${place} is not JSON`)
  }
  if (typeof run !== 'object' || run === null || !('results' in run) || !Array.isArray(run.results))
    throw new Error(`${place} is not a run of this bench: it has no results`)
  return run as RecordedRun // what formatRun writes
}
