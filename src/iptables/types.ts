/**
 * Chains, jumps and what is done to them, as values, and what the tables need of the programs that do it.
 * What could break: rules are text as iptables-save prints them after `-A CHAIN `; compare them with `sameRule`, because
 * versions of iptables spell one rule differently.
 */
import { CodedError } from '../values/errors.ts'
import type { IpFamily } from '../values/protocol.ts'

/** The tables of iptables that we write into; `mangle` only in iptables mode. */
export type TableId = 'nat' | 'filter' | 'mangle'

/** A match that a kernel may lack and without which only its own rules are left out. */
export const OPTIONAL_MATCHES = ['ipvs', 'physdev', 'nfacct'] as const
export type OptionalMatch = (typeof OPTIONAL_MATCHES)[number]

/** A chain of ours with all its rules, in order: wholly ours. */
export interface Chain {
  readonly kind: 'chain'
  readonly table: TableId
  readonly chain: string
  readonly rules: readonly string[]
}

/** A rule in a built-in chain that leads into one of ours. Where it stands does not matter. */
export interface Jump {
  readonly kind: 'jump'
  readonly table: TableId
  /** The built-in chain that holds it: INPUT, POSTROUTING … */
  readonly chain: string
  readonly rule: string
  /** How often it is there, from 1. More than once is left alone. */
  readonly copies: number
}

export type IptablesItem = Chain | Jump

export type IptablesOperation =
  /** Makes the chain if need be and replaces its rules. `before`: the rules it had, undefined when it was not there. */
  | {
      readonly kind: 'write-chain'
      readonly table: TableId
      readonly chain: string
      readonly before: readonly string[] | undefined
      readonly rules: readonly string[]
    }
  | { readonly kind: 'delete-chain'; readonly table: TableId; readonly chain: string }
  /** Puts the jump in front of all rules of its chain. */
  | { readonly kind: 'insert-jump'; readonly table: TableId; readonly chain: string; readonly rule: string }
  | {
      readonly kind: 'delete-jump'
      readonly table: TableId
      readonly chain: string
      readonly rule: string
      readonly copies: number
    }

/** How iptables-restore ended. */
export interface RestoreResult {
  readonly exitCode: number
  /** What it wrote to its standard error. */
  readonly errorText: string
}

/** iptables-save and iptables-restore of the back end that the node uses. One process a call, ended at a deadline. */
export interface IptablesPrograms {
  /** The rules of a family as text. Rejects with a CodedError when they cannot be had. */
  save(family: IpFamily, signal: AbortSignal): Promise<string>
  /** Runs `iptables-restore --noflush`. Rejects with a CodedError when it did not run to its end by itself. */
  restore(family: IpFamily, input: string, signal: AbortSignal): Promise<RestoreResult>
}

/** Codes are stable; composition acts on `iptables-match-missing` alone. */
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
