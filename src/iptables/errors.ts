/** Errors of this folder. Codes are stable; composition acts on `iptables-match-missing` alone. */
import { CodedError } from '../values/errors.ts'
import type { OptionalMatch } from './types.ts'

export type IptablesErrorCode =
  /** iptables-restore refused something; the message has the rule and the reason. */
  | 'iptables-restore-failed'
  /** Nobody refused it: it was not tried because too much else failed before. */
  | 'iptables-not-tried'
  /** Somebody held /run/xtables.lock for too long. */
  | 'iptables-locked'
  /** A rule would hold a control character, which could end its line; it was not tried. */
  | 'iptables-unprintable'
  /** Another program's rule leads into the chain, so it was emptied and is still there. */
  | 'iptables-chain-in-use'

export function iptablesError(code: IptablesErrorCode, message: string, options?: ErrorOptions): CodedError {
  return new CodedError(code, message, options)
}

/** The chain was written without the rules that need a match which this kernel does not offer. */
export class MissingMatchError extends CodedError {
  readonly match: OptionalMatch

  constructor(match: OptionalMatch, message: string) {
    super('iptables-match-missing', message)
    this.match = match
  }
}
