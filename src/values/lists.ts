/** Comparing lists and texts, and making lists that are kept. */

/** For `sort`: by the codes of the characters, whatever the language. */
export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

/** Whether two lists have the same items in the same order. Items are compared by `===`. */
export function sameList<T>(a: readonly T[], b: readonly T[]): boolean {
  return a === b || (a.length === b.length && a.every((item, index) => item === b[index]))
}

/**
 * The values that are there, in their order. For lists that are kept by the thousand: V8 leaves
 * room for up to 16 more items, 8 bytes each, in an array that `push` or `filter` has made.
 */
export function present<T>(values: readonly (T | undefined)[]): readonly T[] {
  const isPresent = (value: T | undefined): value is T => value !== undefined
  return values.every(isPresent) ? values : values.filter(isPresent).slice()
}

/** The first of these names: `a, b and 2 more`. @param all how many there are, when some are not in the list */
export function firstNames(names: readonly string[], most: number, all = names.length, between = ', '): string {
  const shown = names.slice(0, most)
  return `${shown.join(between)}${all > shown.length ? ` and ${all - shown.length} more` : ''}`
}
