/**
 * Bytes for tests, made by hand and not by the encoder under test, and a transport that simulates
 * any kernel.
 */
import type { ReceivedMessage } from '../../src/netlink/message.ts'
import { visitMessages } from '../../src/netlink/message.ts'
import type { Transport } from '../../src/netlink/transport.ts'

/** Bytes of hexadecimal text. Blanks and line ends are ignored; any other character throws. */
export function hex(text: string): Uint8Array {
  const digits = text.replaceAll(/\s/g, '')
  if (!/^([0-9a-f]{2})*$/.test(digits)) throw new Error(`not hexadecimal: ${text}`)
  return new Uint8Array(Buffer.from(digits, 'hex'))
}

export function toHex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex')
}

/** The members of a received message that stand for its datagram. */
export function datagramOf(bytes: Uint8Array): Pick<ReceivedMessage, 'bytes' | 'view'> {
  return { bytes, view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength) }
}

/** struct nlmsghdr with this payload, padded. */
export function message(
  type: number,
  flags: number,
  sequence: number,
  payload: Uint8Array = new Uint8Array(),
  portId = 0x49,
): Uint8Array {
  const length = 16 + payload.length
  const bytes = Buffer.alloc((length + 3) & ~3)
  bytes.writeUInt32LE(length, 0)
  bytes.writeUInt16LE(type, 4)
  bytes.writeUInt16LE(flags, 6)
  bytes.writeUInt32LE(sequence, 8)
  bytes.writeUInt32LE(portId, 12)
  bytes.set(payload, 16)
  return new Uint8Array(bytes)
}

/** NLMSG_ERROR, capped, without text; errno 0 is an ACK. */
export function errorMessage(errno: number, sequence: number): Uint8Array {
  const payload = Buffer.alloc(20)
  payload.writeInt32LE(-errno, 0)
  return message(2, 0x100, sequence, new Uint8Array(payload))
}

/** NLMSG_DONE. */
export function doneMessage(errno: number, sequence: number, flags = 0x2): Uint8Array {
  const payload = Buffer.alloc(4)
  payload.writeInt32LE(-errno, 0)
  return message(3, flags, sequence, new Uint8Array(payload))
}

export function join(...parts: readonly Uint8Array[]): Uint8Array {
  return new Uint8Array(Buffer.concat(parts))
}

/** The only message of a datagram, copied. */
export function onlyMessage(datagram: Uint8Array): ReceivedMessage {
  const found: ReceivedMessage[] = []
  visitMessages(datagram, (each) => {
    found.push({ ...each })
  })
  const [first, second] = found
  if (first === undefined || second !== undefined) throw new Error(`${found.length} messages`)
  return first
}

/** The messages of a sent datagram, as a kernel reads them. */
export function requests(datagram: Uint8Array): { type: number; flags: number; sequence: number }[] {
  const found: { type: number; flags: number; sequence: number }[] = []
  visitMessages(datagram, ({ type, flags, sequence }) => {
    found.push({ type, flags, sequence })
  })
  return found
}

/** The result of one `receive`: a datagram, an error to throw, or nothing yet (one EAGAIN). */
export type Reply = Uint8Array | Error | undefined

/** A transport whose kernel is the function `answer`: it receives each sent datagram and returns the replies. */
export class FakeTransport implements Transport {
  readonly portId = 0x49
  readonly sent: Uint8Array[] = []
  readonly queue: Reply[] = []
  closed = false
  listener: (() => void) | undefined
  answer: (datagram: Uint8Array) => Iterable<Reply>

  constructor(answer: (datagram: Uint8Array) => Iterable<Reply> = () => []) {
    this.answer = answer
  }

  send(bytes: Uint8Array): void {
    this.sent.push(bytes.slice())
    this.queue.push(...this.answer(bytes))
  }

  receive(): Uint8Array | undefined {
    const next = this.queue.shift()
    if (next instanceof Error) throw next
    return next
  }

  onReadable(listener: (() => void) | undefined): void {
    this.listener = listener
    // Level triggered, like a poll handle.
    if (listener !== undefined && this.queue.length > 0) setImmediate(() => this.listener?.())
  }

  /** Delivers replies that arrive later. */
  deliver(...replies: Reply[]): void {
    this.queue.push(...replies)
    this.listener?.()
  }

  close(): void {
    this.closed = true
  }
}
