/**
 * Facts that may not have been read: as a value of a bundle, which anybody may have made, and as a
 * value of this program.
 */
import { isPlainObject, type Shape, ShapeError, text } from '../values/shape.ts'

/** A fact, or the reason why it was not read. */
export type Seen<T> = { readonly value: T } | { readonly unseen: string }

/** Longest reason of an absent fact. */
const MAX_REASON = 500

/** The reason of a fact that bundles of older programs do not have. */
export const OLDER_BUNDLE = { unseen: 'the program that made the bundle did not look' }

/** A member that bundles of older programs do not have. */
export function since<T>(shape: Shape<T>, before: T): Shape<T> {
  return (value, path) => (value === undefined ? before : shape(value, path))
}

/** `{ value }`, or `{ unseen }` with the reason. */
export function seen<T>(shape: Shape<T>): Shape<Seen<T>> {
  const reason = text(MAX_REASON)
  return (value, path) => {
    if (!isPlainObject(value)) throw new ShapeError(path, 'is not an object')
    if (Object.hasOwn(value, 'unseen')) return { unseen: reason(value['unseen'], `${path}.unseen`) }
    return { value: shape(value['value'], `${path}.value`) }
  }
}

/** An absent fact. */
export function unseen(reason: string): { readonly unseen: string } {
  return { unseen: reason }
}
