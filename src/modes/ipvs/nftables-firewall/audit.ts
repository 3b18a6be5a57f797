/**
 * The audit of the private tables: it compares them with the mirror, because an announcement may
 * have been lost. The mirror may change meanwhile, so the reconciler reads every difference again
 * before it changes anything.
 */
import type { PrivateTables } from '../../../nftables/private-table.ts'
import { type NftItem, nftKey, type NftOperation } from '../../../nftables/types.ts'
import { Comparison } from '../../../sync/comparison.ts'
import type { TableSync } from '../../../sync/table-sync.ts'
import { newBudget } from '../../../values/event-loop.ts'
import type { AuditTools } from '../firewall.ts'

export interface TableAuditOptions extends AuditTools {
  /** On a connection that is used for nothing else. */
  readonly table: Pick<PrivateTables, 'kind' | 'visit'>
  readonly mirror: TableSync<NftItem, NftOperation>
  readonly signal: AbortSignal
}

/** One round over everything. Rejects when the kernel cannot be read, or when aborted. */
export async function auditTables({ table, mirror, share, onDoubt, signal }: TableAuditOptions): Promise<void> {
  if (!mirror.isKnown) return
  const budget = newBudget()
  const comparison = new Comparison<NftItem>(mirror, { isSame: (live, listed) => table.kind.equal(live, listed) })
  await table.visit((item) => comparison.compare(nftKey(item), item), { signal, budget })
  if (comparison.end()) onDoubt()
  await share.rest(budget, signal)
}
