/**
 * Reads JSON of unknown origin into typed values: a shape is a function that returns the value, or
 * throws where and why it cannot be one. The type of the value is that of its shape.
 */
import { CodedError } from './errors.ts'
import { printable, quote } from './quote.ts'

/** Returns the value, or throws ShapeError. */
export type Shape<T> = (value: unknown, path: string) => T

/** The type that a shape reads. */
export type Read<S> = S extends Shape<infer T> ? T : never

export class ShapeError extends CodedError {
  /** `services[0].name`; '' for the whole value. */
  readonly path: string
  /** `is not a text` */
  readonly reason: string

  /** @param code where a caller has one of its own for all refusals */
  constructor(path: string, reason: string, code = 'shape-wrong') {
    super(code, `${path === '' ? 'the value' : path.slice(1)} ${reason}`)
    this.path = path.slice(1)
    this.reason = reason
  }
}

function refuse(path: string, reason: string): never {
  throw new ShapeError(path, reason)
}

/** An object with members. */
export function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A text as it is, however long. */
export const string: Shape<string> = (value, path) =>
  typeof value === 'string' ? value : refuse(path, 'is not a text')

/**
 * A text, cut to `max` UTF-16 units, with control characters escaped: it may be in a line for a
 * terminal or in a command.
 */
export function text(max = 200): Shape<string> {
  return (value, path) => printable(string(value, path).slice(0, max)).slice(0, max)
}

export const flag: Shape<boolean> = (value, path) =>
  typeof value === 'boolean' ? value : refuse(path, 'is neither true nor false')

/** Written only where it is so. */
export const yes: Shape<true> = (value, path) => (value === true ? value : refuse(path, 'is not true'))

export const number: Shape<number> = (value, path) =>
  typeof value === 'number' && Number.isFinite(value) ? value : refuse(path, 'is not a number')

export function oneOf<const Word extends string>(...words: readonly Word[]): Shape<Word> {
  return (value, path) => words.find((word) => word === value) ?? refuse(path, `is none of ${words.join(', ')}`)
}

export function nullable<T>(shape: Shape<T>): Shape<T | null> {
  return (value, path) => (value === null ? null : shape(value, path))
}

/** A member that may be absent. */
export function optional<T>(shape: Shape<T>): Shape<T | undefined> {
  return (value, path) => (value === undefined ? undefined : shape(value, path))
}

export function list<T>(item: Shape<T>, max = Number.POSITIVE_INFINITY): Shape<readonly T[]> {
  return (value, path) => {
    if (!Array.isArray(value)) refuse(path, 'is not a list')
    if (value.length > max) refuse(path, `has more than ${max} items`)
    return value.map((one: unknown, index) => item(one, `${path}[${index}]`))
  }
}

export function pair<A, B>(first: Shape<A>, second: Shape<B>): Shape<readonly [A, B]> {
  return (value, path) =>
    Array.isArray(value) && value.length === 2
      ? [first(value[0], `${path}[0]`), second(value[1], `${path}[1]`)]
      : refuse(path, 'is not a pair')
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
type MayBeAbsent<M extends Members> = { [Name in keyof M]: undefined extends Read<M[Name]> ? Name : never }[keyof M]
type ReadMembers<M extends Members> = {
  readonly [Name in Exclude<keyof M, MayBeAbsent<M>>]: Read<M[Name]>
} & { readonly [Name in MayBeAbsent<M>]?: Exclude<Read<M[Name]>, undefined> }

/** An object with exactly these members; others are ignored, so that what a newer program wrote can be read. */
export function object<const M extends Members>(members: M): Shape<ReadMembers<M>> {
  return (value, path) => {
    if (!isPlainObject(value)) refuse(path, 'is not an object')
    const read = Object.entries(members).flatMap(([name, shape]) => {
      const member = shape(Object.hasOwn(value, name) ? value[name] : undefined, `${path}.${name}`)
      return member === undefined ? [] : [[name, member] as const]
    })
    return Object.fromEntries(read) as ReadMembers<M> // one member for each shape
  }
}

/** One of several objects, by a member that names the kind. */
export function byKind<T>(name: string, shapes: Readonly<Record<string, Shape<T>>>): Shape<T> {
  return (value, path) => {
    const kind = isPlainObject(value) ? value[name] : undefined
    const shape = typeof kind === 'string' && Object.hasOwn(shapes, kind) ? shapes[kind] : undefined
    return shape === undefined ? refuse(`${path}.${name}`, 'is not known') : shape(value, path)
  }
}
