/**
 * The layout in the kernel: when elements, chains of Services and virtual servers may follow it,
 * what a start and a loss leave out of it at first, and to which process the tables belong. While
 * a table belongs to another process of ours, that one writes, and this one waits.
 */
import type { RuleSettings } from '../../../iptables/local-traffic.ts'
import { NFT_FAMILY, type NftItem, type NftOperation, nftKey, type PrivateTable } from '../../../nftables/types.ts'
import type { TableSync } from '../../../sync/table-sync.ts'
import type { IpFamily } from '../../../values/protocol.ts'
import { CHAINS } from './layout.ts'
import { type LayoutPhase, WantedLayout } from './wanted-layout.ts'

export interface PlacedLayoutOptions {
  readonly sync: TableSync<NftItem, NftOperation>
  readonly settings: RuleSettings
  readonly families: readonly IpFamily[]
  /** Whether the kernel lets a table belong to this process. */
  readonly mayOwn: boolean
}

/** Chains that do more in a later phase: no virtual server has to wait for that, but for what they do in each. */
const PHASED: ReadonlySet<string> = new Set([CHAINS.keep, CHAINS.input])
const FIRST_PHASE: LayoutPhase = { takesAll: false, refuses: false }
const LAST_PHASE: LayoutPhase = { takesAll: true, refuses: true }

/** How much of the layout of a family the kernel has. */
interface Place {
  /** The table, as wanted. */
  readonly hasTable: boolean
  /** Also the sets. */
  readonly hasSets: boolean
  /** Everything. */
  readonly isWhole: boolean
}

const NOTHING: Place = { hasTable: false, hasSets: false, isWhole: false }

/**
 * A table is in one of four states. There is none: it is written, and refuses nothing until its sets
 * are filled. It has no owner (the process before this one has ended, or the kernel knows no owners):
 * its chains are compared once with what this program writes, so that a restart changes nothing that
 * is right, and it is taken over. It is ours. It is taken: another process writes, what the table has
 * of the layout counts as wanted, and nothing is added or removed until it can be had.
 */
export class PlacedLayout {
  readonly #sync: PlacedLayoutOptions['sync']
  readonly #options: PlacedLayoutOptions
  readonly #wanted: WantedLayout
  /** Of the keys of the layout. */
  readonly #familyOf = new Map<string, IpFamily>()
  readonly #places = new Map<IpFamily, Place>()
  /** Families whose table was read, and compared if there was one. */
  readonly #known = new Set<IpFamily>()
  /** Families whose table is taken, and the port id of its owner, as of the last pass. */
  readonly #taken = new Map<IpFamily, number>()
  /** The same as of the last reading; the next pass goes by it. */
  readonly #seenTaken = new Map<IpFamily, number>()

  constructor(options: PlacedLayoutOptions) {
    const { sync, settings, families } = options
    this.#options = options
    this.#sync = sync
    this.#wanted = new WantedLayout(settings, families)
    // Before anything of Services, which needs it.
    this.#render()
  }

  /** The Node's podCIDRs, for detectLocalMode NodeCIDR. */
  podCidrs(podCidrs: readonly string[]): void {
    this.#wanted.podCidrs(podCidrs)
  }

  /** Virtual servers serve everything: no other mode needs a turn. Returns whether that changed anything. */
  takeAll(): boolean {
    for (const family of this.#options.families) this.#wanted.setPhase(family, { takesAll: true })
    return this.#render()
  }

  /** Everything as it is after a start, and whoever owns the tables. */
  renderForPlan(): void {
    for (const family of this.#options.families) this.#wanted.setPhase(family, LAST_PHASE)
    this.#render()
  }

  /**
   * A table was read; undefined: there is none. The mirror would not tell to whom it belongs, because
   * it keeps the wanted item in place of an equal one that was read.
   */
  seen(family: IpFamily, table: PrivateTable | undefined): void {
    if (table?.takenBy === undefined) this.#seenTaken.delete(family)
    else this.#seenTaken.set(family, table.takenBy)
  }

  /** The tables were read. Called before anything is written. */
  passBegins(): void {
    if (!this.#sync.isKnown) return
    for (const family of this.#options.families) {
      const table = this.#tableOf(family)
      const portId = this.#seenTaken.get(family)
      if (portId === undefined) this.#taken.delete(family)
      else this.#leaveAlone(family, portId)
      if (table === undefined) this.#wanted.setPhase(family, { refuses: false })
      else if (!this.#known.has(family)) this.#accept(family)
      this.#known.add(family)
      this.#wanted.setOwned(family, this.#options.mayOwn && !this.#taken.has(family))
    }
    this.#render()
  }

  /** Another process of ours, perhaps of another release, has the table: everything in it is right until it can be had. */
  #leaveAlone(family: IpFamily, portId: number): void {
    const isNew = !this.#taken.has(family)
    this.#taken.set(family, portId)
    if (!isNew) return
    for (const key of this.#wanted.keys(family)) this.#sync.want(key, this.#sync.live(key))
    this.#wanted.forget(family)
  }

  /** All elements that were due have been tried once: what is in no set may be refused. */
  tried(): void {
    for (const [family, { hasSets }] of this.#places) if (hasSets) this.#wanted.setPhase(family, { refuses: true })
    this.#render()
  }

  /** Families whose table belongs to another process, and the port id of its socket. */
  get taken(): ReadonlyMap<IpFamily, number> {
    return this.#taken
  }

  /** Whether an item may be added now. */
  mayAdd(key: string, item: NftItem): boolean {
    const { family } = item
    if (item.kind === 'table') return true
    if (this.#taken.has(family)) return false
    const { hasTable, hasSets } = this.#places.get(family) ?? NOTHING
    if (item.kind === 'element') return hasSets
    // The layout is written together with its table, also where that is another one and is replaced.
    return hasTable || this.#familyOf.has(key)
  }

  /** Whether an item that nothing wants may be removed now. */
  mayRemove(key: string): boolean {
    for (const family of this.#taken.keys()) {
      const table = tableKey(family)
      if (key === table || key.startsWith(`${table} `)) return false
    }
    return true
  }

  /** An item was written or examined. Returns whether virtual servers may be added that had to wait. */
  examined(key: string): boolean {
    const family = this.#familyOf.get(key)
    if (family === undefined) return false
    const before = this.#places.get(family) ?? NOTHING
    const now = this.#look(family)
    if ((now.hasTable && !before.hasTable) || (now.hasSets && !before.hasSets)) this.#sync.release()
    return now.isWhole && !before.isWhole
  }

  /** Whether the kernel has the whole layout of a family. */
  isThere(family: IpFamily): boolean {
    return !this.#taken.has(family) && this.#places.get(family)?.isWhole === true
  }

  /** Whether something that all Services need could not be written, or belongs to another process. */
  isFailing(family: IpFamily): boolean {
    if (this.#taken.has(family)) return true
    return this.#wanted.keys(family).some((key) => this.#sync.failures.has(key))
  }

  /** The keys of the layout of a family. */
  keys(family: IpFamily): readonly string[] {
    return this.#wanted.keys(family)
  }

  /** Returns whether anything has changed. */
  #render(): boolean {
    const changed = new Set<IpFamily>()
    for (const { family, key, item } of this.#wanted.changes((one) => !this.#taken.has(one))) {
      this.#familyOf.set(key, family)
      this.#sync.want(key, item)
      changed.add(family)
    }
    for (const family of changed) this.#look(family)
    return changed.size > 0
  }

  #tableOf(family: IpFamily): PrivateTable | undefined {
    const table = this.#sync.live(tableKey(family))
    return table?.kind === 'table' ? table : undefined
  }

  /** A process before this one has written chains that do more already. */
  #accept(family: IpFamily): void {
    const has = (name: string): boolean => this.#isAs(family, LAST_PHASE, name)
    this.#wanted.setPhase(family, { takesAll: has(CHAINS.keep), refuses: has(CHAINS.input) })
  }

  /** Whether the kernel has a chain as it is in a phase. */
  #isAs(family: IpFamily, phase: LayoutPhase, chain: string): boolean {
    const wanted = this.#wanted.inPhase(family, phase, chain)
    const live = wanted && this.#sync.live(nftKey(wanted))
    return wanted !== undefined && live !== undefined && this.#sync.kind.equal(wanted, live)
  }

  #isInSomePhase(family: IpFamily, chain: string): boolean {
    return PHASED.has(chain) && [FIRST_PHASE, LAST_PHASE].some((phase) => this.#isAs(family, phase, chain))
  }

  #look(family: IpFamily): Place {
    let [hasTable, hasSets, isWhole] = [true, true, true]
    for (const key of this.#wanted.keys(family)) {
      const wanted = this.#sync.desired(key)
      const live = this.#sync.live(key)
      if (live !== undefined && wanted === live) continue
      if (wanted?.kind === 'chain' && this.#isInSomePhase(family, wanted.name)) continue
      isWhole = false
      if (wanted?.kind !== 'chain') hasSets = false
      if (wanted?.kind === 'table') hasTable = false
    }
    const place = this.#wanted.keys(family).length === 0 ? NOTHING : { hasTable, hasSets, isWhole }
    this.#places.set(family, place)
    return place
  }
}

const tableKey = (family: IpFamily): string => NFT_FAMILY[family]
