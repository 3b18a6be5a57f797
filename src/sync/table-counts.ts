/**
 * What became of a table since the start, as numbers that only grow: whoever wants to know reads them.
 * What could break: the reconciler alone counts here, at every operation; nothing may be made for it.
 */

export interface TableCounts {
  /** Operations that brought or changed something, and those that took something away. */
  added: number
  removed: number
  addFailed: number
  removeFailed: number
  /** Keys that somebody else had changed. */
  repaired: number
  /** Times that the table could not be read. */
  unreadable: number
}

export function noCounts(): TableCounts {
  return { added: 0, removed: 0, addFailed: 0, removeFailed: 0, repaired: 0, unreadable: 0 }
}
