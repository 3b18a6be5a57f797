/**
 * The private tables in the kernel: the io of NFT_TABLE. Everything in a table of the private name is
 * listed, also what other programs have put there, so that a pass deletes what nobody wants.
 * @impure
 */
import { MessageBatch } from '../netlink/batch.ts'
import type { NetlinkConnection } from '../netlink/connection.ts'
import { KernelError } from '../netlink/errors.ts'
import type { TableIo } from '../sync/table.ts'
import type { IpFamily } from '../values/protocol.ts'
import { NFT_TABLE } from './kind.ts'
import { PrivateTableReader } from './reader.ts'
import { missingNfTables } from './refusals.ts'
import { TransactionRun } from './transaction-run.ts'
import { NFT_FAMILY, type NftItem, nftKey, type NftOperation } from './types.ts'

export interface PrivateTableOptions {
  /** Tables of these families. */
  readonly families: readonly IpFamily[]
  /**
   * The port id of the socket whose tables count as owned. Default: that of the connection. A command
   * that only looks gives that of the daemon.
   */
  readonly owner?: number
}

/** More elements of one set are read as a whole. */
const MAX_SINGLE_READS = 64

export class PrivateTables implements TableIo<NftItem, NftOperation> {
  readonly kind = NFT_TABLE
  readonly #netlink: NetlinkConnection
  readonly #families: readonly IpFamily[]
  readonly #owner: number
  readonly #batch = new MessageBatch(64 << 10)

  /** @param netlink of NETLINK_NETFILTER; owned tables live as long as it */
  constructor(netlink: NetlinkConnection, options: PrivateTableOptions) {
    this.#netlink = netlink
    this.#families = options.families
    this.#owner = options.owner ?? netlink.portId
  }

  async list(keys: readonly string[] | 'all', signal: AbortSignal): Promise<Map<string, NftItem>> {
    const found = new Map<string, NftItem>()
    try {
      for (const family of this.#families) {
        const reader = new PrivateTableReader(this.#netlink, signal)
        const items = keys === 'all' ? this.#all(reader, family) : this.#some(reader, family, keys)
        for await (const list of items) for (const item of list) found.set(nftKey(item), item)
      }
    } catch (error) {
      // nfnetlink has no such subsystem.
      if (error instanceof KernelError && error.code === 'EINVAL') throw missingNfTables()
      throw error
    }
    return found
  }

  /** One outcome for each operation; they run in the order that the kernel needs. */
  apply(ops: readonly NftOperation[], signal: AbortSignal): Promise<readonly (Error | undefined)[]> {
    return new TransactionRun(this.#netlink, this.#batch, ops, signal).outcomes()
  }

  async *#table(reader: PrivateTableReader, family: IpFamily): AsyncGenerator<readonly NftItem[]> {
    const table = await reader.table(family)
    if (table === undefined) return
    const item = { kind: 'table', family, isOwned: table.owner === this.#owner } as const
    yield [table.isDormant ? { ...item, isForeign: true } : item]
  }

  async *#all(reader: PrivateTableReader, family: IpFamily): AsyncGenerator<readonly NftItem[]> {
    let isThere = false
    for await (const items of this.#table(reader, family)) {
      isThere = true
      yield items
    }
    if (!isThere) return
    for (const set of await reader.sets(family)) {
      yield [set]
      yield await reader.elements(set)
    }
    yield await reader.chains(family)
  }

  async *#some(
    reader: PrivateTableReader,
    family: IpFamily,
    keys: readonly string[],
  ): AsyncGenerator<readonly NftItem[]> {
    const { isTable, sets, chains, elements } = wanted(keys, family)
    if (isTable) yield* this.#table(reader, family)
    for (const name of sets) {
      const set = await reader.set(family, name)
      if (set !== undefined) yield [set]
    }
    if (chains.size > 0) yield await reader.chains(family, chains)
    for (const [name, values] of elements) {
      const set = await reader.set(family, name)
      if (set === undefined || set.isForeign === true) continue
      if (values.size > MAX_SINGLE_READS) {
        yield (await reader.elements(set)).filter(({ value }) => values.has(value))
        continue
      }
      for (const value of values) {
        const element = await reader.element(set, value)
        if (element !== undefined) yield [element]
      }
    }
  }
}

interface Wanted {
  readonly isTable: boolean
  readonly sets: ReadonlySet<string>
  readonly chains: ReadonlySet<string>
  /** Values by their sets. */
  readonly elements: ReadonlyMap<string, ReadonlySet<string>>
}

/** What keys of one family name; see nftKey. */
function wanted(keys: readonly string[], family: IpFamily): Wanted {
  let isTable = false
  const sets = new Set<string>()
  const chains = new Set<string>()
  const elements = new Map<string, Set<string>>()
  for (const key of keys) {
    const [ip, kind, name = '', ...value] = key.split(' ')
    if (ip !== NFT_FAMILY[family]) continue
    if (kind === undefined) isTable = true
    else if (kind === 'set') sets.add(name)
    else if (kind === 'chain') chains.add(name)
    else {
      const values = elements.get(name) ?? new Set()
      values.add(value.join(' '))
      elements.set(name, values)
    }
  }
  return { isTable, sets, chains, elements }
}
