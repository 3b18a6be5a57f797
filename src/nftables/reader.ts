/**
 * Reads the private tables: everything that is in them, whoever wrote it. A list that the kernel
 * changed meanwhile is read again; the sets of networks of rules are read by the names in the rules,
 * and when one of them is gone, its rules were replaced, and are read again too.
 * @impure
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Budget } from '../values/budget.ts'
import { newBudget } from '../values/event-loop.ts'
import { type MessageBatch, requestOf } from '../netlink/batch.ts'
import type { NetlinkConnection } from '../netlink/connection.ts'
import { KernelError, netlinkError } from '../netlink/errors.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import type { IpFamily } from '../values/protocol.ts'
import { decodeChain, decodePrivateRule, type ListedRule } from './chain-codec.ts'
import { encodeListChains } from './chain-message.ts'
import { decodeElements, encodeGetElement, encodeGetElements } from './element-codec.ts'
import { encodeListRules } from './rule-message.ts'
import { decodeCount, decodeSet, encodeGetSet, encodeGetSets, type ListedSet, NetworksDecoder } from './set-codec.ts'
import { decodeStatements, isAnonymous } from './statement-decoder.ts'
import { decodePrivateTable, encodeGetTables, type ListedTable } from './table-codec.ts'
import { CATCH_ALL, type NftChain, type NftElement, type NftRule, type NftSet, PRIVATE_TABLE } from './types.ts'

/** Sets with fewer elements fit one datagram of a dump, so that they are read at once. */
const SMALL = 100
/** The kernel enlarges a table in the background. */
const ENLARGING_MS = 20
/** How often rules are read whose sets were gone, and elements of a set that is enlarged. */
const MAX_ATTEMPTS = 5

/** Of one call, with one budget for all that it reads. */
export class PrivateTableReader {
  readonly #netlink: NetlinkConnection
  readonly #signal: AbortSignal
  readonly #budget: Budget

  constructor(netlink: NetlinkConnection, options: { readonly signal: AbortSignal; readonly budget?: Budget }) {
    this.#netlink = netlink
    this.#signal = options.signal
    this.#budget = options.budget ?? newBudget()
  }

  async table(family: IpFamily): Promise<ListedTable | undefined> {
    const [table] = await this.#dump(
      (batch) => encodeGetTables(batch, family),
      (message) => decodePrivateTable(message),
    )
    return table
  }

  /** All sets with a name of their own. */
  async sets(family: IpFamily): Promise<readonly NftSet[]> {
    const sets = await this.#dump((batch) => encodeGetSets(batch, family), decodeSet)
    return sets.filter((set) => set.kind === 'set')
  }

  /** A set by its name; undefined when there is none. */
  async set(family: IpFamily, name: string): Promise<NftSet | undefined> {
    const set = await this.#request<ListedSet | undefined>((batch) => encodeGetSet(batch, family, name), decodeSet)
    return set?.kind === 'set' ? set : undefined
  }

  /**
   * All elements of a set; none of a foreign one. While the kernel enlarges the table of a set, which
   * it does after many additions, a dump lists some twice and others not at all. Rejects with
   * `netlink-dump-interrupted` when no dump has all that the kernel counts.
   */
  async elements(set: NftSet): Promise<readonly NftElement[]> {
    if (set.isForeign === true) return []
    const first = await this.#elements(set)
    if (first.length < SMALL) return first
    // What one dump leaves out, for something that it lists twice, another one has.
    let found = new Map<string, NftElement>()
    let isTwice = await this.#isTwice(first, found)
    for (let attempt = 1; ; attempt++) {
      const count = await this.#count(set)
      // The kernel does not count the element that stands for all others.
      const counted = found.has(CATCH_ALL) ? found.size - 1 : found.size
      const isWhole = count === undefined ? !isTwice : count === counted
      if (isWhole || (attempt === MAX_ATTEMPTS && count === undefined)) return [...found.values()]
      if (attempt === MAX_ATTEMPTS)
        throw netlinkError('netlink-dump-interrupted', `${counted} of ${count} elements of ${set.name} were listed`)
      await sleep(ENLARGING_MS, undefined, { signal: this.#signal })
      // Elements were deleted meanwhile.
      if (count !== undefined && count < counted) found = new Map()
      isTwice = await this.#isTwice(await this.#elements(set), found)
    }
  }

  /** Puts elements beside those that were found before; whether the same list has one twice. */
  async #isTwice(elements: readonly NftElement[], found: Map<string, NftElement>): Promise<boolean> {
    const seen = new Set<string>()
    for (const element of elements) {
      found.set(element.value, element)
      seen.add(element.value)
      if (this.#budget.spentBySteps()) await this.#budget.turn()
    }
    return seen.size < elements.length
  }

  #count(set: NftSet): Promise<number | undefined> {
    return this.#request<number | undefined>((batch) => encodeGetSet(batch, set.family, set.name), decodeCount)
  }

  async #elements(set: NftSet): Promise<readonly NftElement[]> {
    let found: NftElement[] = []
    await this.#dump(
      (batch) => encodeGetElements(batch, set.family, set.name),
      (message): undefined => void decodeElements(message, set, (element) => void found.push(element)),
      () => {
        found = []
      },
    )
    return found
  }

  /** One element; undefined when the set does not have it. */
  async element(set: NftSet, value: string): Promise<NftElement | undefined> {
    return this.#request<NftElement | undefined>(
      (batch) => encodeGetElement(batch, set.family, set.name, value),
      (message) => {
        let found: NftElement | undefined
        decodeElements(message, set, (element) => {
          found = element
        })
        return found
      },
    )
  }

  /** Chains with their rules: all of the table, or those of these names. */
  async chains(family: IpFamily, names?: ReadonlySet<string>): Promise<readonly NftChain[]> {
    for (let attempt = 1; ; attempt++) {
      const chains = await this.#chains(family, names)
      if (chains !== undefined) return chains
      if (attempt === MAX_ATTEMPTS)
        throw netlinkError(
          'netlink-dump-interrupted',
          'the sets of networks of rules changed while the rules were read',
        )
    }
  }

  async #chains(family: IpFamily, names: ReadonlySet<string> | undefined): Promise<readonly NftChain[] | undefined> {
    const all = await this.#dump((batch) => encodeListChains(batch, family), decodeChain)
    const chains = names === undefined ? all : all.filter(({ name }) => names.has(name))
    const rules = await this.#rules(family, names)
    const byChain = new Map<string, NftRule[]>()
    for (const { chain, expressions, comment } of rules) {
      const networks = await this.#networks(family, expressions)
      if (networks === 'gone') return undefined
      const statements = decodeStatements(expressions, family, (set) => networks.get(set))
      const list = byChain.get(chain) ?? []
      list.push(comment === undefined ? { statements } : { statements, comment })
      byChain.set(chain, list)
      // The networks of one rule may be thousands.
      if (this.#budget.spent()) await this.#budget.turn()
    }
    return chains.map((chain) => ({ ...chain, rules: byChain.get(chain.name) ?? [] }))
  }

  async #rules(family: IpFamily, names: ReadonlySet<string> | undefined): Promise<readonly ListedRule[]> {
    // The kernel looks through all rules of the table for those of one chain.
    const chains = names === undefined || names.size > 8 ? [{}] : [...names].map((chain) => ({ chain }))
    const rules: ListedRule[] = []
    for (const chain of chains) {
      const place = { family, table: PRIVATE_TABLE, ...chain }
      const listed = await this.#dump(
        (batch) => encodeListRules(batch, place),
        (message) => decodePrivateRule(message, family),
      )
      for (const rule of listed) rules.push(rule)
    }
    return rules
  }

  /** What is in the anonymous sets that a rule names. */
  async #networks(
    family: IpFamily,
    expressions: ListedRule['expressions'],
  ): Promise<ReadonlyMap<string, readonly string[]> | 'gone'> {
    const found = new Map<string, readonly string[]>()
    for (const { set } of expressions) {
      if (set === '' || !isAnonymous(set)) continue
      let decoder = new NetworksDecoder(family)
      try {
        await this.#netlink.dump(
          requestOf((batch) => encodeGetElements(batch, family, set)),
          (message): undefined => void decoder.read(message),
          {
            signal: this.#signal,
            budget: this.#budget,
            onRestart: () => {
              decoder = new NetworksDecoder(family)
            },
          },
        )
      } catch (error) {
        if (error instanceof KernelError && error.code === 'ENOENT') return 'gone'
        throw error
      }
      const networks = decoder.networks()
      if (networks !== undefined) found.set(set, networks)
    }
    return found
  }

  /** A dump; nothing when the table or the set does not exist. */
  async #dump<T>(
    encode: (batch: MessageBatch) => void,
    decode: (message: ReceivedMessage) => T | undefined,
    onRestart: () => void = () => undefined,
  ): Promise<T[]> {
    try {
      const options = { signal: this.#signal, budget: this.#budget, onRestart }
      return await this.#netlink.dump(requestOf(encode), decode, options)
    } catch (error) {
      if (error instanceof KernelError && error.code === 'ENOENT') return []
      throw error
    }
  }

  async #request<T>(
    encode: (batch: MessageBatch) => void,
    decode: (message: ReceivedMessage) => T,
  ): Promise<T | undefined> {
    try {
      return await this.#netlink.request(requestOf(encode), decode, { signal: this.#signal })
    } catch (error) {
      if (error instanceof KernelError && error.code === 'ENOENT') return undefined
      throw error
    }
  }
}
