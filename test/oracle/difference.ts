/**
 * The difference of two texts as hunks that name their line, exact enough to make the second text of the first. Pure.
 * What could break: deviations.yaml holds these texts, so another way of writing them makes every deviation fail.
 */

/**
 * '' when equal. Each hunk starts with `@ N`, the line of the first text (from 1) before which it happens, then `-` lines
 * that are gone and `+` lines that have come.
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
