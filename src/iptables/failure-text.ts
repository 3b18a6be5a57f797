/**
 * What iptables-restore says about a failure, of both back ends and several versions: which lines, and why.
 * What could break: only the line numbers are used to decide anything; the reason is for people. A line that is COMMIT
 * (legacy, or a chain that does not exist) says which table failed, not which rule.
 */
export interface RestoreFailure {
  /** Numbers of the lines that failed, from 1, in order; none when the program did not say. */
  readonly lines: readonly number[]
  /** Why, on one line. */
  readonly reason: string
}

const LINE = /\bline:? (\d+)\b/g
/** Advice on usage that follows every error. */
const USAGE = /^Try .*--help/

export function parseFailure(errorText: string): RestoreFailure {
  const said = errorText.split('\n').filter((line) => line.trim() !== '' && !USAGE.test(line))
  const lines = new Set<number>()
  for (const text of said) for (const [, number] of text.matchAll(LINE)) lines.add(Number(number))
  const reason = said
    .map((text) => text.replace(/^[\w-]+(-restore|tables)( v[\d.]+ \([\w_]+\))?: ?/, '').trim())
    .filter((text) => text !== '' && !/^Error occurred at line: \d+$/.test(text))
    .join('; ')
  return { lines: [...lines].sort((a, b) => a - b), reason: reason === '' ? 'no reason given' : reason }
}
