/**
 * Refusals of the kernel under the names of its header, with the entry or set in question. The
 * meaning of codes from 4352 depends on the kind of set: 4352 is "full" for a hash, "out of range"
 * for a bitmap.
 */
import { KernelError } from '../netlink/errors.ts'
import { asError, CodedError } from '../values/errors.ts'
import { ownMember } from '../values/own-member.ts'

/** Our own codes, in addition to the kernel's (`ENOENT`, `IPSET_ERR_BUSY` …). Stable. */
export type IpsetErrorCode =
  /** The kernel has no ipset, or has another version of its protocol. */
  | 'ipset-missing'
  | 'ipset-protocol'
  /**
   * A set of our name has another type or family and a rule refers to it, so that it can be neither
   * swapped nor destroyed.
   */
  | 'ipset-type-in-use'
  /** The set of an entry is missing or has another type. */
  | 'ipset-wrong-type'
  /** The text is no entry of the set's type. */
  | 'ipset-entry-invalid'

export function ipsetError(code: IpsetErrorCode, message: string, options?: ErrorOptions): CodedError {
  return new CodedError(code, message, options)
}

/** Explanations of codes whose name alone is not clear. */
const EXPLANATIONS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such set',
  IPSET_ERR_BUSY: 'the set is in use by a rule or another set',
  IPSET_ERR_REFERENCED: 'the set is in use by a rule or another set',
  IPSET_ERR_FIND_TYPE: 'the kernel does not have this type of set',
  IPSET_ERR_TYPE_MISMATCH: 'the two sets have different types',
  IPSET_ERR_HASH_FULL: 'the set is full',
  EEXIST: 'there is a set of this name with other parameters',
}

/**
 * The kernel's refusal under its name in ip_set.h. `about`: the command as an operator would type
 * it. Any error that is no KernelError (closed, timed out) is returned unchanged.
 */
export function named(cause: unknown, about: string, kind: 'hash' | 'bitmap' = 'hash'): Error {
  if (!(cause instanceof KernelError)) return asError(cause)
  const specific = kind === 'hash' ? HASH_ERRORS : BITMAP_ERRORS
  const code = IPSET_ERRORS[cause.errno] ?? specific[cause.errno] ?? cause.code
  const explanation = ownMember(EXPLANATIONS, code)
  return new CodedError(code, `${about}: ${code}${explanation === undefined ? '' : ` (${explanation})`}`, { cause })
}

/** Code of an error, '' for one without. */
export function codeOf(error: unknown): string {
  return error instanceof CodedError ? error.code : ''
}

/** enum ipset_errno: private errors, beyond those of errno.h. */
const IPSET_ERRORS: Readonly<Record<number, string>> = {
  4097: 'IPSET_ERR_PROTOCOL',
  4098: 'IPSET_ERR_FIND_TYPE',
  4099: 'IPSET_ERR_MAX_SETS',
  4100: 'IPSET_ERR_BUSY',
  4101: 'IPSET_ERR_EXIST_SETNAME2',
  4102: 'IPSET_ERR_TYPE_MISMATCH',
  4103: 'IPSET_ERR_EXIST',
  4104: 'IPSET_ERR_INVALID_CIDR',
  4105: 'IPSET_ERR_INVALID_NETMASK',
  4106: 'IPSET_ERR_INVALID_FAMILY',
  4107: 'IPSET_ERR_TIMEOUT',
  4108: 'IPSET_ERR_REFERENCED',
  4109: 'IPSET_ERR_IPADDR_IPV4',
  4110: 'IPSET_ERR_IPADDR_IPV6',
  4111: 'IPSET_ERR_COUNTER',
  4112: 'IPSET_ERR_COMMENT',
  4113: 'IPSET_ERR_INVALID_MARKMASK',
  4114: 'IPSET_ERR_SKBINFO',
  4115: 'IPSET_ERR_BITMASK_NETMASK_EXCL',
}

/** Errors from IPSET_ERR_TYPE_SPECIFIC depend on the kind of set. */
const HASH_ERRORS: Readonly<Record<number, string>> = {
  4352: 'IPSET_ERR_HASH_FULL',
  4353: 'IPSET_ERR_HASH_ELEM',
  4354: 'IPSET_ERR_INVALID_PROTO',
  4355: 'IPSET_ERR_MISSING_PROTO',
  4356: 'IPSET_ERR_HASH_RANGE_UNSUPPORTED',
  4357: 'IPSET_ERR_HASH_RANGE',
}
const BITMAP_ERRORS: Readonly<Record<number, string>> = {
  4352: 'IPSET_ERR_BITMAP_RANGE',
  4353: 'IPSET_ERR_BITMAP_RANGE_SIZE',
}
