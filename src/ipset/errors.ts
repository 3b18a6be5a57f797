/**
 * What the kernel refuses, by the names of its header, with the entry or set it is about.
 * What could break: codes from 4352 on are named by the kind of set: 4352 is "full" for a hash, "out of range" for a
 * bitmap.
 */
import { KernelError } from '../netlink/errors.ts'
import { asError, CodedError } from '../values/errors.ts'
import { BITMAP_ERRORS, HASH_ERRORS, IPSET_ERRORS } from './codec-constants.ts'

/** Codes made here, beside those of the kernel (`ENOENT`, `IPSET_ERR_BUSY` …). Stable. */
export type IpsetErrorCode =
  /** The kernel has no ipset, or speaks another version of its protocol. */
  | 'ipset-missing'
  | 'ipset-protocol'
  /** A set of our name has another type or family and a rule refers to it, so that it can be neither swapped nor destroyed. */
  | 'ipset-type-in-use'
  /** An entry for a set that is no such set now. */
  | 'ipset-wrong-type'
  /** An entry's text that is none of its set's type. */
  | 'ipset-entry-invalid'

export function ipsetError(code: IpsetErrorCode, message: string, options?: ErrorOptions): CodedError {
  return new CodedError(code, message, options)
}

/** Private codes in words, where the name alone does not say what to do. */
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
 * The kernel's refusal under its own name. `about`: the command as an operator would type it. Anything that is not a
 * KernelError (closed, timed out) stays as it is.
 */
export function named(cause: unknown, about: string, kind: 'hash' | 'bitmap' = 'hash'): Error {
  if (!(cause instanceof KernelError)) return asError(cause)
  const specific = kind === 'hash' ? HASH_ERRORS : BITMAP_ERRORS
  const code = IPSET_ERRORS[cause.errno] ?? specific[cause.errno] ?? cause.code
  const explanation = EXPLANATIONS[code]
  return new CodedError(code, `${about}: ${code}${explanation === undefined ? '' : ` (${explanation})`}`, { cause })
}

/** Code of an error, '' for one without. */
export function codeOf(error: unknown): string {
  return error instanceof CodedError ? error.code : ''
}
