/**
 * The private tables in the kernel: the io of NFT_TABLE. Everything in a table of the private name is
 * listed, also what other programs have put there, so that a pass deletes what nobody wants.
 * @impure
 */
import { MessageBatch } from '../netlink/batch.ts'
import type { NetlinkConnection } from '../netlink/connection.ts'
import type { TableIo } from '../sync/table.ts'
import type { Budget } from '../values/budget.ts'
import { newBudget } from '../values/event-loop.ts'
import { CodedError } from '../values/errors.ts'
import type { IpFamily } from '../values/protocol.ts'
import { NFT_TABLE } from './kind.ts'
import { PrivateLists } from './private-lists.ts'
import { PrivateTableReader } from './reader.ts'
import { namedReadError, ownedByOther } from './refusals.ts'
import { rebuildTable } from './rebuild.ts'
import { type RunOptions, TransactionRun } from './transaction-run.ts'
import { type NftItem, nftKey, type NftOperation } from './types.ts'

export interface PrivateTableOptions {
  /** Tables of these families. */
  readonly families: readonly IpFamily[]
  /**
   * The port id of the socket whose tables count as owned. Default: that of the connection. A command
   * that only looks gives that of the daemon.
   */
  readonly owner?: number
}

export class PrivateTables implements TableIo<NftItem, NftOperation> {
  readonly kind = NFT_TABLE
  readonly #netlink: NetlinkConnection
  readonly #families: readonly IpFamily[]
  readonly #owner: number
  /** Undefined while a call of `apply` uses it. */
  #batch: MessageBatch | undefined

  /** @param netlink of NETLINK_NETFILTER; owned tables live as long as it */
  constructor(netlink: NetlinkConnection, options: PrivateTableOptions) {
    this.#netlink = netlink
    this.#families = options.families
    this.#owner = options.owner ?? netlink.portId
  }

  async list(keys: readonly string[] | 'all', signal: AbortSignal): Promise<Map<string, NftItem>> {
    const found = new Map<string, NftItem>()
    await this.#read(keys, (item) => void found.set(nftKey(item), item), { signal, budget: newBudget() })
    return found
  }

  /**
   * Calls `visit` for everything in the tables, without a map of all of it: an audit compares it
   * elsewhere. The budget is that of the caller, who may rest in between.
   */
  async visit(visit: (item: NftItem) => void, options: VisitOptions): Promise<void> {
    await this.#read('all', visit, options)
  }

  /** Rejects with `nftables-missing` where the kernel has no nf_tables, or none for a family. */
  async #read(keys: readonly string[] | 'all', visit: (item: NftItem) => void, options: VisitOptions): Promise<void> {
    for (const family of this.#families) {
      const lists = new PrivateLists(new PrivateTableReader(this.#netlink, options), family, this.#owner)
      try {
        for await (const list of keys === 'all' ? lists.all() : lists.of(keys))
          for (const item of list) {
            visit(item)
            if (options.budget !== undefined && isSpent(options.budget, item)) await options.budget.turn()
          }
      } catch (error) {
        throw namedReadError(error, family)
      }
    }
  }

  /**
   * One outcome for each operation; they run in the order that the kernel needs. Where a replacement
   * is refused because of what refers to the item, the table is written from the start.
   */
  async apply(ops: readonly NftOperation[], signal: AbortSignal): Promise<readonly (Error | undefined)[]> {
    const batch = this.#batch ?? new MessageBatch(64 << 10)
    this.#batch = undefined
    try {
      return await this.#apply(ops, { netlink: this.#netlink, batch, signal })
    } finally {
      this.#batch = batch
    }
  }

  async #apply(ops: readonly NftOperation[], run: RunOptions): Promise<readonly (Error | undefined)[]> {
    const outcomes = await new TransactionRun(run, ops).outcomes()
    if (outcomes.every((outcome) => outcome === undefined)) return outcomes
    const repaired = [...outcomes]
    for (const family of this.#families) {
      const isOfFamily = ops.map(({ item }) => item.family === family)
      const has = (code: string): boolean =>
        outcomes.some((error, index) => isOfFamily[index] && codeOf(error) === code)
      if (has('EPERM')) await this.#blameOwner(family, ops, repaired, run.signal)
      else if (await rebuildTable(run, family, this.#owner, ops, repaired)) await again(run, family, ops, repaired)
    }
    return repaired
  }

  /** A table of another socket refuses everything with EPERM. */
  async #blameOwner(
    family: IpFamily,
    ops: readonly NftOperation[],
    outcomes: (Error | undefined)[],
    signal: AbortSignal,
  ): Promise<void> {
    const owner = await ownerOf(this.#netlink, family, signal)
    if (owner === undefined || owner === this.#netlink.portId) return
    const error = ownedByOther(family, owner)
    for (const [index, { item }] of ops.entries())
      if (item.family === family && codeOf(outcomes[index]) === 'EPERM') outcomes[index] = error
  }
}

/** A chain may have thousands of networks, anything else is one step. */
function isSpent(budget: Budget, { kind }: NftItem): boolean {
  return kind === 'chain' ? budget.spent() : budget.spentBySteps()
}

/** Runs what was refused beside what is there now. */
async function again(
  run: RunOptions,
  family: IpFamily,
  ops: readonly NftOperation[],
  outcomes: (Error | undefined)[],
): Promise<void> {
  const refused = [...ops.entries()].filter(
    ([index, { item }]) => outcomes[index] !== undefined && item.family === family,
  )
  const results = await new TransactionRun(
    run,
    refused.map(([, op]) => op),
  ).outcomes()
  for (const [place, [index]] of refused.entries()) outcomes[index] = results[place]
}

export interface VisitOptions {
  readonly signal: AbortSignal
  readonly budget?: Budget
}

/** The port id of the socket that the private table belongs to; undefined when it belongs to none, or cannot be read. */
async function ownerOf(netlink: NetlinkConnection, family: IpFamily, signal: AbortSignal): Promise<number | undefined> {
  try {
    return (await new PrivateTableReader(netlink, { signal }).table(family))?.owner
  } catch {
    signal.throwIfAborted()
    return undefined
  }
}

function codeOf(error: Error | undefined): string {
  return error instanceof CodedError ? error.code : ''
}
