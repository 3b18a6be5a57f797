/** Changes of JSON as values: members removed, doubled, renamed, replaced by values of every type, nested deeply. */
import type { Material } from './byte-changes.ts'
import type { Random } from './random.ts'

type Container = unknown[] | Map<string, unknown>

interface Place {
  readonly holder: Container
  readonly key: string | number
  readonly value: unknown
}

/** Objects as maps, so that `__proto__` is a name like any other. */
function toMaps(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toMaps)
  if (typeof value !== 'object' || value === null) return value
  return new Map(Object.entries(value).map(([name, inner]) => [name, toMaps(inner)]))
}

const raw = Symbol('raw')
/** A text that JSON.stringify would not write, such as a number of 400 digits. */
interface Raw {
  readonly [raw]: string
}
const isRaw = (value: unknown): value is Raw => typeof value === 'object' && value !== null && raw in value

function write(value: unknown): string {
  if (isRaw(value)) return value[raw]
  if (Array.isArray(value)) return `[${value.map(write).join(',')}]`
  if (value instanceof Map)
    return `{${Array.from(value, ([name, inner]) => `${JSON.stringify(name)}:${write(inner)}`).join(',')}}`
  return JSON.stringify(value) ?? 'null'
}

/** Names that mean something to JavaScript. */
export const NAMES: readonly string[] = [
  '__proto__',
  'constructor',
  'prototype',
  'toString',
  'valueOf',
  'hasOwnProperty',
  'toJSON',
  'length',
  'then',
  '',
]

const LONG = 3000

const VALUES: readonly ((random: Random) => unknown)[] = [
  () => null,
  () => true,
  () => false,
  () => [],
  () => new Map(),
  () => '',
  (random) => random.pick([0, -1, 1, 0.5, 65_535, 65_536, 2 ** 31, 2 ** 32, 2 ** 53, -(2 ** 63), 1e21]),
  (random) => ({ [raw]: random.pick(['1e400', '-1e400', '-0', '1'.repeat(400), '1e-400']) }),
  (random) => 'x'.repeat(random.length(LONG)),
  (random) => random.pick(['\0', '\n', '\u2028', '\u202e', '\ud800', '\ufeff', '\u001b[2J', '%s', '\\u0000', 'ﬀ']),
  (random) => random.pick(NAMES),
  (random) => new Map([[random.pick(NAMES), random.pick([null, 1, 'x', true])]]),
  (random) => Array.from({ length: random.length(LONG) }, () => random.pick([null, 0, 'x'])),
]

/** Some place, found by going down at random. */
function placeIn(random: Random, root: Container): Place | undefined {
  let holder = root
  for (;;) {
    const keys = Array.isArray(holder) ? holder.length : holder.size
    if (keys === 0) return undefined
    const at = random.below(keys)
    const key = Array.isArray(holder) ? at : [...holder.keys()][at]
    if (key === undefined) return undefined
    const value: unknown = Array.isArray(holder) ? holder[at] : holder.get(String(key))
    const isContainer = (Array.isArray(value) && value.length > 0) || (value instanceof Map && value.size > 0)
    if (!isContainer || random.isOneIn(4)) return { holder, key, value }
    holder = value as Container // of one of both kinds, as was just seen
  }
}

function put({ holder, key }: Place, value: unknown): void {
  if (Array.isArray(holder)) holder[Number(key)] = value
  else holder.set(String(key), value)
}

function changePlace(random: Random, place: Place, { words, pool }: Material): void {
  const { holder, key, value } = place
  switch (random.below(9)) {
    case 0:
      if (Array.isArray(holder)) holder.splice(Number(key), 1)
      else holder.delete(String(key))
      return
    case 1: {
      if (!Array.isArray(holder)) holder.set(`${String(key)}${random.pick(['', '2', '\0', ' '])}`, value)
      else {
        const count = random.isOneIn(10) ? random.length(2000) : 1
        for (let index = 0; index < count; index++) holder.push(value)
      }
      return
    }
    case 2:
      if (Array.isArray(holder)) return put(place, random.pick(VALUES)(random))
      holder.delete(String(key))
      holder.set(random.isOneIn(2) ? random.pick(NAMES) : textOf(random, words), value)
      return
    case 3: {
      let nested = value
      for (let count = random.isOneIn(6) ? random.length(LONG) : 1; count > 0; count--)
        nested = random.isOneIn(2) ? [nested] : new Map([[String(key), nested]])
      return put(place, nested)
    }
    case 4:
      return put(place, textOf(random, words))
    case 5: {
      const other = parsed(random.pick(pool))
      const taken = other === undefined ? undefined : placeIn(random, other)
      return put(place, taken?.value ?? null)
    }
    case 6:
      if (typeof value !== 'string') return put(place, random.pick(VALUES)(random))
      return put(place, changeText(random, value, words))
    case 7:
      if (typeof value === 'number') return put(place, value + random.pick([-1, 1, 0.5, 65_536, -value, 2 ** 40]))
      return put(place, String(value))
    default:
      return put(place, random.pick(VALUES)(random))
  }
}

function textOf(random: Random, words: readonly Uint8Array[]): string {
  return words.length === 0 ? random.pick(NAMES) : Buffer.from(random.pick(words)).toString()
}

function changeText(random: Random, text: string, words: readonly Uint8Array[]): string {
  const at = random.below(text.length + 1)
  const count = random.below(text.length - at + 1)
  const between = random.isOneIn(2)
    ? ''
    : random.isOneIn(2)
      ? textOf(random, words)
      : random.pick(['/', ':', '.', ',', '0', ' ', '=', '\0'])
  return `${text.slice(0, at)}${between}${text.slice(at + (random.isOneIn(2) ? count : 0))}`
}

function parsed(bytes: Uint8Array): Container | undefined {
  try {
    const value = toMaps(JSON.parse(Buffer.from(bytes).toString()))
    return Array.isArray(value) || value instanceof Map ? (value as Container) : undefined // as was just seen
  } catch {
    return undefined
  }
}

/** One change or a few of the input as JSON; undefined when it is none. */
export function changeJson(random: Random, input: Uint8Array, material: Material): Uint8Array | undefined {
  const root = parsed(input)
  if (root === undefined) return undefined
  for (let count = random.isOneIn(2) ? 1 + random.below(5) : 1; count > 0; count--) {
    const place = placeIn(random, root)
    if (place === undefined) break
    changePlace(random, place, material)
  }
  let text: string
  try {
    text = write(root)
  } catch {
    // It nests more deeply than the stack is long.
    return undefined
  }
  const bytes = new Uint8Array(Buffer.from(text))
  return bytes.length > material.maxBytes ? undefined : bytes
}
