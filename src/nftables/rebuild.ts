/**
 * Writes a private table from the start, in one transaction: when a set is replaced to which rules
 * refer, a chain that is now called elsewhere, or a table that now belongs to a socket, the kernel
 * takes it only together with all that refers to it. No packet sees the table without its content.
 * @impure
 */
import { encodeBatchBegin, encodeBatchEnd, NFNL_SUBSYS } from '../netlink/nfnetlink-codec.ts'
import { CodedError } from '../values/errors.ts'
import { newBudget } from '../values/event-loop.ts'
import type { IpFamily } from '../values/protocol.ts'
import { PrivateLists } from './private-lists.ts'
import { PrivateTableReader } from './reader.ts'
import { encodeDeletePrivateTable } from './table-codec.ts'
import { groupsOf, SetIds } from './transaction-plan.ts'
import type { RunOptions } from './transaction-run.ts'
import { type NftElement, type NftItem, nftKey, type NftOperation } from './types.ts'

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
  // Old elements of a set with another type do not fit it; those that are wanted are written with it.
  const sets = new Set(refused.map(([, { item }]) => nftKey(item)))
  const elements = [...ops.entries()].filter(
    ([index, { item }]) => outcomes[index] !== undefined && item.kind === 'element' && sets.has(keyOfSet(item)),
  )
  try {
    const budget = newBudget()
    const items = new Map<string, NftItem>()
    const reader = new PrivateTableReader(run.netlink, { signal: run.signal, budget })
    for await (const list of new PrivateLists(reader, family, owner).all())
      for (const item of list) {
        if (item.kind !== 'element' || !sets.has(keyOfSet(item))) items.set(nftKey(item), writable(item))
        if (budget.spentBySteps()) await budget.turn()
      }
    for (const [, { item }] of refused) items.set(nftKey(item), item)
    const added = elements.filter(([, { kind }]) => kind !== 'delete')
    const isWhole = await isWritten(run, family, [...items.values(), ...added.map(([, { item }]) => item)])
    // One of them may be what the kernel refuses.
    if (!isWhole && (added.length === 0 || !(await isWritten(run, family, [...items.values()])))) return false
    for (const [index] of refused) outcomes[index] = undefined
    for (const [index, { kind }] of elements) if (isWhole || kind === 'delete') outcomes[index] = undefined
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

/** The key of the set of an element. */
function keyOfSet({ family, set: name }: NftElement): string {
  return nftKey({ kind: 'set', family, name, fields: [], isMap: false })
}

/** What this program never writes is left out; the next pass sees that it is gone. */
function writable(item: NftItem): NftItem {
  if (item.kind !== 'chain') return item
  const rules = item.rules.filter(({ statements }) => statements.every(({ kind }) => kind !== 'foreign'))
  return { ...item, rules }
}

async function isWritten(
  { netlink, batch, signal }: RunOptions,
  family: IpFamily,
  items: readonly NftItem[],
): Promise<boolean> {
  const added = items.filter((item) => !('isForeign' in item) || item.kind === 'table')
  const budget = newBudget()
  try {
    encodeBatchBegin(batch, NFNL_SUBSYS.NFTABLES)
    encodeDeletePrivateTable(batch, family)
    const ids = new SetIds()
    for (const { parts } of groupsOf(added.map((item) => ({ kind: 'add', item }))))
      for (const part of parts) {
        part.encode(batch, ids)
        if (!budget.spent()) continue
        await budget.turn()
        signal.throwIfAborted()
      }
    encodeBatchEnd(batch, NFNL_SUBSYS.NFTABLES)
    const outcomes = await netlink.transact(batch, { isTransaction: true })
    return outcomes.every((outcome) => outcome === undefined)
  } finally {
    batch.reset()
  }
}
