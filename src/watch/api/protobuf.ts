/**
 * Protobuf's wire format, as far as Kubernetes uses it
 * (https://protobuf.dev/programming-guides/encoding/), to plain objects with the names of the JSON.
 * Hand-written for two properties: it decodes only the fields that a message lists and skips the
 * rest, and it shares texts that repeat. 10,000 endpoints take 5.5 ms, half of JSON.parse; loading
 * protobufjs takes 11 ms and 6 MiB alone. Every length is checked against the end of its message:
 * malformed input is `api-bad-response`, never half an object.
 */
import { ApiError } from './api-error.ts'
import { isObject, type JsonObject } from '../objects/findings.ts'
import {
  type Field,
  FIELD_TYPES,
  type FieldType,
  FIXED32,
  FIXED64,
  LENGTH,
  type Message,
  message,
  VARINT,
} from './protobuf-message.ts'

/** The position of a value in the bytes. A class, so that `instanceof` distinguishes it from all other values. */
export class Span {
  readonly start: number
  readonly end: number

  constructor(start: number, end: number) {
    this.start = start
    this.end = end
  }
}

/** Number of words that a reader keeps; a power of two. */
const WORD_SLOTS = 2048
const MAX_WORD_BYTES = 64
/** The value of the lowest bit in the eighth byte of a number. */
const EIGHTH_BYTE = 2 ** 49

const ENTRY = message({ key: [1, 'span'], value: [2, 'span'] }, (v) => ({ key: v[0], value: v[1] }))
const TIME = message({ seconds: [1, 'long'] }, (v) => ({ seconds: v[0] }))

/** Reads messages, one at a time, front to back. The words of all messages are shared. */
const NO_BYTES = Buffer.alloc(0)

export class ProtobufReader {
  /**
   * The bytes and the position of the next one. Not private (`#`), because private names are slow
   * in code that V8 has not optimised.
   */
  bytes: Buffer = NO_BYTES
  at = 0
  readonly #words = Array.from({ length: WORD_SLOTS }, () => '')

  /**
   * The message from `start` to `end`. Neither it nor this reader holds a reference to the bytes
   * afterwards: a watch may wait for minutes.
   */
  read(message: Message, bytes: Buffer, start: number, end: number): JsonObject {
    this.bytes = bytes
    this.at = start
    try {
      return this.message(message, end)
    } finally {
      this.bytes = NO_BYTES
    }
  }

  /**
   * The message from the current position to `end`. Only called by `read` and READ, like all
   * methods below. Most of the time is spent here, so the frequent case, a tag and a length of one
   * byte each, is read inline.
   */
  message({ fieldByTag, fieldCount, make }: Message, end: number): JsonObject {
    const values: unknown[] = new Array(fieldCount)
    const bytes = this.bytes
    let at = this.at
    while (at < end) {
      let tag = bytes[at] ?? 0
      if (tag < 0x80) at++
      else {
        this.at = at
        tag = checkTag(this.#varint(end))
        at = this.at
      }
      const field = fieldByTag[tag]
      if ((tag & 7) === LENGTH) {
        let length = bytes[at] ?? 0
        if (length < 0x80) at++
        else {
          this.at = at
          length = this.#varint(end)
          at = this.at
        }
        const stop = at + length
        if (length < 0 || stop > end) throw malformed('a field that ends after its message')
        this.at = at
        if (field === undefined) checkTag(tag)
        else if (field.repeated) {
          if (!field.isFirstOnly || values[field.slot] === undefined)
            addTo(values, field.slot, (READ[field.typeIndex] ?? refuseField)(this, field, stop, undefined))
        } else values[field.slot] = (READ[field.typeIndex] ?? refuseField)(this, field, stop, values[field.slot])
        at = stop
      } else {
        this.at = at
        if (field === undefined) this.#skip(tag, end)
        else values[field.slot] = this.#number(field, end)
        at = this.at
      }
    }
    this.at = at
    return make(values)
  }

  #number(field: Field, end: number): unknown {
    if (field.type === 'wrong') refuseField(this, field)
    const value = this.#varint(end)
    if (field.type === 'bool') return value !== 0
    if (field.type === 'int' && value !== (value | 0)) throw malformed('a number of more than 32 bits')
    return value
  }

  /** Text from the current position to `end`, shared if it is short and ASCII, where a character is a byte. */
  word(end: number): string {
    const bytes = this.bytes
    const start = this.at
    if (end - start > MAX_WORD_BYTES) return bytes.toString('utf8', start, end)
    let hash = end - start
    let all = 0
    for (let at = start; at < end; at++) {
      const byte = bytes[at] ?? 0
      hash = (hash * 31 + byte) | 0
      all |= byte
    }
    if (all > 0x7f) return bytes.toString('utf8', start, end)
    const slot = (hash ^ (hash >>> 11)) & (WORD_SLOTS - 1)
    const shared = this.#words[slot] ?? ''
    if (shared.length === end - start && this.isAt(start, shared)) return shared
    const word = bytes.toString('utf8', start, end)
    this.#words[slot] = word
    return word
  }

  /** Whether the bytes at `start` are these ASCII characters. */
  isAt(start: number, letters: string): boolean {
    const bytes = this.bytes
    for (let index = 0; index < letters.length; index++)
      if (bytes[start + index] !== letters.charCodeAt(index)) return false
    return true
  }

  /** Skips a value without a length in front. */
  #skip(tag: number, end: number): void {
    checkTag(tag)
    const wireType = tag & 7
    if (wireType === VARINT) {
      this.#varint(end)
      return
    }
    if (wireType !== FIXED32 && wireType !== FIXED64) throw malformed(`wire type ${wireType}`)
    const size = wireType === FIXED32 ? 4 : 8
    if (size > end - this.at) throw malformed('a field that ends after its message')
    this.at += size
  }

  /** A number of up to ten bytes, seven bits in each, the lowest first; exact up to 53 bits. */
  #varint(end: number): number {
    const bytes = this.bytes
    let at = this.at
    let value = 0
    let scale = 1
    while (at < end && scale < EIGHTH_BYTE) {
      const byte = bytes[at++] ?? 0
      value += (byte & 0x7f) * scale
      if (byte < 0x80) {
        this.at = at
        return value
      }
      scale *= 128
    }
    return this.#longVarint(end)
  }

  /** The rare rest of #varint: eight bytes or more, as negative numbers have, or a number that is cut off. */
  #longVarint(end: number): number {
    let value = 0n
    for (let count = 0n; count < 10n; count++) {
      if (this.at >= end) throw malformed('a number that ends after its message')
      const byte = this.bytes[this.at++] ?? 0
      value |= BigInt(byte & 0x7f) << (count * 7n)
      if (byte < 0x80 && value < 1n << 64n) return Number(BigInt.asIntN(64, value))
    }
    throw malformed('a number of more than 64 bits')
  }
}

function checkTag(tag: number): number {
  if (tag < 8 || tag > 0xffff_ffff) throw malformed('a field without a number')
  return tag
}

function addTo(values: unknown[], slot: number, value: unknown): void {
  const list = values[slot]
  if (Array.isArray(list)) list.push(value)
  else values[slot] = [value]
}

function malformed(what: string): ApiError {
  return new ApiError('api-bad-response', `malformed protobuf: ${what}`)
}

/** Reads the value of a field from the current position to `end`; `before` is its earlier value in the same message. */
type ReadValue = (reader: ProtobufReader, field: Field, end: number, before: unknown) => unknown

/**
 * Reads values with a length in front, by type. A table of functions, because V8 inlines the
 * branches of a switch into the caller, which costs some MiB and ten milliseconds of a start.
 */
const READ_BY_NAME: Readonly<Record<FieldType, ReadValue>> = {
  text: (reader, _, end) => reader.bytes.toString('utf8', reader.at, end),
  word: (reader, _, end) => reader.word(end),
  span: (reader, _, end) => new Span(reader.at, end),
  message(reader, field, end, before) {
    // Protobuf allows it and merges the parts. Kubernetes never writes it.
    if (before !== undefined) throw malformed(`${field.name} in several parts`)
    return reader.message(field.message, end)
  },
  entries(reader, { keys }, end, before) {
    const entries = isObject(before) ? before : {}
    const { key, value } = reader.message(ENTRY, end)
    if (!(key instanceof Span)) return entries
    for (const name of keys)
      if (name.length === key.end - key.start && reader.isAt(key.start, name))
        return {
          ...entries,
          [name]: value instanceof Span ? reader.bytes.toString('utf8', value.start, value.end) : '',
        }
    return entries
  },
  time(reader, _, end) {
    if (reader.at === end) return null
    const { seconds } = reader.message(TIME, end)
    return new Date(Number(seconds ?? 0) * 1000)
  },
  int: refuseField,
  long: refuseField,
  bool: refuseField,
  wrong: refuseField,
}

const READ = FIELD_TYPES.map((type) => READ_BY_NAME[type])

function refuseField(_: ProtobufReader, field: Field): never {
  throw malformed(`a field of another type for ${field.name}`)
}
