/**
 * Chains, jumps and the operations on them as values, their errors, and the interface of the
 * programs that read and write them. Rules are text as iptables-save prints them after `-A CHAIN `;
 * versions of iptables spell one rule differently, so they are compared with `sameRule`.
 */
import { CodedError, MissingFeature } from '../values/errors.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { NftChain, NftPlace, NftRule, NftRuleQuery } from '../nftables/rule.ts'

/** A rule in front of our jump. */
export interface RivalRule {
  /** As the chain has it, without `-A CHAIN `. */
  readonly rule: string
  /** What takes packets: this rule or those that it leads to, `-A CHAIN …`; a few of them. */
  readonly takes: readonly string[]
}

/** The tables of iptables that we write; `mangle` only in iptables mode. */
export type TableId = 'nat' | 'filter' | 'mangle'

/** A match that a kernel may lack and without which only its own rules are left out. */
export const OPTIONAL_MATCHES = ['ipvs', 'physdev', 'nfacct'] as const
export type OptionalMatch = (typeof OPTIONAL_MATCHES)[number]

/** One of our chains with all its rules, in order. All its rules are ours. */
export interface Chain {
  readonly kind: 'chain'
  readonly table: TableId
  readonly chain: string
  readonly rules: readonly string[]
}

/** A rule in a built-in chain that jumps to one of ours. */
export interface Jump {
  readonly kind: 'jump'
  readonly table: TableId
  /** The built-in chain that holds it: INPUT, POSTROUTING … */
  readonly chain: string
  readonly rule: string
  /** How often the chain has it, from 1. Copies are left as they are. */
  readonly copies: number
  /**
   * The rule in front of it that takes packets of Services. Absent: there is none, or the place of
   * this jump does not matter.
   */
  readonly behind?: RivalRule
}

export type IptablesItem = Chain | Jump

export type IptablesOperation =
  /**
   * Adds the chain where it is missing and replaces its rules. `before`: the rules it had,
   * undefined when it did not exist.
   */
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
  /**
   * Puts a jump that is there in front of all rules of its chain, by one transaction. `behind`:
   * what stood in front of it.
   */
  | {
      readonly kind: 'move-jump'
      readonly table: TableId
      readonly chain: string
      readonly rule: string
      readonly copies: number
      readonly behind: RivalRule
    }
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
  /** The rules of a family as text. Rejects with a CodedError when they cannot be read. */
  save(family: IpFamily, signal: AbortSignal): Promise<string>
  /** Runs `iptables-restore --noflush`. Rejects with a CodedError when it was killed or could not run. */
  restore(family: IpFamily, input: string, signal: AbortSignal): Promise<RestoreResult>
}

/**
 * Other ways to the tables of iptables-nft, for those that its programs cannot print as a whole:
 * chain by chain, and over nfnetlink.
 */
export interface NftAccess {
  /** As `save`, for one table. */
  saveTable(family: IpFamily, table: string, signal: AbortSignal): Promise<string>
  /**
   * What `-S CHAIN` prints for some chains of a table. Rejects with a CodedError when one of them
   * cannot be printed.
   */
  showChains(family: IpFamily, table: string, chains: readonly string[], signal: AbortSignal): Promise<string>
  chains(family: IpFamily, table: string, signal: AbortSignal): Promise<readonly NftChain[]>
  rules(query: NftRuleQuery, signal: AbortSignal): Promise<readonly NftRule[]>
  /**
   * All rules of a table, in the order of each chain; begins again, after `onRestart`, when the
   * table changes meanwhile.
   */
  visitRules(
    query: NftRuleQuery,
    visit: (rule: NftRule) => void,
    onRestart: () => void,
    signal: AbortSignal,
  ): Promise<void>
  /** Rejects with the kernel's refusal; a rule that is gone already counts as deleted. */
  deleteRules(family: IpFamily, rules: readonly NftPlace[], signal: AbortSignal): Promise<void>
}

/** Codes are stable; composition acts on a missing feature alone. */
export type IptablesErrorCode =
  /** iptables-restore refused something; the message has the rule and the reason. */
  | 'iptables-restore-failed'
  /** It failed and named no line, so that this may be the fault of other rules in the table. */
  | 'iptables-unnamed-failure'
  /** The operation was not tried, because too many others had failed before. */
  | 'iptables-not-tried'
  /** Another program held /run/xtables.lock for too long. */
  | 'iptables-locked'
  /** A rule contains a control character, which could end its line; it was not tried. */
  | 'iptables-unprintable'
  /** Another program's rule jumps to the chain, so it was emptied and not deleted. */
  | 'iptables-chain-in-use'

export function iptablesError(code: IptablesErrorCode, message: string, options?: ErrorOptions): CodedError {
  return new CodedError(code, message, options)
}

/** The chain was written without the rules that need a match which this kernel does not offer. */
export function missingMatch(match: OptionalMatch, message: string): MissingFeature {
  return new MissingFeature('iptables-match-missing', match, `module xt_${match}`, message)
}
