/**
 * Reads attributes (struct nlattr) and checks every bound: an attribute that does not fit throws
 * `netlink-malformed`. As the kernel's rules for attributes ask, callers skip unknown types, and a
 * longer payload is accepted, because a newer kernel may lengthen an attribute. `next` always moves
 * forward, so that a crafted reply ends.
 */
import { NLA_HDRLEN, NLA_TYPE_MASK } from './constants.ts'
import { netlinkError } from './errors.ts'

/** A cursor over the attributes of a message or of a nested attribute. One object is used for a whole sequence. */
export class AttributeCursor {
  readonly bytes: Uint8Array
  /** Type without the flag bits NLA_F_NESTED and NLA_F_NET_BYTEORDER. */
  type = 0
  /** Offset of the payload in `bytes`, and its length without padding. */
  offset = 0
  length = 0
  readonly #view: DataView
  #next: number
  readonly #end: number

  /** @param view a view of all of `bytes`, if the caller has one */
  constructor(bytes: Uint8Array, start: number, end: number, view?: DataView) {
    this.bytes = bytes
    this.#view = view ?? new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    this.#next = start
    this.#end = end
    if (start > end || end > bytes.length)
      throw malformed(`attributes from ${start} to ${end} of ${bytes.length} bytes`)
  }

  /** A cursor over the attributes that follow. */
  copy(): AttributeCursor {
    return new AttributeCursor(this.bytes, this.#next, this.#end, this.#view)
  }

  /** Moves to the next attribute; false at the end. */
  next(): boolean {
    const at = this.#next
    const left = this.#end - at
    // The last attribute may lack its padding, which moves `at` past the end.
    if (left <= 0) return false
    if (left < NLA_HDRLEN) throw malformed(`${left} bytes after the last attribute`)
    const length = this.#view.getUint16(at, true)
    if (length < NLA_HDRLEN || length > left) throw malformed(`attribute of ${length} bytes where ${left} are left`)
    this.type = this.#view.getUint16(at + 2, true) & NLA_TYPE_MASK
    this.offset = at + NLA_HDRLEN
    this.length = length - NLA_HDRLEN
    this.#next = at + ((length + 3) & ~3)
    return true
  }

  u8(): number {
    this.#expect(1)
    return this.#view.getUint8(this.offset)
  }

  u16(): number {
    this.#expect(2)
    return this.#view.getUint16(this.offset, true)
  }

  u16be(): number {
    this.#expect(2)
    return this.#view.getUint16(this.offset, false)
  }

  u32(): number {
    this.#expect(4)
    return this.#view.getUint32(this.offset, true)
  }

  u32be(): number {
    this.#expect(4)
    return this.#view.getUint32(this.offset, false)
  }

  u64be(): bigint {
    this.#expect(8)
    return this.#view.getBigUint64(this.offset)
  }

  u64(): bigint {
    this.#expect(8)
    return this.#view.getBigUint64(this.offset, true)
  }

  /** Text up to its NUL, or to the end of the attribute when there is none. */
  string(): string {
    let end = this.offset
    const limit = this.offset + this.length
    while (end < limit && this.bytes[end] !== 0) end++
    return Buffer.from(this.bytes.buffer, this.bytes.byteOffset + this.offset, end - this.offset).toString('utf8')
  }

  /** The bytes of the payload, not copied. */
  payload(): Uint8Array {
    return this.bytes.subarray(this.offset, this.offset + this.length)
  }

  /** The attributes inside this one. */
  nested(): AttributeCursor {
    return new AttributeCursor(this.bytes, this.offset, this.offset + this.length, this.#view)
  }

  /** Checks that the payload has at least this many bytes. */
  expect(length: number): void {
    this.#expect(length)
  }

  #expect(length: number): void {
    if (this.length < length) throw malformed(`attribute ${this.type} has ${this.length} bytes instead of ${length}`)
  }
}

function malformed(what: string): Error {
  return netlinkError('netlink-malformed', what)
}
