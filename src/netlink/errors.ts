/**
 * Errors of the netlink layer: what the kernel refused (KernelError) and what went wrong on the way
 * (CodedError). `code` of a KernelError is the symbolic errno (`ESRCH`); callers decide by it,
 * never by the text.
 */
import { constants } from 'node:os'
import { CodedError } from '../values/errors.ts'

/** Codes of the CodedErrors that netlink code throws, besides KernelError. Stable. */
export type NetlinkErrorCode =
  /** A reply that breaks netlink's rules, or lacks a required field. */
  | 'netlink-malformed'
  /** A datagram was longer than the receive buffer and its rest is lost. */
  | 'netlink-truncated'
  /** The socket's receive queue overflowed (ENOBUFS): replies or notifications are lost, outcomes unknown. */
  | 'netlink-overrun'
  /** No (complete) answer within the deadline. */
  | 'netlink-timeout'
  /** The kernel's table kept changing while it was dumped. */
  | 'netlink-dump-interrupted'
  /** The connection was closed while or before the call ran. */
  | 'netlink-closed'
  /** A value that cannot be put into a message: too large, too many, out of range. */
  | 'netlink-unencodable'
  /** No generic netlink family of that name: the module is not loaded. */
  | 'genl-family-missing'
  /** koffi or the C library cannot be used on this machine. */
  | 'native-unavailable'

/** A CodedError of this layer; the type prevents misspelt codes. */
export function netlinkError(code: NetlinkErrorCode, message: string, options?: ErrorOptions): CodedError {
  return new CodedError(code, message, options)
}

/** ENOTSUPP of linux/errno.h: kernel-internal, but some netlink families return it. */
const ENOTSUPP = 524

let names: Map<number, string> | undefined

/** Symbolic name of a positive errno: `ENOENT`; `errno-4103` for one that errno.h does not know. */
function errnoName(errno: number): string {
  if (names === undefined) {
    // Some numbers have two names: the kernel's name is used.
    names = new Map([
      [constants.errno.EAGAIN, 'EAGAIN'],
      [constants.errno.EOPNOTSUPP, 'EOPNOTSUPP'],
      [ENOTSUPP, 'ENOTSUPP'],
    ])
    for (const [name, value] of Object.entries(constants.errno)) if (!names.has(value)) names.set(value, name)
  }
  return names.get(errno) ?? `errno-${errno}`
}

/** An extended ACK (NLMSGERR_ATTR_* of linux/netlink.h). */
export interface ExtendedAck {
  /** NLMSGERR_ATTR_MSG; absent when the kernel gave no text */
  readonly text?: string
  /** NLMSGERR_ATTR_OFFS: offset of the offending attribute in the request message, in bytes from its header */
  readonly offset?: number
  /** NLMSGERR_ATTR_MISS_TYPE: attribute type that the request lacks */
  readonly missingType?: number
}

/** A refusal of the kernel: an NLMSG_ERROR reply or a failed system call. `code` is the errno's name. */
export class KernelError extends CodedError {
  /** Positive errno (2 for ENOENT). Private codes of some families are above 4096. */
  readonly errno: number
  /** The refused operation: the command's name in the kernel headers, or the system call. */
  readonly operation: string
  readonly extendedAck: ExtendedAck

  constructor(errno: number, operation: string, extendedAck: ExtendedAck = {}) {
    const name = errnoName(errno)
    super(name, `${operation}: ${name}${extendedAck.text === undefined ? '' : ` (${extendedAck.text})`}`)
    this.errno = errno
    this.operation = operation
    this.extendedAck = extendedAck
  }
}

/** Errors of a receive after which the socket still works but something was lost. */
export function isLoss(error: unknown): error is CodedError {
  return (
    error instanceof CodedError &&
    (error.code === 'ENOBUFS' || error.code === 'netlink-truncated' || error.code === 'netlink-malformed')
  )
}
