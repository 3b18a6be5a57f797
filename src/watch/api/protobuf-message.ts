/**
 * What a reader decodes of a message of protobuf: its fields by number, with their types, and how
 * they become an object.
 */
import type { JsonObject } from '../objects/findings.ts'

/**
 * `word` is text that repeats in thousands of objects (protocols, node names); the reader keeps one
 * copy of it. `int` is a number of 32 bits, `long` one of 64. `time` is a metav1 Time as a Date,
 * null for the zero time, without nanoseconds as in Kubernetes' own decoder. `span` is the position
 * of the value.
 */
export type Scalar = 'text' | 'word' | 'int' | 'long' | 'bool' | 'time' | 'span'

/** A map from text to text of which only these keys, which must be ASCII, are decoded. */
export interface Entries {
  readonly keys: readonly string[]
}

/** Field number, type, and whether it is a list: of `first` only the first item is kept. */
export type FieldSpec =
  | readonly [number: number, type: Scalar | Message | Entries]
  | readonly [number: number, type: 'text' | 'word' | Message, repeated: 'repeated' | 'first']

/** `wrong` is the type at the tags that combine a known field number with a wire type that the field does not have. */
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

/** A field as the reader needs it. */
export interface Field {
  readonly name: string
  /** Index of its value among those of the message. */
  readonly slot: number
  readonly type: FieldType
  /** Index of the type in FIELD_TYPES. */
  readonly typeIndex: number
  readonly repeated: boolean
  /** Items after the first one are not read. */
  readonly isFirstOnly: boolean
  readonly message: Message
  readonly keys: readonly string[]
}

/** Makes an object from the values of its fields, in the order of the fields. */
export type MakeObject = (values: readonly unknown[]) => JsonObject

export interface Message {
  /** The decoded fields by tag, which is field number and wire type in one number. */
  readonly fieldByTag: readonly (Field | undefined)[]
  readonly fieldCount: number
  readonly make: MakeObject
}

/** Wire types. */
export const VARINT = 0
export const FIXED64 = 1
export const LENGTH = 2
export const FIXED32 = 5

const NO_MESSAGE: Message = { fieldByTag: [], fieldCount: 0, make: () => ({}) }

/**
 * A message with the fields that are to be decoded. `make` repeats their names because an object
 * literal costs a third of an object whose members are set by name one after the other. Throws when
 * the names of both differ.
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
    const lists = { repeated: repeated !== undefined, isFirstOnly: repeated === 'first' }
    const field = { name, slot, ...lists, message: NO_MESSAGE, keys: [], ...typeOf(type) }
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
