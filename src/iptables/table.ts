/**
 * The chains and jumps of one family in the kernel. A reading is one iptables-save and a change one
 * iptables-restore; starting a process costs more than everything else here, so callers read and
 * write all keys at once.
 * @impure
 */
import type { TableIo } from '../sync/table.ts'
import { asError } from '../values/errors.ts'
import type { IpFamily } from '../values/protocol.ts'
import { type Clock, earliest } from '../values/clock.ts'
import { chainKind, keyOf } from './diff.ts'
import { JumpOrder } from './jump-order.ts'
import { chainKey, type ChainLayout, jumpKey, type LayoutJump } from './layout.ts'
import type { NftPlace } from '../nftables/rule.ts'
import { placeKey, readRules, type ReadRules, type UnprintableTable } from './read-rules.ts'
import { RestoreRun } from './restore-run.ts'
import { isOneLine, targetOf } from './rule-text.ts'
import { findRival } from './rival-rules.ts'
import type { RivalRule } from './types.ts'
import { foreignReferences, itemsOf, type SavedTable } from './save-text.ts'
import type { IptablesItem, IptablesOperation, IptablesPrograms, NftAccess, TableId } from './types.ts'
import { WatchedChains } from './watched-chains.ts'

export interface IptablesTableOptions {
  /** Of the program's name in printed commands, `-legacy`. */
  readonly suffix?: string
  /** Absent: the back end is legacy. */
  readonly nft?: NftAccess | undefined
  /** Called after each reading. */
  readonly onRead?: (family: IpFamily, read: RulesRead) => void
  /**
   * Whether a Service has this address; a rule for a single other address takes no packets of
   * Services. Default: it may.
   */
  readonly serves?: (address: string) => boolean
  readonly now?: Clock
}

/** What a reading found besides our chains and jumps. */
export interface RulesRead {
  /** The tables that the program cannot print. */
  readonly unprintable: readonly UnprintableTable[]
  /** Jumps that another program keeps from standing first, with its rule. */
  readonly contested: readonly ContestedJump[]
}

export interface ContestedJump {
  readonly place: LayoutJump
  readonly rival: RivalRule
}

/** What one reading finds in front of our jumps. */
interface FoundInFront {
  readonly contested: ContestedJump[]
  /** Chains where an added rule may take packets. */
  readonly watched: Set<string>
}

export class IptablesTable implements TableIo<IptablesItem, IptablesOperation> {
  readonly kind
  readonly family: IpFamily
  readonly #programs: IptablesPrograms
  readonly #layout: ChainLayout
  readonly #nft: NftAccess | undefined
  readonly #onRead: NonNullable<IptablesTableOptions['onRead']>
  readonly #serves: (address: string) => boolean
  readonly #order: JumpOrder
  /** Those that rules in front of our jumps lead to, as `nat CNI-HOSTPORT-DNAT`. */
  readonly #watched: WatchedChains
  #keepsOthers = false
  /** Rules in the chains of the last restore, by table. */
  #lastWritten: ReadonlyMap<TableId, number> = new Map()
  /** Rules of other programs that jumped to our chains at the last reading, by the key of our chain. */
  #inUse: ReadonlyMap<string, string> = new Map()
  /** Where rules are that iptables cannot delete by their text, by `placeKey`. */
  #places: ReadonlyMap<string, readonly NftPlace[]> = new Map()

  /** @param layout what is read, and in which order it is written */
  constructor(family: IpFamily, programs: IptablesPrograms, layout: ChainLayout, options: IptablesTableOptions = {}) {
    const { suffix = '', nft, onRead = () => undefined, serves = () => true, now = () => 0 } = options
    this.family = family
    this.#layout = layout
    this.#nft = nft
    this.#onRead = onRead
    this.#serves = serves
    this.#order = new JumpOrder(now)
    this.#watched = new WatchedChains(now)
    this.kind = chainKind(family, suffix, (desired, live) => this.#wantedOver(desired, live))
    this.#programs = programs
  }

  /**
   * From now on rules that lead to chains of other modes stay, in front of ours, so that those
   * chains get the traffic until `replaceOthers`.
   */
  keepOthers(): void {
    this.#keepsOthers = true
  }

  replaceOthers(): void {
    this.#keepsOthers = false
  }

  /** What is wanted in place of `live`. */
  #wantedOver(desired: IptablesItem | undefined, live: IptablesItem | undefined): IptablesItem | undefined {
    if (desired?.kind !== 'chain' || live?.kind !== 'chain') return desired
    // Its rules may be kubelet's; ours stay too, because the setting that they guard is never reverted.
    if (desired.rules.length === 0 && this.#layout.shared.has(chainKey(desired.table, desired.chain))) return live
    if (!this.#keepsOthers) return desired
    const kept = live.rules.filter(
      (rule) => this.#layout.isOfOthers(desired.table, targetOf(rule) ?? '') && isOneLine(rule),
    )
    return kept.length === 0 ? desired : { ...desired, rules: [...kept, ...desired.rules] }
  }

  /** Finds only the named chains and the jumps of exactly our text. */
  async list(keys: readonly string[] | 'all', signal: AbortSignal): Promise<Map<string, IptablesItem>> {
    const items = await this.#readItems(keys === 'all', signal)
    if (keys === 'all') return items
    const found = new Map<string, IptablesItem>()
    for (const key of keys) {
      const item = items.get(key)
      if (item !== undefined) found.set(key, item)
    }
    return found
  }

  /** @param isWhole the caller remembers all of it */
  async #readItems(isWhole: boolean, signal: AbortSignal): Promise<Map<string, IptablesItem>> {
    let watched: Set<string> | undefined
    this.#watched.begin()
    try {
      const source = { family: this.family, programs: this.#programs, nft: this.#nft }
      const read = await readRules(source, this.#layout, signal)
      watched = new Set()
      return this.#itemsOf(read, watched)
    } finally {
      this.#watched.end(watched, isWhole)
    }
  }

  #itemsOf({ saved, leading, unprintable, places }: ReadRules, watched: Set<string>): Map<string, IptablesItem> {
    this.#inUse = foreignReferences(saved, this.#layout, leading)
    this.#places = places
    const contested: ContestedJump[] = []
    const looked = new Set<string>()
    const find = (place: LayoutJump, table: SavedTable, index: number): RivalRule | undefined => {
      looked.add(jumpKey(place))
      return this.#rivalOf(place, table, index, { contested, watched })
    }
    const items = itemsOf(saved, this.#layout, find, leading)
    this.#order.keepOnly(looked)
    this.#onRead(this.family, { unprintable, contested })
    return items
  }

  #rivalOf(place: LayoutJump, table: SavedTable, index: number, found: FoundInFront): RivalRule | undefined {
    const owns = (chain: string): boolean => this.#layout.owns(place.table, chain)
    const { rival, watched } = findRival(table, place.from, index, owns, this.#serves)
    for (const chain of watched) found.watched.add(chainKey(place.table, chain))
    const key = jumpKey(place)
    if (rival === undefined) {
      this.#order.isFirst(key)
      return undefined
    }
    if (this.#order.admit(key)) return rival
    found.contested.push({ place, rival })
    return undefined
  }

  /**
   * Whether a rule that is added to this chain of others may stand in front of one of our jumps, or
   * be reached from there.
   */
  watches(table: TableId, chain: string): boolean {
    return (
      this.#watched.has(chainKey(table, chain)) ||
      this.#layout.jumps.some((jump) => jump.isFirst === true && jump.table === table && jump.from === chain)
    )
  }

  /** When the rules have to be read again without an announcement, on the clock of the options; undefined: never. */
  nextReadMs(): number | undefined {
    return earliest(this.#watched.nextReadMs(), this.#order.nextDueMs())
  }

  get lastWritten(): ReadonlyMap<TableId, number> {
    return this.#lastWritten
  }

  async apply(ops: readonly IptablesOperation[], signal: AbortSignal): Promise<readonly (Error | undefined)[]> {
    this.#lastWritten = rulesOf(ops)
    const outcomes: (Error | undefined)[] = ops.map(() => undefined)
    const restored: { readonly index: number; readonly op: IptablesOperation }[] = []
    // Chains cannot be deleted before the jumps to them.
    for (const [index, op] of ops.entries()) {
      const places = this.#placesOf(op)
      const { table, chain } = op
      if (places.length === 0) restored.push({ index, op })
      else if (op.kind === 'delete-jump') outcomes[index] = await this.#delete(places, signal)
      else if (op.kind === 'move-jump')
        restored.push({ index, op: { kind: 'insert-jump', table, chain, rule: op.rule } })
    }
    const { family } = this
    const programs = {
      present: async (stop: AbortSignal) => new Set((await this.#readItems(false, stop)).keys()),
      restore: (input: string, stop: AbortSignal) => this.#programs.restore(family, input, stop),
    }
    const places = this.#places
    const rest = restored.map(({ op }) => op)
    const results = await RestoreRun.run(rest, programs, this.#layout, this.#inUse, signal)
    for (const [at, { index }] of restored.entries()) {
      outcomes[index] = results[at]
      const op = ops[index]
      if (op?.kind !== 'move-jump' || results[at] !== undefined) continue
      this.#order.moved(keyOf(op))
      // In a chain that cannot be printed the old jump is deleted after the new one is there.
      const old = places.get(placeKey(op.table, op.chain, op.rule)) ?? []
      if (old.length > 0) outcomes[index] = await this.#delete(old, signal)
    }
    return outcomes
  }

  #placesOf(op: IptablesOperation): readonly NftPlace[] {
    if (op.kind !== 'delete-jump' && op.kind !== 'move-jump') return []
    return this.#places.get(placeKey(op.table, op.chain, op.rule)) ?? []
  }

  async #delete(places: readonly NftPlace[], signal: AbortSignal): Promise<Error | undefined> {
    try {
      await this.#nft?.deleteRules(this.family, places, signal)
      return undefined
    } catch (error) {
      signal.throwIfAborted()
      return asError(error)
    }
  }
}

function rulesOf(ops: readonly IptablesOperation[]): ReadonlyMap<TableId, number> {
  const counts = new Map<TableId, number>()
  for (const op of ops)
    if (op.kind === 'write-chain') counts.set(op.table, (counts.get(op.table) ?? 0) + op.rules.length)
  return counts
}
