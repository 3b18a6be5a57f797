/** The changes beside other work as a table for people. */
import type { Beside, Fairness } from './fairness.ts'

const NAMES: Readonly<Record<Beside, string>> = {
  nothing: 'nothing',
  burst: 'a burst of 10 %',
  drains: 'drains of a burst',
  namespace: 'removal of a namespace',
  audit: 'an audit',
}

const ms = (value: number | null, digits = 1): string => (value === null ? '-' : value.toFixed(digits))

/** Lines of at most 110 columns, two of them headings; none for no changes. The times are in milliseconds. */
export function formatFairness(all: readonly Fairness[]): string[] {
  if (all.length === 0) return []
  const rows = [
    ['', '', 'arrival', 'to', 'kernel', 'write', 'to', 'kernel', 'event', 'loop', 'the work'],
    ['  beside', 'changes', 'p50', 'p99', 'max', 'p50', 'p99', 'max', 'held', 'by itself', 'took'],
    ...all.map((one) => [
      `  ${NAMES[one.beside]}`,
      String(one.changes),
      ms(one.arrivalP50Ms, 2),
      ms(one.arrivalP99Ms),
      ms(one.arrivalMaxMs),
      ms(one.writeP50Ms, 2),
      ms(one.writeP99Ms),
      ms(one.writeMaxMs),
      ms(one.eventLoopMaxMs),
      ms(one.eventLoopOwnMaxMs),
      ms(one.workMs, 0),
    ]),
  ]
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? []
  return rows.map((row) =>
    row
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join('  '),
  )
}
