/**
 * What is in the private table of one family, list by list: all of it, or the items of some keys.
 * @impure
 */
import type { IpFamily } from '../values/protocol.ts'
import type { PrivateTableReader } from './reader.ts'
import { NFT_FAMILY, type NftItem } from './types.ts'

/** More elements of one set are read as a whole. */
const MAX_SINGLE_READS = 64

export class PrivateLists {
  readonly #reader: PrivateTableReader
  readonly #family: IpFamily
  readonly #owner: number

  /** @param owner the port id of the socket whose table counts as owned */
  constructor(reader: PrivateTableReader, family: IpFamily, owner: number) {
    this.#reader = reader
    this.#family = family
    this.#owner = owner
  }

  /** The table, its sets, its chains, and then the elements of each set; nothing when there is no table. */
  async *all(): AsyncGenerator<readonly NftItem[]> {
    const table = await this.#table()
    if (table.length === 0) return
    yield table
    const sets = await this.#reader.sets(this.#family)
    yield sets
    yield await this.#reader.chains(this.#family)
    for (const set of sets) yield await this.#reader.elements(set)
  }

  /** The items of these keys; see nftKey. */
  async *of(keys: readonly string[]): AsyncGenerator<readonly NftItem[]> {
    const { isTable, sets, chains, elements } = wanted(keys, this.#family)
    if (isTable) yield await this.#table()
    for (const name of sets) {
      const set = await this.#reader.set(this.#family, name)
      if (set !== undefined) yield [set]
    }
    if (chains.size > 0) yield await this.#reader.chains(this.#family, chains)
    for (const [name, values] of elements) yield* this.#elements(name, values)
  }

  async *#elements(name: string, values: ReadonlySet<string>): AsyncGenerator<readonly NftItem[]> {
    const set = await this.#reader.set(this.#family, name)
    if (set === undefined || set.isForeign === true) return
    if (values.size > MAX_SINGLE_READS) {
      yield (await this.#reader.elements(set)).filter(({ value }) => values.has(value))
      return
    }
    for (const value of values) {
      const element = await this.#reader.element(set, value)
      if (element !== undefined) yield [element]
    }
  }

  async #table(): Promise<readonly NftItem[]> {
    const family = this.#family
    const table = await this.#reader.table(family)
    if (table === undefined) return []
    const isOwned = table.owner === this.#owner
    return [
      {
        kind: 'table',
        family,
        isOwned,
        ...(table.owner !== undefined && !isOwned ? { takenBy: table.owner } : {}),
        ...(table.isDormant ? { isForeign: true } : {}),
      },
    ]
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
    const [ip = '', kind] = key.split(' ', 2)
    if (ip !== NFT_FAMILY[family]) continue
    // The name of a set or chain of another program may have blanks.
    const name = key.slice(`${ip} ${kind} `.length)
    if (kind === undefined) isTable = true
    else if (kind === 'set') sets.add(name)
    else if (kind === 'chain') chains.add(name)
    else {
      const blank = name.indexOf(' ')
      const set = name.slice(0, blank)
      const values = elements.get(set) ?? new Set()
      values.add(name.slice(blank + 1))
      elements.set(set, values)
    }
  }
  return { isTable, sets, chains, elements }
}
