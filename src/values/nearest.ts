/**
 * The known word nearest to an unknown one, for "did you mean" with flags, commands and
 * configuration fields. It returns nothing when no word is near, because a wrong guess misleads.
 */

/**
 * The candidate with the fewest changed, added, missing or swapped letters, case ignored; undefined
 * when every candidate needs more than a third of the word (at least one, at most three). A prefix
 * of three letters or more also matches if only one candidate has it: `clean` for `cleanup`.
 */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  let best: string | undefined
  let bestDistance = Math.min(3, Math.max(1, Math.floor(word.length / 3))) + 1
  for (const candidate of candidates) {
    // Each letter more or less is a change, and the word may be very long.
    if (Math.abs(candidate.length - word.length) >= bestDistance) continue
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase())
    if (distance < bestDistance && distance < word.length) {
      best = candidate
      bestDistance = distance
    }
  }
  if (best !== undefined || word.length < 3) return best
  const beginning = candidates.filter((candidate) => candidate.toLowerCase().startsWith(word.toLowerCase()))
  return beginning.length === 1 ? beginning[0] : undefined
}

/** Edit distance in which two swapped neighbours count once (optimal string alignment). */
function editDistance(left: string, right: string): number {
  let beforePrevious: number[] = []
  let previous = Array.from({ length: right.length + 1 }, (_, column) => column)
  for (let row = 1; row <= left.length; row++) {
    const current = [row]
    for (let column = 1; column <= right.length; column++) {
      const same = left[row - 1] === right[column - 1]
      let cost = Math.min(
        (previous[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (previous[column - 1] ?? 0) + (same ? 0 : 1),
      )
      if (row > 1 && column > 1 && left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1]) {
        cost = Math.min(cost, (beforePrevious[column - 2] ?? 0) + 1)
      }
      current.push(cost)
    }
    beforePrevious = previous
    previous = current
  }
  return previous[right.length] ?? 0
}
