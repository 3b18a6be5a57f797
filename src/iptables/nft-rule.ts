/** Rules and chains of nf_tables in the tables of iptables, as values. */
import type { IpFamily } from '../values/protocol.ts'
import type { NftRuleContent } from './nft-expressions.ts'

/** Where a rule is. */
export interface NftPlace {
  readonly table: string
  readonly chain: string
  /** Number of the rule in its table, never used again. */
  readonly handle: bigint
}

export interface NftRule extends NftPlace, NftRuleContent {}

/** A chain of a table of iptables. */
export interface NftChain {
  readonly name: string
  /** Whether the kernel calls it at a hook. */
  readonly isBase: boolean
  /** Of a base chain; other chains have `accept`. */
  readonly policy: 'accept' | 'drop'
}

/** Which rules to read: of a table, or of one of its chains. */
export interface NftRuleQuery {
  readonly family: IpFamily
  readonly table: string
  readonly chain?: string
}
