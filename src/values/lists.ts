/** Comparing lists. */

/** Whether two lists have the same items in the same order. Items are compared by `===`. */
export function sameList<T>(a: readonly T[], b: readonly T[]): boolean {
  return a === b || (a.length === b.length && a.every((item, index) => item === b[index]))
}
