/**
 * What a replayed recording differs in, and which of these differences are deliberate: the
 * `deviations.yaml` of the oracle and of the surfaces. A listed deviation that no longer shows is a
 * failure too, so that the lists stay true. Pure.
 */
import { parse } from 'yaml'

export interface Deviation {
  /** The name of the case, as its suite prints it. */
  readonly case: string
  /** The whole difference from the recording, as its suite prints it. */
  readonly instead: string
}

/**
 * The entries of a `deviations.yaml`. `isDeviation` checks the members that an entry of this suite
 * has; throws with `form` when an entry does not have them.
 */
export function parseDeviations<D extends Deviation>(
  text: string,
  isDeviation: (entry: Readonly<Record<string, unknown>>) => boolean,
  form: string,
): D[] {
  const list: unknown = parse(text) ?? []
  if (!Array.isArray(list)) throw new Error('deviations.yaml is not a list')
  return list.map((entry: unknown, index) => {
    if (typeof entry !== 'object' || entry === null || !isDeviation({ ...entry }))
      throw new Error(`deviations.yaml, entry ${index + 1}: not of the form ${form}`)
    return entry as D // as isDeviation says
  })
}

export type Verdict<D extends Deviation = Deviation> =
  | { readonly kind: 'equal' }
  | { readonly kind: 'deviates'; readonly deviation: D }
  /** `text` is what to print. */
  | { readonly kind: 'differs'; readonly text: string }

/** Whether a difference ('' for none) is the listed one. */
export function judge<D extends Deviation>(difference: string, deviation: D | undefined): Verdict<D> {
  if (deviation === undefined) return difference === '' ? { kind: 'equal' } : { kind: 'differs', text: difference }
  const { instead } = deviation
  if (difference === instead) return { kind: 'deviates', deviation }
  return {
    kind: 'differs',
    text: `expected the listed deviation\n${instead}but found\n${difference || 'no difference\n'}`,
  }
}

/**
 * '' when equal. Each hunk starts with `@ N`, the line of the first text (from 1) before which the
 * change is, then `-` lines that are removed and `+` lines that are added.
 */
export function differenceOf(before: string, after: string): string {
  const [a, b] = [linesOf(before), linesOf(after)]
  const lengths = commonLengths(a, b)
  const width = b.length + 1
  const out: string[] = []
  let [i, j, open] = [0, 0, false]
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      ;[i, j, open] = [i + 1, j + 1, false]
      continue
    }
    if (!open) out.push(`@ ${i + 1}`)
    open = true
    const dropping =
      j >= b.length || (i < a.length && at(lengths, (i + 1) * width + j) >= at(lengths, i * width + j + 1))
    if (dropping) out.push(`-${a[i++]}`)
    else out.push(`+${b[j++]}`)
  }
  return out.map((line) => `${line}\n`).join('')
}

/** Length of the longest common subsequence of what follows, for every pair of places. */
function commonLengths(a: readonly string[], b: readonly string[]): Uint32Array {
  const width = b.length + 1
  const lengths = new Uint32Array((a.length + 1) * width)
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      lengths[i * width + j] =
        a[i] === b[j]
          ? at(lengths, (i + 1) * width + j + 1) + 1
          : Math.max(at(lengths, (i + 1) * width + j), at(lengths, i * width + j + 1))
  return lengths
}

const at = (numbers: Uint32Array, index: number): number => numbers[index] ?? 0

function linesOf(text: string): string[] {
  const lines = text.split('\n')
  if (lines.at(-1) === '') lines.pop()
  return lines
}

const MAX_LINES = 60

/** A text under the line of its case, shortened when it is long. */
export function indented(text: string): string[] {
  const lines = text.trimEnd().split('\n')
  const more = lines.length > MAX_LINES ? [`    and ${lines.length - MAX_LINES} more lines`] : []
  return [...lines.slice(0, MAX_LINES).map((line) => `    ${line}`), ...more]
}
