/**
 * The wanted chains and jumps of both families, and what they depend on. Most changes of Services
 * change nothing of this, and then nothing is rendered. `changes` returns only what differs from
 * its last result, so all results belong to one table.
 */
import type { KubeIpvsSettings } from '../../../../config/types.ts'
import type { SetName } from '../../../../ipset/catalogue.ts'
import type { AddressFrontend, FrontendKey } from '../../../../service/frontends.ts'
import type { IpFamily } from '../../../../values/protocol.ts'
import { sameItem } from '../../../../iptables/diff.ts'
import { localTrafficOf, type RuleSettings } from '../../../../iptables/local-traffic.ts'
import { type OutFilterVip, type RenderedRules, renderIpvsRules } from './render.ts'
import type { IptablesItem, OptionalMatch } from '../../../../iptables/types.ts'

export interface RuleChange {
  readonly family: IpFamily
  readonly key: string
  readonly item: IptablesItem
}

export class WantedRules {
  readonly #settings: RuleSettings
  readonly #families: readonly IpFamily[]
  readonly #randomFully: boolean
  readonly #filled = new Set<SetName>()
  readonly #missing = new Set<OptionalMatch>()
  readonly #unusable = new Set<SetName>()
  readonly #vips = new OutFilterVips()
  readonly #rendered = new Map<IpFamily, RenderedRules>()
  #podCidrs: readonly string[] = []
  #virtualAddresses: KubeIpvsSettings['virtualAddresses'] = 'addresses'
  #dirty = true

  /** @param families families that the kernel has and for which there are programs */
  constructor(settings: RuleSettings, families: readonly IpFamily[], randomFully: boolean) {
    this.#settings = settings
    this.#families = families
    this.#randomFully = randomFully
  }

  /** The number of entries that are wanted or live in a set; only whether it is 0 matters. */
  setSize(set: SetName, size: number): void {
    if (this.#filled.has(set) === size > 0) return
    if (size > 0) this.#filled.add(set)
    else this.#filled.delete(set)
    this.#dirty = true
  }

  /**
   * Whether the set exists and has its type. A rule that names another set would fail, or prevent
   * the replacement of the set.
   */
  setUsable(set: SetName, usable: boolean): void {
    if (this.#unusable.has(set) !== usable) return
    if (usable) this.#unusable.delete(set)
    else this.#unusable.add(set)
    this.#dirty = true
  }

  /** The winning frontend at a key; undefined when there is none. */
  frontend(key: FrontendKey, frontend: AddressFrontend | undefined): void {
    if (this.#vips.set(key, frontend)) this.#dirty = true
  }

  /** The Node's podCIDRs, for detectLocalMode NodeCIDR. */
  podCidrs(podCidrs: readonly string[]): void {
    this.#podCidrs = podCidrs
    this.#dirty = true
  }

  /** How the node answers for virtual IPs. */
  use(kind: KubeIpvsSettings['virtualAddresses']): void {
    if (this.#virtualAddresses === kind) return
    this.#virtualAddresses = kind
    this.#dirty = true
  }

  /** Leaves out rules with this match from now on. */
  lacks(match: OptionalMatch): void {
    if (!this.#missing.has(match)) this.#dirty = true
    this.#missing.add(match)
  }

  /** Rules of a family that are left out now because a match is missing. */
  leftOut(family: IpFamily): readonly string[] {
    return this.#rendered.get(family)?.leftOut ?? []
  }

  /** Chains and jumps that have changed since the last call; all of them at the first one. */
  changes(): readonly RuleChange[] {
    if (!this.#dirty) return []
    this.#dirty = false
    return this.#families.flatMap((family) => {
      const before = this.#rendered.get(family)?.items
      const now = this.#render(family)
      this.#rendered.set(family, now)
      return [...now.items].flatMap(([key, item]) => {
        const old = before?.get(key)
        return old !== undefined && sameItem(old, item) ? [] : { family, key, item }
      })
    })
  }

  #render(family: IpFamily): RenderedRules {
    return renderIpvsRules({
      family,
      filled: this.#filled,
      localTraffic: localTrafficOf(this.#settings, this.#podCidrs, family),
      masqueradeAll: this.#settings.iptables.masqueradeAll,
      masqueradeBit: this.#settings.iptables.masqueradeBit,
      randomFully: this.#randomFully,
      outFilter: this.#vips.of(family),
      virtualAddresses: this.#virtualAddresses,
      missingMatches: this.#missing,
      unusableSets: this.#unusable,
    })
  }
}

/**
 * VIPs of load balancers that the node itself must not reach, because their source ranges leave out
 * the node's own address. Traffic from the node to such a VIP has the VIP as its source and would
 * pass the firewall (kubernetes issue 119656).
 */
class OutFilterVips {
  readonly #closed = new Map<FrontendKey, AddressFrontend>()

  /** Adds, replaces or removes a frontend; true when the result of `of` has changed. */
  set(key: FrontendKey, frontend: AddressFrontend | undefined): boolean {
    if (frontend?.firewall?.allowsNode !== false) return this.#closed.delete(key)
    const isNew = !this.#closed.has(key)
    this.#closed.set(key, frontend)
    return isNew
  }

  of(family: IpFamily): readonly OutFilterVip[] {
    return Array.from(this.#closed.values()).flatMap(({ address, port, servicePort }) =>
      servicePort.family === family ? { address, port, protocol: servicePort.protocol } : [],
    )
  }
}
