/**
 * Writes a private table from the start, in one transaction: when a set is replaced to which rules
 * refer, a chain that is now called elsewhere, or a table that now belongs to a socket, the kernel
 * takes it only together with all that refers to it. No packet sees the table without its content.
 * @impure
 */
import { encodeBatchBegin, encodeBatchEnd, NFNL_SUBSYS } from '../netlink/nfnetlink-codec.ts'
import { CodedError } from '../values/errors.ts'
import type { IpFamily } from '../values/protocol.ts'
import { PrivateLists } from './private-lists.ts'
import { PrivateTableReader } from './reader.ts'
import { encodeDeletePrivateTable } from './table-codec.ts'
import { groupsOf, SetIds } from './transaction-plan.ts'
import type { RunOptions } from './transaction-run.ts'
import { type NftItem, nftKey, type NftOperation } from './types.ts'

/**
 * Writes the table again if a replacement of something that others refer to was refused, and marks
 * those operations as done. Everything else in the table is written as it was read.
 * @param outcomes of `ops`; changed in place
 * @returns whether the table was written
 */
export async function rebuildTable(
  run: RunOptions,
  family: IpFamily,
  owner: number,
  ops: readonly NftOperation[],
  outcomes: (Error | undefined)[],
): Promise<boolean> {
  const refused = [...ops.entries()].filter(
    ([index, { kind, item }]) => item.family === family && kind === 'replace' && isInTheWay(item, outcomes[index]),
  )
  if (refused.length === 0) return false
  try {
    const items = new Map<string, NftItem>()
    const reader = new PrivateTableReader(run.netlink, { signal: run.signal })
    for await (const list of new PrivateLists(reader, family, owner).all())
      for (const item of list) items.set(nftKey(item), writable(item))
    for (const [, { item }] of refused) items.set(nftKey(item), item)
    if (!(await isWritten(run, family, [...items.values()]))) return false
    for (const [index] of refused) outcomes[index] = undefined
    return true
  } catch {
    // The first refusals say more than that the table could not be read or written either.
    run.signal.throwIfAborted()
    return false
  }
}

/** Whether the kernel refused a replacement because of what is there. */
function isInTheWay(item: NftItem, outcome: Error | undefined): boolean {
  const code = outcome instanceof CodedError ? outcome.code : ''
  if (item.kind === 'table') return code === 'EOPNOTSUPP' || code === 'EINVAL'
  return (
    item.kind !== 'element' && (code === 'EBUSY' || code === 'EEXIST' || code === 'EINVAL' || code === 'EOPNOTSUPP')
  )
}

/** What this program never writes is left out; the next pass sees that it is gone. */
function writable(item: NftItem): NftItem {
  if (item.kind !== 'chain') return item
  const rules = item.rules.filter(({ statements }) => statements.every(({ kind }) => kind !== 'foreign'))
  return { ...item, rules }
}

async function isWritten(
  { netlink, batch }: RunOptions,
  family: IpFamily,
  items: readonly NftItem[],
): Promise<boolean> {
  const added = items.filter((item) => !('isForeign' in item) || item.kind === 'table')
  try {
    encodeBatchBegin(batch, NFNL_SUBSYS.NFTABLES)
    encodeDeletePrivateTable(batch, family)
    const ids = new SetIds()
    for (const { parts } of groupsOf(added.map((item) => ({ kind: 'add', item }))))
      for (const part of parts) part.encode(batch, ids)
    encodeBatchEnd(batch, NFNL_SUBSYS.NFTABLES)
    const outcomes = await netlink.transact(batch, { isTransaction: true })
    return outcomes.every((outcome) => outcome === undefined)
  } finally {
    batch.reset()
  }
}
