/**
 * Which changes of nf_tables may have touched our rules. iptables-nft keeps its rules in tables of
 * the families ip and ip6; a table of the family inet with the same name is another table.
 */
import type { NftChange } from '../nftables/rule.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { ChainLayout } from './layout.ts'
import type { TableId } from './types.ts'

/** Whether a rule that is added to this chain of others may take packets before our rules do. */
export type WatchesAdditions = (family: IpFamily, table: TableId, chain: string) => boolean

/**
 * Whether a change may have touched our rules: any change in our chains; in a built-in chain with a
 * jump of ours a deletion, and an addition only where the place of the jump matters. It decides how
 * often iptables-save runs on a node where other programs change their own rules all day.
 */
export function concernsUs(
  { kind, table: name, chain, family }: NftChange,
  layout: ChainLayout,
  watches: WatchesAdditions = () => false,
): boolean {
  const table = layout.tables.find((one) => one === name)
  if (table === undefined) return false
  if (kind === 'table-deleted' || layout.owns(table, chain)) return true
  if (kind === 'rule-added') return watches(family, table, chain)
  const takesAway = kind === 'rule-deleted' || kind === 'chain-deleted'
  return takesAway && layout.jumps.some((jump) => jump.table === table && jump.from === chain)
}
