/** How far a list is scrolled on a screen, and which key changes that. */
import type { Key } from './keys.ts'

/** Where scrolling ends. */
export interface Extent {
  readonly rows: number
  /** Rows that fit. */
  readonly height: number
}

/** The first row that is shown, of those that can be the first. */
export function firstShown(scroll: number, { rows, height }: Extent): number {
  return Math.max(0, Math.min(scroll, rows - height))
}

/** The first row after a key; undefined: the key does not scroll. */
export function scrolled(scroll: number, key: Key['name'] | undefined, extent: Extent): number | undefined {
  const from = firstShown(scroll, extent)
  const { rows, height } = extent
  const to = { up: from - 1, down: from + 1, 'page-up': from - height, 'page-down': from + height, home: 0, end: rows }
  return key === undefined || !(key in to) ? undefined : firstShown(to[key as keyof typeof to], extent) // checked by `in`
}
