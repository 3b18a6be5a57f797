/**
 * How long each test file took when it last ran: the longest start first, so that none of them runs
 * alone at the end.
 */
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { FileResult } from './result.ts'

/** Milliseconds by file. */
export type Durations = Readonly<Record<string, number>>

/** Empty when there is no readable record. */
export function readDurations(path: string): Durations {
  try {
    const record: unknown = JSON.parse(readFileSync(path, 'utf8'))
    if (record === null || typeof record !== 'object') return {}
    return Object.fromEntries(Object.entries(record).filter(([, value]) => typeof value === 'number'))
  } catch {
    return {}
  }
}

/** Adds to the record; files that did not run keep their entry. A record that cannot be written is left as it is. */
export function recordDurations(path: string, results: readonly FileResult[]): void {
  const ran = results.filter(({ durationMs }) => durationMs > 0)
  const entries = ran.map(({ file, durationMs }) => [file, Math.round(durationMs)] as const)
  try {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, JSON.stringify({ ...readDurations(path), ...Object.fromEntries(entries) }, undefined, 1))
  } catch {
    // this user may not write to the project
  }
}

/** The longest first; files without a record precede all others, the largest first. */
export function longestFirst(files: readonly string[], durations: Durations, cwd: string): string[] {
  const durationOf = (file: string): number => durations[file] ?? Number.POSITIVE_INFINITY
  const sizeOf = (file: string): number => statSync(join(cwd, file.replace(/\?.*/, ''))).size
  return files.toSorted((a, b) => {
    const [first, second] = [durationOf(a), durationOf(b)]
    return first === second ? sizeOf(b) - sizeOf(a) : second - first
  })
}

/** For a file without a record. */
const USUAL_MS = 300

/**
 * Divides files, the longest first, into so many batches of about the same time; none is empty. The
 * longest of each batch is its first.
 */
export function batchesOf(
  files: readonly string[],
  durations: Durations,
  count: number,
): readonly (readonly string[])[] {
  const batches = Array.from({ length: Math.min(count, files.length) }, () => ({ files: [] as string[], totalMs: 0 }))
  const durationOf = (file: string): number => durations[file] ?? USUAL_MS
  for (const file of files.toSorted((a, b) => durationOf(b) - durationOf(a))) {
    const least = batches.reduce((best, one) => (one.totalMs < best.totalMs ? one : best))
    least.files.push(file)
    least.totalMs += durationOf(file)
  }
  return batches.map((batch) => batch.files)
}

/** `slowest: test/kernel/ipset.test.ts 58 s, ...` */
export function formatSlowest(results: readonly FileResult[], count: number): string {
  const slowest = results.toSorted((a, b) => b.durationMs - a.durationMs).slice(0, count)
  return `slowest: ${slowest.map(({ file, durationMs }) => `${file} ${(durationMs / 1000).toFixed(0)} s`).join(', ')}`
}
