/**
 * Protobuf's wire format, as far as Kubernetes uses it: bytes to plain objects with the names that the JSON has. Only fields
 * that a message names are decoded; everything else is stepped over.
 * What could break: lengths come from the network. Each is checked against the end of the message that it is in, so that
 * nothing is read beyond it and every loop moves on; what is malformed is `api-bad-response`, never half an object.
 * https://protobuf.dev/programming-guides/encoding/
 */
import { ApiError } from './api-error.ts'
import { isObject, type JsonObject } from './findings.ts'
import { type Field, FIXED32, FIXED64, LENGTH, type Message, VARINT } from './protobuf-message.ts'

/** Different words that are kept at a time; a power of two. */
const WORD_SLOTS = 2048
const MAX_WORD_BYTES = 64
/** The value of the lowest bit in the eighth byte of a number. */
const EIGHTH_BYTE = 2 ** 49

/** Reads messages from buffers, one at a time, front to back. It keeps the words of all of them. */
export class ProtobufReader {
  /** What is read, and where the next byte is. No private names: code that is not optimised yet is slow at those. */
  bytes: Buffer = Buffer.alloc(0)
  at = 0
  readonly #words = Array.from({ length: WORD_SLOTS }, () => '')

  /** The next field's number and wire type; then one of the methods below reads its value. */
  tag(end: number): number {
    return checkTag(this.#varint(end))
  }

  /** The end of a field that has a length in front; its bytes come next. */
  enter(end: number): number {
    const length = this.#varint(end)
    if (length < 0 || length > end - this.at) throw malformed('a field that ends after its message')
    return this.at + length
  }

  /** Steps over a value. */
  skip(tag: number, end: number): void {
    checkTag(tag)
    switch (tag & 7) {
      case VARINT:
        this.#varint(end)
        return
      case LENGTH:
        this.at = this.enter(end)
        return
      case FIXED32:
      case FIXED64: {
        const size = (tag & 7) === FIXED32 ? 4 : 8
        if (size > end - this.at) throw malformed('a field that ends after its message')
        this.at += size
        return
      }
      default:
        throw malformed(`wire type ${tag & 7}`)
    }
  }

  /** Text from here to `end`. */
  text(end: number): string {
    const start = this.at
    this.at = end
    return this.bytes.toString('utf8', start, end)
  }

  /** Text from here to `end` that is likely to come again. */
  word(end: number): string {
    const bytes = this.bytes
    const start = this.at
    if (end - start > MAX_WORD_BYTES) return this.text(end)
    let hash = end - start
    let all = 0
    for (let at = start; at < end; at++) {
      const byte = bytes[at] ?? 0
      hash = (hash * 31 + byte) | 0
      all |= byte
    }
    // Only ASCII is kept, where a letter is a byte.
    if (all > 0x7f) return this.text(end)
    const slot = (hash ^ (hash >>> 11)) & (WORD_SLOTS - 1)
    const kept = this.#words[slot] ?? ''
    if (kept.length === end - start && this.#isHere(kept)) {
      this.at = end
      return kept
    }
    const word = this.text(end)
    this.#words[slot] = word
    return word
  }

  /**
   * The message from here to `end`. This is where the time goes: what is most frequent, a tag and a length of one byte each, is
   * read here, the rest in methods.
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
        else if (field.repeated) addTo(values, field.slot, this.#value(field, stop, undefined))
        else values[field.slot] = this.#value(field, stop, values[field.slot])
        at = stop
      } else {
        this.at = at
        if (field === undefined) this.skip(tag, end)
        else values[field.slot] = this.#number(field, end)
        at = this.at
      }
    }
    this.at = at
    return make(values)
  }

  /** `before` is what the field came to earlier in the same message. */
  #value(field: Field, end: number, before: unknown): unknown {
    switch (field.type) {
      case 'text':
        return this.text(end)
      case 'word':
        return this.word(end)
      case 'message':
        // Allowed, to be put together; no Kubernetes writes that.
        if (before !== undefined) throw malformed(`${field.name} in several parts`)
        return this.message(field.message, end)
      case 'entries':
        return this.#entry(field, end, isObject(before) ? before : {})
      case 'time':
        return this.#time(end)
      default:
        throw malformed(`a field of another type for ${field.name}`)
    }
  }

  #number(field: Field, end: number): unknown {
    if (field.type === 'wrong') throw malformed(`a field of another type for ${field.name}`)
    const value = this.#varint(end)
    if (field.type === 'bool') return value !== 0
    if (value !== (value | 0)) throw malformed('a number of more than 32 bits')
    return value
  }

  #entry({ keys }: Field, end: number, before: JsonObject): JsonObject {
    let name: string | undefined
    let valueStart = end
    let valueEnd = end
    while (this.at < end) {
      const tag = this.tag(end)
      if (tag === 8 + LENGTH) {
        const keyEnd = this.enter(end)
        name = keys.find((key) => key.length === keyEnd - this.at && this.#isHere(key))
        this.at = keyEnd
      } else if (tag === 16 + LENGTH) {
        valueEnd = this.enter(end)
        valueStart = this.at
        this.at = valueEnd
      } else this.skip(tag, end)
    }
    if (name === undefined) return before
    this.at = valueStart
    return { ...before, [name]: this.text(valueEnd) }
  }

  #time(end: number): Date | null {
    if (this.at === end) return null
    let seconds = 0
    while (this.at < end) {
      const tag = this.tag(end)
      if (tag === 8 + VARINT) seconds = this.#varint(end)
      else this.skip(tag, end)
    }
    return new Date(seconds * 1000)
  }

  /** Whether these bytes stand here. */
  #isHere(text: string): boolean {
    const bytes = this.bytes
    const start = this.at
    for (let index = 0; index < text.length; index++) if (bytes[start + index] !== text.charCodeAt(index)) return false
    return true
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

  /** The same for one of eight bytes or more, as negative numbers have, or one that breaks off. */
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
