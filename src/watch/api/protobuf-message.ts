/**
 * What is wanted of protobuf messages, as data: fields by number, name and type.
 * What could break: a field is found by its tag, which is its number and how it is written in one; the same number written
 * otherwise must not pass for an unknown field.
 */
import type { JsonObject } from '../objects/findings.ts'

/**
 * `word` is text that repeats through thousands of objects (protocols, node names): one copy of it is kept. `int` is a number
 * of 32 bits, `long` one of 64. `time` is a metav1 Time to a Date, null for the zero time; like Kubernetes' own decoder it leaves
 * out nanoseconds. `span` is where the value lies.
 */
export type Scalar = 'text' | 'word' | 'int' | 'long' | 'bool' | 'time' | 'span'

/** Bytes of what is read; a class, to be told from every other value. */
export class Span {
  readonly start: number
  readonly end: number

  constructor(start: number, end: number) {
    this.start = start
    this.end = end
  }
}

/** A map of texts of which only these keys, ASCII, are decoded. */
export interface Entries {
  readonly keys: readonly string[]
}

/** Field number, type, and whether it is a list. */
export type FieldSpec =
  | readonly [number: number, type: Scalar | Message | Entries]
  | readonly [number: number, type: 'text' | 'word' | Message, repeated: 'repeated']

/** `wrong` stands at the tags of a field with another wire type than it has. */
export const FIELD_TYPES = [
  'text',
  'word',
  'span',
  'message',
  'entries',
  'time',
  'int',
  'long',
  'bool',
  'wrong',
] as const
export type FieldType = (typeof FIELD_TYPES)[number]

/** A field as a reader needs it. */
export interface Field {
  readonly name: string
  /** Where its value stands among those of the message. */
  readonly slot: number
  readonly type: FieldType
  /** Index of the type in FIELD_TYPES. */
  readonly typeIndex: number
  readonly repeated: boolean
  readonly message: Message
  readonly keys: readonly string[]
}

/** Makes an object of the values of its fields, in the order in which they were given. */
export type MakeObject = (values: readonly unknown[]) => JsonObject

export interface Message {
  /** The fields that are decoded, by field number and wire type in one. */
  readonly fieldByTag: readonly (Field | undefined)[]
  readonly fieldCount: number
  readonly make: MakeObject
}

/** Wire types. */
export const VARINT = 0
export const FIXED64 = 1
export const LENGTH = 2
export const FIXED32 = 5

const NOTHING: Message = { fieldByTag: [], fieldCount: 0, make: () => ({}) }

/**
 * A message of the fields that are wanted of it. `make` says their names a second time: an object that is written out costs a
 * third of one that gets its members by name, one after the other. It throws when the two do not fit together.
 */
export function message(fields: Readonly<Record<string, FieldSpec>>, make: MakeObject): Message {
  const names = Object.keys(fields)
  const made = make(names)
  if (Object.keys(made).length !== names.length || names.some((name) => made[name] !== name))
    throw new TypeError(`a message of ${names.join()} makes an object of ${Object.keys(made).join()}`)
  const fieldByTag: (Field | undefined)[] = []
  const set = (tag: number, field: Field): void => {
    while (fieldByTag.length <= tag) fieldByTag.push(undefined)
    fieldByTag[tag] = field
  }
  for (const [slot, [name, [number, type, repeated]]] of Object.entries(fields).entries()) {
    const field = { name, slot, repeated: repeated === 'repeated', message: NOTHING, keys: [], ...typeOf(type) }
    const wireType = type === 'int' || type === 'long' || type === 'bool' ? VARINT : LENGTH
    for (let other = 0; other < 8; other++) set(number * 8 + other, { ...field, ...named('wrong') })
    set(number * 8 + wireType, field)
  }
  return { fieldByTag, fieldCount: names.length, make }
}

type TypeOfField = Pick<Field, 'type' | 'typeIndex'> & Partial<Pick<Field, 'message' | 'keys'>>

function typeOf(type: FieldSpec[1]): TypeOfField {
  if (typeof type === 'string') return named(type)
  return 'keys' in type ? { ...named('entries'), keys: type.keys } : { ...named('message'), message: type }
}

function named(type: FieldType): TypeOfField {
  return { type, typeIndex: FIELD_TYPES.indexOf(type) }
}
