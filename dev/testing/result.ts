/**
 * What one test file amounts to, and the sum over many. A result crosses from the guest to the host
 * as one line of JSON, so it holds plain values only.
 */

export interface Failure {
  /** Names from the outermost suite to the test. */
  readonly name: string
  readonly text: string
}

export interface FileResult {
  readonly file: string
  readonly passed: number
  readonly failures: readonly Failure[]
  /** Skipped by the test itself. */
  readonly skipped: number
  /** The need of each test that did not run because something is missing on this machine. */
  readonly unmet: readonly string[]
  /** What its tests tell about themselves, mostly figures, with the name of each; shown when few files run. */
  readonly told: readonly string[]
  /** What the file printed (its end), shown when it failed. */
  readonly output: string
  readonly durationMs: number
}

/** A file of which at least one test could not run because something is missing. */
export function notRun(file: string, need: string): FileResult {
  return { file, passed: 0, failures: [], skipped: 0, unmet: [need], told: [], output: '', durationMs: 0 }
}

/** A file, or a whole stage, that did not end regularly. */
export function failedRun(file: string, text: string): FileResult {
  return { ...notRun(file, ''), unmet: [], failures: [{ name: '(run)', text }] }
}

export interface Totals {
  readonly passed: number
  readonly failed: number
  /** Unmet needs included. */
  readonly skipped: number
  readonly unmet: ReadonlyMap<string, number>
}

export function totalsOf(results: readonly FileResult[]): Totals {
  const unmet = new Map<string, number>()
  for (const need of results.flatMap((result) => result.unmet)) unmet.set(need, (unmet.get(need) ?? 0) + 1)
  const sum = (count: (result: FileResult) => number): number => results.reduce((total, one) => total + count(one), 0)
  return {
    passed: sum((result) => result.passed),
    failed: sum((result) => result.failures.length),
    skipped: sum((result) => result.skipped + result.unmet.length),
    unmet,
  }
}

const plural = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`

/** The last lines of a run; the very last is `N passed, M failed, K skipped`. */
export function formatTotals({ passed, failed, skipped, unmet }: Totals): string[] {
  const count = [...unmet.values()].reduce((sum, one) => sum + one, 0)
  const needs = [...unmet].sort(([a], [b]) => (a < b ? -1 : 1)).map(([need, times]) => `${need} (${times})`)
  const line = `needs not met: ${plural(count, 'test')}`
  return [count === 0 ? line : `${line}: ${needs.join(', ')}`, `${passed} passed, ${failed} failed, ${skipped} skipped`]
}

/** Lines about the files that a run has left out because the kernel is slow; they precede the last lines. */
export function formatLeftOut(files: readonly string[]): string[] {
  if (files.length === 0) return []
  return [
    `NOT EVERYTHING WAS RUN: this kernel is slow, and ${plural(files.length, 'file')} would have taken too long. To run the rest:`,
    `  npm test -- --kernel-only ${files.join(' ')}`,
  ]
}

/** One line for a file that has run. */
export function formatFile(result: FileResult): string {
  const { file, passed, failures, skipped, unmet, durationMs } = result
  const counts = [
    `${passed} passed`,
    ...(failures.length > 0 ? [`${failures.length} failed`] : []),
    ...(skipped > 0 ? [`${skipped} skipped`] : []),
    ...(unmet.length > 0 ? [`${unmet.length} unmet`] : []),
  ]
  return `${failures.length > 0 ? 'FAIL' : 'ok  '} ${file}  ${counts.join(', ')}  ${(durationMs / 1000).toFixed(1)} s`
}

/** A line for each thing that the tests of a file tell about themselves. */
export const formatTold = ({ told }: FileResult): string[] => told.map((text) => `       ${text}`)

/** The failures of a file in full, with what it printed. */
export function formatFailures({ file, failures, output }: FileResult): string[] {
  const indent = (text: string): string => text.replaceAll(/^(?=.)/gm, '    ')
  return [
    ...failures.flatMap(({ name, text }) => [`  ${file} > ${name}`, indent(text), '']),
    ...(failures.length > 0 && output !== '' ? [`  ${file} printed:`, indent(output), ''] : []),
  ]
}
