/**
 * What ipvs mode leaves in the kernel: finds it, and decides which virtual servers may be removed.
 * Both a cleanup and the switch to iptables mode read these tables as tables in which nothing is
 * wanted, so that a pass removes what is ours.
 */
import type { VirtualServerKey } from '../../ipvs/types.ts'
import type { Reconciled } from '../../sync/reconciled.ts'
import { SERVICE_DEVICE } from '../../values/well-known.ts'
import type { FirewallRemains } from '../ipvs/firewall.ts'
import { isAnyLeft } from '../ipvs/firewalls.ts'
import { removalOf, removalOfVirtualServers, type TableOptions } from '../ipvs/tables.ts'
import { withLook } from '../look/look.ts'

/**
 * Whether ipvs mode has left anything on this node that a removal would find: the device, a local
 * route, or a part of its firewall. Another program may have deleted any of them. Virtual servers
 * alone say nothing, because only the firewall says which of them are ours. No module is loaded but
 * nf_tables, by the kernel, when it is asked for tables.
 */
export function hasIpvsLeftovers(signal: AbortSignal): Promise<boolean> {
  return withLook(async (look) => (await look.hasVirtualIps(signal)) || isAnyLeft(look.families, signal))
}

export interface IpvsLeftoversOptions extends Pick<TableOptions, 'ipvs' | 'rtnetlink' | 'families' | 'excluded'> {
  readonly firewall: FirewallRemains
}

/** What ipvs mode left. Found before the firewall is removed: without it no virtual server is known to be ours. */
export class IpvsLeftovers {
  readonly #options: IpvsLeftoversOptions
  /** Whether this virtual server was made by a proxy. */
  readonly isOwned: (key: VirtualServerKey) => boolean

  /** Those on its interfaces. */
  readonly nodeAddresses: ReadonlySet<string>

  private constructor(
    options: IpvsLeftoversOptions,
    isOwned: (key: VirtualServerKey) => boolean,
    nodeAddresses: ReadonlySet<string>,
  ) {
    this.#options = options
    this.isOwned = isOwned
    this.nodeAddresses = nodeAddresses
  }

  /** Reads the firewall and the addresses of the node. */
  static async find(options: IpvsLeftoversOptions, signal: AbortSignal): Promise<IpvsLeftovers> {
    const { rtnetlink, firewall } = options
    const device = (await rtnetlink.getLink(SERVICE_DEVICE, { signal }))?.index
    const listed = (await rtnetlink.listAddresses({ signal })).filter((it) => it.interfaceIndex !== device)
    const addresses = new Set(listed.map(({ address }) => address))
    return new IpvsLeftovers(options, await firewall.owned(addresses, signal), addresses)
  }

  /** All tables, with nothing wanted in any. `rules`: those that a removal reaches. */
  removal(rules: readonly Reconciled[] = []): readonly Reconciled[] {
    const { firewall, ...options } = this.#options
    return removalOf({ ...options, mayRemove: this.isOwned }, [...firewall.removal(), ...rules])
  }

  /** Virtual servers and virtual IPs alone, but for these. */
  removalBut(servers: ReadonlySet<VirtualServerKey>, addresses: ReadonlySet<string>): readonly Reconciled[] {
    const mayRemove = (key: VirtualServerKey): boolean => this.isOwned(key) && !servers.has(key)
    return removalOfVirtualServers({ ...this.#options, mayRemove }, (address) => !addresses.has(address))
  }
}
