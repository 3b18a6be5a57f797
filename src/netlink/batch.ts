/**
 * Encodes request messages one after the other into one growing buffer, which a single `sendto`
 * carries to the kernel. This is the hot path: nothing is copied or allocated for a message.
 * `#reserve` may replace `#bytes` and `#view`, so call it before an expression names either. The
 * buffer is reused, so every padding byte must be written. Everything is little endian; native/
 * refuses to open sockets on another machine. Written by hand: there is no netlink library for
 * Node.
 */
import { GENL_HDRLEN, NLA_F_NESTED, NLA_HDRLEN, NLM_F_ACK, NLM_F_REQUEST, NLMSG_HDRLEN } from './constants.ts'
import { netlinkError } from './errors.ts'

/** The most messages in one batch. Each message that fails takes about 768 bytes of the receive queue. */
export const MAX_BATCH_MESSAGES = 200

/** nla_len is 16 bit. */
const MAX_ATTRIBUTE_BYTES = 0xffff

/**
 * Messages for one datagram. Use: `begin`, attributes and `end` for each message; a call of
 * NetlinkConnection; then `reset`.
 */
export class MessageBatch {
  #bytes: Uint8Array<ArrayBuffer>
  #view: DataView
  #end = 0
  #messageStart = -1
  #operation = ''
  /** Messages at the end that the kernel never acknowledges. */
  #unacknowledged = 0
  readonly #operations: string[] = []

  /** @param capacity bytes to start with; it grows as needed */
  constructor(capacity = 4096) {
    this.#bytes = new Uint8Array(capacity)
    this.#view = new DataView(this.#bytes.buffer)
  }

  /** How many complete messages it holds. */
  get count(): number {
    return this.#operations.length
  }

  /** Index of the last message that the kernel acknowledges, the one whose ACK ends a transaction. */
  get lastAcknowledged(): number {
    return this.count - 1 - this.#unacknowledged
  }

  /** Bytes of the complete messages; valid until something is added. */
  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#messageStart < 0 ? this.#end : this.#messageStart)
  }

  /** Name of the operation of message `index`, as given to `begin`. */
  operation(index: number): string {
    return this.#operations[index] ?? 'unknown request'
  }

  /** Empties it for the next use; keeps the buffer. */
  reset(): void {
    this.#end = 0
    this.#messageStart = -1
    this.#unacknowledged = 0
    this.#operations.length = 0
  }

  /**
   * Starts a message (struct nlmsghdr). NLM_F_REQUEST is always set. A message that was begun and
   * not ended (its encoder threw) is dropped.
   * @param operation its name in errors, as in the kernel's headers (`IPVS_CMD_NEW_DEST`)
   */
  begin(type: number, flags: number, operation: string): this {
    if (this.#messageStart >= 0) this.#end = this.#messageStart
    this.#operation = operation
    this.#messageStart = this.#end
    const at = this.#reserve(NLMSG_HDRLEN)
    const view = this.#view
    view.setUint16(at + 4, type, true)
    view.setUint16(at + 6, flags | NLM_F_REQUEST, true)
    view.setUint32(at + 8, 0, true)
    view.setUint32(at + 12, 0, true)
    return this
  }

  /** Starts a message of a generic netlink family, as `begin` does, with its second header (struct genlmsghdr). */
  beginGeneric(familyId: number, command: number, version: number, flags: number, operation: string): this {
    this.begin(familyId, flags, operation)
    const at = this.header(GENL_HDRLEN)
    this.setU8(at, command)
    this.setU8(at + 1, version)
    return this
  }

  /** Ends the current message. */
  end(): void {
    this.#view.setUint32(this.#messageStart, this.#end - this.#messageStart, true)
    this.#messageStart = -1
    this.#operations.push(this.#operation)
  }

  /**
   * Ends the current message, the last one, which older kernels do not acknowledge
   * (NFNL_MSG_BATCH_END before 6.10).
   */
  endUnacknowledged(): void {
    this.end()
    this.#unacknowledged++
  }

  /**
   * A fixed header of `length` bytes (struct genlmsghdr, ifaddrmsg …), zeroed; returns its offset
   * for `setU8` and the like.
   */
  header(length: number): number {
    const aligned = (length + 3) & ~3
    const at = this.#reserve(aligned)
    this.#bytes.fill(0, at, at + aligned)
    return at
  }

  setU8(at: number, value: number): void {
    this.#view.setUint8(at, value)
  }

  setU32(at: number, value: number): void {
    this.#view.setUint32(at, value, true)
  }

  u8(type: number, value: number): void {
    const at = this.#attribute(type, 1)
    this.#view.setUint32(at, value & 0xff, true)
  }

  u16(type: number, value: number): void {
    const at = this.#attribute(type, 2)
    this.#view.setUint32(at, value & 0xffff, true)
  }

  /** Big endian, as ports are sent. */
  u16be(type: number, value: number): void {
    const at = this.#attribute(type, 2)
    this.#view.setUint32(at, ((value & 0xff) << 8) | ((value >>> 8) & 0xff), true)
  }

  u32(type: number, value: number): void {
    const at = this.#attribute(type, 4)
    this.#view.setUint32(at, value, true)
  }

  /** Big endian, as IPv4 masks are sent. */
  u32be(type: number, value: number): void {
    const at = this.#attribute(type, 4)
    this.#view.setUint32(at, value, false)
  }

  /** Two 32-bit words (struct ip_vs_flags). */
  u32Pair(type: number, first: number, second: number): void {
    const at = this.#attribute(type, 8)
    this.#view.setUint32(at, first, true)
    this.#view.setUint32(at + 4, second, true)
  }

  /** Text with its terminating NUL (NLA_NUL_STRING). */
  string(type: number, text: string): void {
    const encoded = Buffer.from(text, 'utf8')
    const at = this.#attribute(type, encoded.length + 1)
    this.#bytes.set(encoded, at)
    this.#bytes[at + encoded.length] = 0
  }

  binary(type: number, value: Uint8Array): void {
    const at = this.#attribute(type, value.length)
    this.#bytes.set(value, at)
  }

  /**
   * An attribute of `length` zero bytes that `write` fills in place, so that addresses need no
   * other buffer.
   * @param write receives the value, the buffer and the offset of the payload
   */
  written<T>(
    type: number,
    length: number,
    write: (value: T, into: Uint8Array, offset: number) => number,
    value: T,
  ): void {
    const at = this.#attribute(type, length)
    this.#bytes.fill(0, at, at + length)
    if (write(value, this.#bytes, at) > length)
      throw netlinkError('netlink-unencodable', `attribute ${type} is longer than ${length} bytes`)
  }

  /** Starts a nested attribute; what follows is inside it until `endNest` gets the returned value. */
  nest(type: number): number {
    const at = this.#reserve(NLA_HDRLEN)
    this.#view.setUint16(at + 2, type | NLA_F_NESTED, true)
    return at
  }

  endNest(start: number): void {
    const length = this.#end - start
    if (length > MAX_ATTRIBUTE_BYTES) throw netlinkError('netlink-unencodable', `nested attribute of ${length} bytes`)
    this.#view.setUint16(start, length, true)
  }

  /**
   * Numbers the messages from `firstSequence` and returns the bytes to send.
   * @param ackLast ask for an ACK of the last message that has one (the kernel always reports
   * errors)
   */
  seal(firstSequence: number, ackLast: boolean): Uint8Array {
    const bytes = this.bytes
    let sequence = firstSequence
    let left = this.lastAcknowledged
    let last = -1
    for (let at = 0; at < bytes.length; at += (this.#view.getUint32(at, true) + 3) & ~3) {
      this.#view.setUint16(at + 6, this.#view.getUint16(at + 6, true) & ~NLM_F_ACK, true)
      this.#view.setUint32(at + 8, sequence >>> 0, true)
      sequence = (sequence + 1) >>> 0
      if (left-- === 0) last = at
    }
    if (ackLast && last >= 0) this.#view.setUint16(last + 6, this.#view.getUint16(last + 6, true) | NLM_F_ACK, true)
    return bytes
  }

  /** Sets the type of every message: a generic netlink family may have another number since they were encoded. */
  retype(type: number): void {
    const length = this.bytes.length
    for (let at = 0; at < length; at += (this.#view.getUint32(at, true) + 3) & ~3)
      this.#view.setUint16(at + 4, type, true)
  }

  /** Header and zeroed padding of an attribute; returns the offset of its payload. */
  #attribute(type: number, length: number): number {
    if (length + NLA_HDRLEN > MAX_ATTRIBUTE_BYTES)
      throw netlinkError('netlink-unencodable', `attribute ${type} of ${length} bytes`)
    const aligned = (length + 3) & ~3
    const at = this.#reserve(NLA_HDRLEN + aligned)
    this.#view.setUint16(at, length + NLA_HDRLEN, true)
    this.#view.setUint16(at + 2, type, true)
    if (aligned !== length) this.#view.setUint32(at + aligned, 0, true)
    return at + NLA_HDRLEN
  }

  #reserve(length: number): number {
    const at = this.#end
    const end = at + length
    if (end > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(end, this.#bytes.length * 2))
      grown.set(this.#bytes)
      this.#bytes = grown
      this.#view = new DataView(grown.buffer)
    }
    this.#end = end
    return at
  }
}

/** A batch for one small request; none of these is on the hot path. */
export function requestOf(encode: (batch: MessageBatch) => void): MessageBatch {
  const batch = new MessageBatch(128)
  encode(batch)
  return batch
}
