/**
 * Encodes objects of the API in protobuf, byte for byte as a real API server does. It writes from
 * the end to the beginning, so that the length of a message is known when it is needed. A value of
 * the wrong type (some tests have such) is omitted, because protobuf cannot express it.
 */
import { type FieldText, MESSAGES } from './messages.ts'
import { asObject } from './store.ts'

const VARINT = 0
const LENGTH = 2

/** Writes backwards into a buffer that grows. */
class BackwardWriter {
  #bytes = Buffer.allocUnsafe(64 * 1024)
  #at = this.#bytes.length

  get length(): number {
    return this.#bytes.length - this.#at
  }

  /** The bytes written so far; the writer is empty afterwards. */
  take(): Buffer {
    const bytes = Buffer.from(this.#bytes.subarray(this.#at))
    this.#at = this.#bytes.length
    return bytes
  }

  bytes(bytes: Buffer): void {
    this.#reserve(bytes.length)
    this.#at -= bytes.length
    bytes.copy(this.#bytes, this.#at)
  }

  text(text: string): void {
    const size = Buffer.byteLength(text)
    this.#reserve(size)
    this.#at -= size
    this.#bytes.write(text, this.#at)
  }

  varint(number: number): void {
    this.#reserve(10)
    const bytes: number[] = []
    let rest = number
    if (number < 0) {
      // Negative numbers are written with 64 bits.
      let long = BigInt.asUintN(64, BigInt(number))
      for (; long > 0x7fn; long >>= 7n) bytes.push(Number(long & 0x7fn) | 0x80)
      rest = Number(long)
    }
    for (; rest > 0x7f; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 0x80)
    bytes.push(rest)
    this.#at -= bytes.length
    this.#bytes.set(bytes, this.#at)
  }

  tag(number: number, wireType: number): void {
    this.varint(number * 8 + wireType)
  }

  /** The output of `write` as a field, preceded by its length. */
  field(number: number, write: () => void): void {
    const end = this.length
    write()
    this.varint(this.length - end)
    this.tag(number, LENGTH)
  }

  #reserve(size: number): void {
    if (size <= this.#at) return
    const larger = Buffer.allocUnsafe(2 * this.#bytes.length + size)
    const used = this.length
    this.#bytes.copy(larger, larger.length - used, this.#at)
    this.#bytes = larger
    this.#at = larger.length - used
  }
}

const writer = new BackwardWriter()

/** An object without its envelope: the message of its kind. */
export function encodeMessage(kind: string, object: unknown): Buffer {
  writeMessage(kind, object)
  return writer.take()
}

/** A list of encoded items. */
export function encodeList(metadata: unknown, items: readonly Buffer[]): Buffer {
  for (const item of items.toReversed()) writer.field(2, () => writer.bytes(item))
  writer.field(1, () => writeMessage('ListMeta', metadata))
  return writer.take()
}

/** runtime.Unknown with its magic number around a message. */
export function encodeEnvelope(apiVersion: string, kind: string, raw: Buffer): Buffer {
  writer.field(4, () => {})
  writer.field(3, () => {})
  writer.field(2, () => writer.bytes(raw))
  writer.field(1, () => {
    writer.field(2, () => writer.text(kind))
    writer.field(1, () => writer.text(apiVersion))
  })
  writer.text('k8s\0')
  return writer.take()
}

/** A WatchEvent around an object in its envelope, as a frame of the stream. */
export function encodeEventFrame(type: string, envelope: Buffer): Buffer {
  writer.field(2, () => writer.field(1, () => writer.bytes(envelope)))
  writer.field(1, () => writer.text(type))
  return frameOf(writer.take())
}

/** Adds the length in four bytes in front. */
export function frameOf(bytes: Buffer): Buffer {
  const frame = Buffer.allocUnsafe(4 + bytes.length)
  frame.writeUInt32BE(bytes.length)
  bytes.copy(frame, 4)
  return frame
}

function writeMessage(type: string, value: unknown): void {
  const fields = MESSAGES.get(type)
  if (fields === undefined) throw new Error(`no message: ${type}`)
  const object = asObject(value)
  for (const name of Object.keys(object))
    if (name !== 'kind' && name !== 'apiVersion' && !fields.some((field) => field.name === name))
      throw new Error(`${type} has no field ${name}`)
  for (const field of fields) {
    const member = object[field.name]
    if (field.type === 'map') writeMap(field.number, asObject(member))
    else if (!field.isList) writeField(field, member)
    else if (Array.isArray(member))
      for (const item of member.toReversed()) writeField({ ...field, isOptional: false }, item)
  }
}

function writeField({ number, type, isOptional }: FieldText, value: unknown): void {
  if (isOptional && (value === undefined || value === null)) return
  switch (type) {
    case 'string':
      return writer.field(number, () => writer.text(typeof value === 'string' ? value : ''))
    case 'int':
      return writeNumber(number, typeof value === 'number' && Number.isFinite(value) ? value : 0)
    case 'bool':
      return writeNumber(number, value === true ? 1 : 0)
    case 'Time':
      return writer.field(number, () => writeTime(value))
    case 'IntOrString':
      return writer.field(number, () => {
        writer.field(3, () => writer.text(typeof value === 'string' ? value : ''))
        writeNumber(2, typeof value === 'number' ? value : 0)
        writeNumber(1, typeof value === 'string' ? 1 : 0)
      })
    case 'FieldsV1':
      return writer.field(number, () => writer.field(1, () => writer.text(JSON.stringify(value))))
    default:
      return writer.field(number, () => writeMessage(type, value))
  }
}

function writeNumber(field: number, value: number): void {
  writer.varint(value)
  writer.tag(field, VARINT)
}

/** metav1 Time: nothing for the zero time. */
function writeTime(value: unknown): void {
  const ms = typeof value === 'string' ? Date.parse(value) : Number.NaN
  if (Number.isNaN(ms)) return
  writeNumber(2, 0)
  writeNumber(1, Math.floor(ms / 1000))
}

function writeMap(number: number, entries: Readonly<Record<string, unknown>>): void {
  for (const key of Object.keys(entries).toSorted().toReversed())
    writer.field(number, () => {
      writer.field(2, () => writer.text(String(entries[key])))
      writer.field(1, () => writer.text(key))
    })
}
