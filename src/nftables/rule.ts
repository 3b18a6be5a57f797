/** Rules and chains of nf_tables, and changes of them, as values. */
import type { IpFamily } from '../values/protocol.ts'
import type { NftRuleContent } from './expressions.ts'

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

export type NftChangeKind = 'table-deleted' | 'chain-added' | 'chain-deleted' | 'rule-added' | 'rule-deleted'

/** One change of nf_tables. */
export interface NftChange {
  readonly kind: NftChangeKind
  readonly family: IpFamily
  readonly table: string
  /** '' for the whole table. */
  readonly chain: string
  /** Port id of the socket that made the change (nlmsg_pid). */
  readonly portId: number
}
