/** In which IP families Services have node ports, as Services come, change and go. */
import { IP_FAMILIES, type IpFamily } from '../values/protocol.ts'
import type { Service } from './objects.ts'

const NONE: readonly IpFamily[] = []

export class NodePortServices {
  /** Families by Service, without those that have no node port: nearly all. */
  readonly #families = new Map<string, readonly IpFamily[]>()
  readonly #counts: Record<IpFamily, number> = { IPv4: 0, IPv6: 0 }

  has(family: IpFamily): boolean {
    return this.#counts[family] > 0
  }

  /** @param service undefined: it is gone. Returns whether `has` has changed for a family. */
  set(key: string, service: Service | undefined): boolean {
    const families = familiesOf(service)
    const before = this.#families.get(key) ?? NONE
    const had = IP_FAMILIES.filter((family) => this.has(family))
    for (const family of before) this.#counts[family]--
    for (const family of families) this.#counts[family]++
    if (families.length === 0) this.#families.delete(key)
    else this.#families.set(key, families)
    return IP_FAMILIES.some((family) => had.includes(family) !== this.has(family))
  }
}

function familiesOf(service: Service | undefined): readonly IpFamily[] {
  if (service === undefined || service.ports.every(({ nodePort }) => nodePort === 0)) return NONE
  return IP_FAMILIES.filter((family) => service.clusterIps[family] !== undefined)
}
