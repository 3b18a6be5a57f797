/** Sorting in portions: short lists are sorted at once, and then merged two by two. */
import type { Budget, Work } from './budget.ts'

/** So many items are sorted at once, in a part of a millisecond. */
export const PORTION = 1024

/** Merges sorted lists. Of items that compare as equal those of an earlier list come first. */
export function* mergeSorted<T>(sorted: readonly T[][], compare: (a: T, b: T) => number, budget: Budget): Work<T[]> {
  let lists = sorted
  while (lists.length > 1) {
    const merged: T[][] = []
    for (let index = 0; index < lists.length; index += 2) {
      const [one = [], other] = lists.slice(index, index + 2)
      merged.push(other === undefined ? one : yield* mergeTwo(one, other, compare, budget))
    }
    lists = merged
  }
  return lists[0] ?? []
}

function* mergeTwo<T>(
  one: readonly T[],
  other: readonly T[],
  compare: (a: T, b: T) => number,
  budget: Budget,
): Work<T[]> {
  const merged: T[] = []
  let [at, otherAt] = [0, 0]
  while (at < one.length && otherAt < other.length) {
    const [a, b] = [one[at], other[otherAt]] as [T, T] // both indexes are in range
    if (compare(a, b) <= 0) {
      merged.push(a)
      at++
    } else {
      merged.push(b)
      otherAt++
    }
    if (budget.spentBySteps()) yield
  }
  return merged.concat(one.slice(at), other.slice(otherAt))
}

/** Sorts in portions: for long lists only. */
export function* sortInPortions<T>(
  items: readonly T[],
  compare: (a: T, b: T) => number,
  budget: Budget,
): Work<readonly T[]> {
  const lists: T[][] = []
  for (let from = 0; from < items.length; from += PORTION) {
    lists.push(items.slice(from, from + PORTION).sort(compare))
    if (budget.spent()) yield
  }
  return yield* mergeSorted(lists, compare, budget)
}
