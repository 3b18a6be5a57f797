/**
 * The wanted table, sets and shared chains of all families, and what they depend on. Most changes
 * of Services change nothing of this, and then nothing is rendered.
 */
import { localTrafficOf, type RuleSettings } from '../../../iptables/local-traffic.ts'
import { type NftItem, nftKey } from '../../../nftables/types.ts'
import type { IpFamily } from '../../../values/protocol.ts'
import { type LayoutInput, layoutOf } from './layout.ts'

export interface LayoutChange {
  readonly family: IpFamily
  readonly key: string
  readonly item: NftItem
}

/** What the chains of a family do already: at a start and after a loss less than later. */
export type LayoutPhase = Pick<LayoutInput, 'takesAll' | 'refuses'>

export class WantedLayout {
  readonly #settings: RuleSettings
  readonly #owned = new Set<IpFamily>()
  readonly #phases = new Map<IpFamily, LayoutPhase>()
  /** Keys by family. */
  readonly #rendered = new Map<IpFamily, ReadonlyMap<string, NftItem>>()
  #podCidrs: readonly string[] = []
  readonly #dirty = new Set<IpFamily>()

  constructor(settings: RuleSettings, families: readonly IpFamily[]) {
    this.#settings = settings
    for (const family of families) {
      this.#phases.set(family, { takesAll: false, refuses: false })
      this.#dirty.add(family)
    }
  }

  /** The Node's podCIDRs, for detectLocalMode NodeCIDR. */
  podCidrs(podCidrs: readonly string[]): void {
    this.#podCidrs = podCidrs
    for (const family of this.#phases.keys()) this.#dirty.add(family)
  }

  phase(family: IpFamily): LayoutPhase {
    return this.#phases.get(family) ?? { takesAll: false, refuses: false }
  }

  setPhase(family: IpFamily, change: Partial<LayoutPhase>): void {
    const before = this.phase(family)
    const now = { ...before, ...change }
    if (now.takesAll === before.takesAll && now.refuses === before.refuses) return
    this.#phases.set(family, now)
    this.#dirty.add(family)
  }

  /** The item of a chain as it is in another phase, to recognize what an earlier process has written. */
  inPhase(family: IpFamily, phase: LayoutPhase, chain: string): NftItem | undefined {
    return layoutOf(this.#input(family, phase)).find((item) => item.kind === 'chain' && item.name === chain)
  }

  /** Whether the table of a family has to belong to this process. */
  setOwned(family: IpFamily, isOwned: boolean): void {
    if (this.#owned.has(family) === isOwned) return
    if (isOwned) this.#owned.add(family)
    else this.#owned.delete(family)
    this.#dirty.add(family)
  }

  /**
   * Items that have changed since the last call, each after what it names; all of them at the first
   * one. What changed in a family that is not asked for is kept for a later call.
   */
  changes(asksFor: (family: IpFamily) => boolean): readonly LayoutChange[] {
    const changes: LayoutChange[] = []
    for (const family of this.#dirty) {
      if (!asksFor(family)) continue
      this.#dirty.delete(family)
      const before = this.#rendered.get(family)
      const now = new Map(layoutOf(this.#input(family, this.phase(family))).map((item) => [nftKey(item), item]))
      this.#rendered.set(family, now)
      for (const [key, item] of now)
        if (JSON.stringify(item) !== JSON.stringify(before?.get(key))) changes.push({ family, key, item })
    }
    return changes
  }

  /** The next call of `changes` returns all items of a family. */
  forget(family: IpFamily): void {
    this.#rendered.delete(family)
    this.#dirty.add(family)
  }

  /** The keys of all items of a family; none before the first call of `changes`. */
  keys(family: IpFamily): readonly string[] {
    return Array.from(this.#rendered.get(family)?.keys() ?? [])
  }

  #input(family: IpFamily, phase: LayoutPhase): LayoutInput {
    const { masqueradeAll, masqueradeBit } = this.#settings.iptables
    return {
      family,
      isOwned: this.#owned.has(family),
      localTraffic: localTrafficOf(this.#settings, this.#podCidrs, family),
      masqueradeAll,
      masqueradeBit,
      ...phase,
    }
  }
}
