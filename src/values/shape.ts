/**
 * Shapes of JSON values: a shape returns the path of the first member that is not as its type says, or undefined. The type of an
 * answer is that of its shape.
 */

export interface Shape<T> {
  (value: unknown, path: string): string | undefined
  /** Never there: it lets TypeScript compare a shape with its type. */
  readonly of?: T
}

/** The type of which a shape is. */
export type Of<S extends Shape<unknown>> = S extends Shape<infer T> ? T : never

const when =
  <T>(isSo: (value: unknown) => boolean): Shape<T> =>
  (value, path) =>
    isSo(value) ? undefined : path

export const text: Shape<string> = when((value) => typeof value === 'string')
/** Written only where it is so. */
export const yes: Shape<true> = when((value) => value === true)
export const flag: Shape<boolean> = when((value) => typeof value === 'boolean')
export const number: Shape<number> = when((value) => typeof value === 'number' && Number.isFinite(value))

/** One of these words; every word of the type must be named. */
export function word<T extends string>(words: Readonly<Record<T, true>>): Shape<T> {
  return when((value) => typeof value === 'string' && Object.hasOwn(words, value))
}

export function nullable<T>(shape: Shape<T>): Shape<T | null> {
  return (value, path) => (value === null ? undefined : shape(value, path))
}

export function optional<T>(shape: Shape<T>): Shape<T | undefined> {
  return (value, path) => (value === undefined ? undefined : shape(value, path))
}

export function list<T>(item: Shape<T>): Shape<readonly T[]> {
  return (value, path) => {
    if (!Array.isArray(value)) return path
    for (const [index, one] of value.entries()) {
      const wrong = item(one, `${path}[${index}]`)
      if (wrong !== undefined) return wrong
    }
    return undefined
  }
}

export function pair<A, B>(first: Shape<A>, second: Shape<B>): Shape<readonly [A, B]> {
  return (value, path) =>
    Array.isArray(value) && value.length === 2
      ? (first(value[0], `${path}[0]`) ?? second(value[1], `${path}[1]`))
      : path
}

/** An object with these members, and maybe with others. */
export function object<T extends object>(
  members: { readonly [Name in keyof T]-?: Shape<T[Name]> },
): Shape<Readonly<T>> {
  const shapes = Object.entries<Shape<unknown>>(members)
  return (value, path) => {
    if (!isObject(value)) return path
    for (const [name, shape] of shapes) {
      const wrong = shape(Object.hasOwn(value, name) ? value[name] : undefined, path === '' ? name : `${path}.${name}`)
      if (wrong !== undefined) return wrong
    }
    return undefined
  }
}

/** One of several objects, by a member that names the kind. */
export function oneOf<T extends object>(name: string, byKind: Readonly<Record<string, Shape<T>>>): Shape<T> {
  return (value, path) => {
    const kind = isObject(value) ? value[name] : undefined
    const shape = typeof kind === 'string' && Object.hasOwn(byKind, kind) ? byKind[kind] : undefined
    return shape === undefined ? `${path}.${name}` : shape(value, path)
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
