/**
 * Messages inside a received datagram: struct nlmsghdr, NLMSG_ERROR with its extended ACK,
 * NLMSG_DONE. A `ReceivedMessage` points into the transport's buffer and is reused; decoders must
 * copy what they keep. Written by hand: there is no netlink library for Node.
 */
import { AttributeCursor } from './attributes.ts'
import {
  NLM_F_ACK_TLVS,
  NLM_F_CAPPED,
  NLMSG_HDRLEN,
  NLMSGERR_ATTR_MISS_TYPE,
  NLMSGERR_ATTR_MSG,
  NLMSGERR_ATTR_OFFS,
} from './constants.ts'
import { type ExtendedAck, netlinkError } from './errors.ts'

/** One message of a datagram, valid only until the callback returns. */
export interface ReceivedMessage {
  /** The whole datagram, and a view of it. */
  readonly bytes: Uint8Array
  readonly view: DataView
  /** nlmsg_type, nlmsg_flags, nlmsg_seq, nlmsg_pid */
  readonly type: number
  readonly flags: number
  readonly sequence: number
  readonly portId: number
  /** Payload: `bytes` from `start` up to `end`. */
  readonly start: number
  readonly end: number
}

type Mutable<T> = { -readonly [key in keyof T]: T[key] }

/**
 * Calls `visit` for each message of a datagram, in order, until it returns false. Throws
 * `netlink-malformed` at the first header that does not fit. Each call gets the same object.
 */
export function visitMessages(datagram: Uint8Array, visit: (message: ReceivedMessage) => boolean | void): void {
  const view = new DataView(datagram.buffer, datagram.byteOffset, datagram.byteLength)
  const message: Mutable<ReceivedMessage> = {
    bytes: datagram,
    view,
    type: 0,
    flags: 0,
    sequence: 0,
    portId: 0,
    start: 0,
    end: 0,
  }
  let at = 0
  while (at < datagram.length) {
    const left = datagram.length - at
    if (left < NLMSG_HDRLEN) throw netlinkError('netlink-malformed', `${left} bytes where a message header should be`)
    const length = view.getUint32(at, true)
    if (length < NLMSG_HDRLEN || length > left)
      throw netlinkError('netlink-malformed', `message of ${length} bytes where ${left} are left`)
    message.type = view.getUint16(at + 4, true)
    message.flags = view.getUint16(at + 6, true)
    message.sequence = view.getUint32(at + 8, true)
    message.portId = view.getUint32(at + 12, true)
    message.start = at + NLMSG_HDRLEN
    message.end = at + length
    at += (length + 3) & ~3
    if (visit(message) === false) return
  }
}

/** A result from the kernel: errno 0 is success (an ACK, the normal end of a dump). */
export interface KernelResult {
  /** Positive; 0 = success */
  readonly errno: number
  readonly extendedAck: ExtendedAck
}

const SUCCESS: KernelResult = { errno: 0, extendedAck: {} }

/** Reads NLMSG_ERROR (struct nlmsgerr). */
export function decodeError(message: ReceivedMessage): KernelResult {
  const { bytes, view, start, end, flags } = message
  if (end - start < 4 + NLMSG_HDRLEN) throw netlinkError('netlink-malformed', `NLMSG_ERROR of ${end - start} bytes`)
  const errno = -view.getInt32(start, true)
  if (errno < 0) throw netlinkError('netlink-malformed', `NLMSG_ERROR with the positive error ${-errno}`)
  if ((flags & NLM_F_ACK_TLVS) === 0) return errno === 0 ? SUCCESS : { errno, extendedAck: {} }
  // The kernel always echoes the request's header, and its payload unless the socket asked for NETLINK_CAP_ACK.
  const echoed = (flags & NLM_F_CAPPED) === 0 ? view.getUint32(start + 4, true) : NLMSG_HDRLEN
  if (echoed < NLMSG_HDRLEN || echoed > end - start - 4)
    throw netlinkError('netlink-malformed', `NLMSG_ERROR echoes ${echoed} bytes`)
  return { errno, extendedAck: decodeExtendedAck(bytes, start + 4 + ((echoed + 3) & ~3), end) }
}

/** Reads NLMSG_DONE, the end of a dump. Without payload it is success. */
export function decodeDone(message: ReceivedMessage): KernelResult {
  const { bytes, view, start, end, flags } = message
  if (end === start) return SUCCESS
  if (end - start < 4) throw netlinkError('netlink-malformed', `NLMSG_DONE of ${end - start} bytes`)
  // Errors are negative; some dumps end with a positive count, which is success.
  const errno = Math.max(0, -view.getInt32(start, true))
  if ((flags & NLM_F_ACK_TLVS) === 0) return errno === 0 ? SUCCESS : { errno, extendedAck: {} }
  return { errno, extendedAck: decodeExtendedAck(bytes, start + 4, end) }
}

function decodeExtendedAck(bytes: Uint8Array, start: number, end: number): ExtendedAck {
  if (start >= end) return {}
  const extendedAck: Mutable<ExtendedAck> = {}
  const attributes = new AttributeCursor(bytes, start, end)
  while (attributes.next()) {
    if (attributes.type === NLMSGERR_ATTR_MSG) extendedAck.text = attributes.string()
    else if (attributes.type === NLMSGERR_ATTR_OFFS) extendedAck.offset = attributes.u32()
    else if (attributes.type === NLMSGERR_ATTR_MISS_TYPE) extendedAck.missingType = attributes.u32()
  }
  return extendedAck
}
