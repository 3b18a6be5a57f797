/**
 * Reads JSON of unknown origin into typed values with bounds: a shape is a function that returns the value or throws where and why it
 * cannot be one. A bundle may be made by anybody, so nothing of it is used before it has passed.
 */
import { CodedError } from '../values/errors.ts'
import { printable, quote } from '../values/quote.ts'

/** Returns the value, or throws CodedError `bundle-invalid` that names the path. */
export type Shape<T> = (value: unknown, path: string) => T

/** The type that a shape reads. */
export type Read<S> = S extends Shape<infer T> ? T : never

/** A fact, or the reason why it was not read. */
export type Seen<T> = { readonly value: T } | { readonly unseen: string }

/** Longest reason of an absent fact. */
const MAX_REASON = 500

function refuse(path: string, what: string): never {
  throw new CodedError('bundle-invalid', `${path === '' ? 'the bundle' : path.slice(1)} ${what}`)
}

/** An object with members. */
export function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A text, cut to `max` UTF-16 units, with control characters escaped: it may be in a line for a terminal or in a command. */
export function text(max = 200): Shape<string> {
  return (value, path) =>
    typeof value === 'string' ? printable(value.slice(0, max)).slice(0, max) : refuse(path, 'is not a text')
}

export const flag: Shape<boolean> = (value, path) =>
  typeof value === 'boolean' ? value : refuse(path, 'is neither true nor false')

export const number: Shape<number> = (value, path) =>
  typeof value === 'number' && Number.isFinite(value) ? value : refuse(path, 'is not a number')

export function oneOf<const Word extends string>(...words: readonly Word[]): Shape<Word> {
  return (value, path) => words.find((word) => word === value) ?? refuse(path, `is none of ${words.join(', ')}`)
}

export function nullable<T>(shape: Shape<T>): Shape<T | null> {
  return (value, path) => (value === null ? null : shape(value, path))
}

/** The reason of a fact that bundles of older programs do not have. */
export const OLDER_BUNDLE = { unseen: 'the program that made the bundle did not look' }

/** A member that bundles of older programs do not have. */
export function since<T>(shape: Shape<T>, before: T): Shape<T> {
  return (value, path) => (value === undefined ? before : shape(value, path))
}

export function list<T>(item: Shape<T>, max: number): Shape<readonly T[]> {
  return (value, path) => {
    if (!Array.isArray(value)) refuse(path, 'is not a list')
    if (value.length > max) refuse(path, `has more than ${max} items`)
    return value.map((one: unknown, index) => item(one, `${path}[${index}]`))
  }
}

/** An object with any names, at most `max` of them. */
export function record<T>(item: Shape<T>, max: number): Shape<Readonly<Record<string, T>>> {
  return (value, path) => {
    if (!isPlainObject(value)) refuse(path, 'is not an object')
    const entries = Object.entries(value)
    if (entries.length > max) refuse(path, `has more than ${max} members`)
    return Object.fromEntries(
      entries.map(([name, one]) => {
        if (name.length > 200) refuse(path, 'has a name longer than 200 characters')
        return [name, item(one, `${path}.${printableName(name)}`)]
      }),
    )
  }
}

const printableName = (name: string): string => (/^[\w/.-]+$/.test(name) ? name : quote(name))

type Members = Readonly<Record<string, Shape<unknown>>>

/** An object with exactly these members; others are ignored, so that a newer program's bundle can be read. */
export function object<const M extends Members>(members: M): Shape<{ readonly [Name in keyof M]: Read<M[Name]> }> {
  return (value, path) => {
    if (!isPlainObject(value)) refuse(path, 'is not an object')
    const read = Object.entries(members).map(([name, shape]) => [
      name,
      shape(Object.hasOwn(value, name) ? value[name] : undefined, `${path}.${name}`),
    ])
    return Object.fromEntries(read) as { readonly [Name in keyof M]: Read<M[Name]> } // one member for each shape
  }
}

/** `{ value }`, or `{ unseen }` with the reason. */
export function seen<T>(shape: Shape<T>): Shape<Seen<T>> {
  const reason = text(MAX_REASON)
  return (value, path) => {
    if (!isPlainObject(value)) refuse(path, 'is not an object')
    if (Object.hasOwn(value, 'unseen')) return { unseen: reason(value['unseen'], `${path}.unseen`) }
    return { value: shape(value['value'], `${path}.value`) }
  }
}

/** An absent fact. */
export function unseen(reason: string): { readonly unseen: string } {
  return { unseen: reason }
}
