/**
 * Encodes profiles of V8 as profile.proto of google/pprof, which `go tool pprof`, Pyroscope and
 * Parca read: ids start at 1, and string 0 is empty. Hand-written instead of the package
 * pprof-format, which would replace about 100 of these lines: not worth a dependency for a debug
 * page that is rarely used.
 */

/** A function at a place in a file, as V8 names it (Runtime.CallFrame); lines begin with 0. */
export interface CallFrame {
  readonly functionName: string
  readonly url: string
  readonly lineNumber: number
}

/** One stack, the innermost frame first, and its measured values. */
export interface ProfileSample {
  readonly stack: readonly CallFrame[]
  readonly values: readonly number[]
}

/** A profile before encoding. */
export interface Profile {
  /** Type and unit of each value: `['cpu', 'nanoseconds']`. */
  readonly types: readonly (readonly [type: string, unit: string])[]
  readonly samples: Iterable<ProfileSample>
  /** Start since the epoch, and duration. */
  readonly startNanoseconds: bigint
  readonly durationNanoseconds: bigint
  /** Interval between two samples, in the unit of the last type. */
  readonly period: number
}

/** Encodes a profile; the result is not compressed. */
export function encodeProfile(profile: Profile): Uint8Array {
  const strings = new Interned<string>()
  strings.id('')
  const text = (value: string): number => strings.id(value) - 1
  const functions = new Interned<string>()
  const locations = new Interned<string>()
  const main = new Message()
  const valueType = (type: string, unit: string): Message => new Message().number(1, text(type)).number(2, text(unit))
  for (const [type, unit] of profile.types) main.message(1, valueType(type, unit))
  const parts: Message[] = []
  const locationOf = ({ functionName, url, lineNumber }: CallFrame): number => {
    const name = functionName === '' ? '(anonymous)' : functionName
    const line = lineNumber + 1
    const functionKey = `${name}\0${url}`
    if (!functions.has(functionKey)) {
      const id = functions.id(functionKey)
      parts.push(
        new Message().message(
          5,
          new Message().number(1, id).number(2, text(name)).number(3, text(name)).number(4, text(url)),
        ),
      )
    }
    const key = `${functionKey}\0${line}`
    if (locations.has(key)) return locations.id(key)
    const id = locations.id(key)
    const lineMessage = new Message().number(1, functions.id(functionKey)).number(2, line)
    parts.push(new Message().message(4, new Message().number(1, id).message(4, lineMessage)))
    return id
  }
  for (const { stack, values } of profile.samples)
    main.message(2, new Message().packed(1, stack.map(locationOf)).packed(2, values))
  for (const part of parts) main.append(part)
  const [type, unit] = profile.types.at(-1) ?? ['', '']
  const periodType = valueType(type, unit)
  for (const value of strings.values()) main.text(6, value)
  return main
    .number(9, profile.startNanoseconds)
    .number(10, profile.durationNanoseconds)
    .message(11, periodType)
    .number(12, profile.period)
    .bytes()
}

/** Numbers values from 1 on, in the order of their first use. */
class Interned<T> {
  readonly #ids = new Map<T, number>()

  has(value: T): boolean {
    return this.#ids.has(value)
  }

  id(value: T): number {
    const known = this.#ids.get(value)
    if (known !== undefined) return known
    this.#ids.set(value, this.#ids.size + 1)
    return this.#ids.size
  }

  values(): IterableIterator<T> {
    return this.#ids.keys()
  }
}

/** A protobuf message that is being written. */
class Message {
  readonly #bytes: number[] = []

  number(field: number, value: number | bigint): this {
    this.#varint(BigInt(field * 8))
    this.#varint(BigInt(value))
    return this
  }

  message(field: number, message: Message): this {
    return this.#delimited(field, message.#bytes)
  }

  text(field: number, value: string): this {
    return this.#delimited(field, Array.from(new TextEncoder().encode(value)))
  }

  packed(field: number, values: readonly number[]): this {
    const inner = new Message()
    for (const value of values) inner.#varint(BigInt(Math.round(value)))
    return this.#delimited(field, inner.#bytes)
  }

  append(message: Message): this {
    for (const byte of message.#bytes) this.#bytes.push(byte)
    return this
  }

  bytes(): Uint8Array {
    return Uint8Array.from(this.#bytes)
  }

  #delimited(field: number, bytes: readonly number[]): this {
    this.#varint(BigInt(field * 8 + 2))
    this.#varint(BigInt(bytes.length))
    for (const byte of bytes) this.#bytes.push(byte)
    return this
  }

  #varint(value: bigint): void {
    for (let rest = value; ; rest >>= 7n) {
      if (rest < 128n) {
        this.#bytes.push(Number(rest))
        return
      }
      this.#bytes.push(Number(rest & 127n) | 128)
    }
  }
}
