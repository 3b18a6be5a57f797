/**
 * Reads what proxies of any mode have in the kernel, for `kube-ipvs status`. This changes nothing,
 * and needs neither a running daemon nor the API server.
 */
import { definitionOf, MAX_ELEMENTS } from '../../ipset/catalogue.ts'
import type { DecodedDestination } from '../../ipvs/codec-destinations.ts'
import { isDraining } from '../../ipvs/drains.ts'
import { type SettingsInWords, settingsInWords } from '../../ipvs/text.ts'
import { realServerKey, type VirtualServerFields, virtualServerKey } from '../../ipvs/types.ts'
import { mayTranslate } from '../../nftables/nat-order.ts'
import { kernelRelease } from '../../node/host.ts'
import { isSysctlOn } from '../../node/sysctl.ts'
import { findOtherProxies, type ProxyProcess } from '../../node/other-proxies.ts'
import { CodedError } from '../../values/errors.ts'
import { type SavedFrontend, savedFrontends } from '../iptables/saved-frontends.ts'
import { chainsInOtherBackEnd, type OtherBackEnd } from '../leftovers/other-back-end.ts'
import type { FirewallName } from '../chosen-firewall.ts'
import { firewallsIn, isOfMode, modesIn, type ProxyMode } from '../modes-in-kernel.ts'
import { type Look, type RulesSeen, type VirtualIpsSeen, withLook } from './look.ts'
import { otherNatChains } from './nat-chains.ts'
import { realServersOf } from './virtual-servers.ts'

/** Fields are named as `status --output json` prints them. */
export interface KernelState {
  /** Release of the kernel. */
  readonly kernel: string
  /** Kind of the link kube-ipvs0; null when there is none. */
  readonly device: { readonly kind: string; readonly addresses: readonly string[] } | null
  /** Virtual IPs with a local route of kube-ipvs, sorted. */
  readonly localRoutes: readonly string[]
  /** /proc/sys/net/ipv6/conf/all/forwarding; null without IPv6. Never written by kube-ipvs. */
  readonly ipv6Forwarding: boolean | null
  /**
   * The back end of iptables that this node uses; null when there is none. `reason` explains the
   * choice to the user. `other`: chains of a proxy in the back end that is not in use; null when
   * there are none.
   */
  readonly iptables: {
    readonly backEnd: 'nft' | 'legacy' | null
    readonly reason: string
    readonly other: OtherBackEnd | null
  }
  /** Our sets; null when the kernel has no ipset. */
  readonly sets: SetsState | null
  /** null when the kernel has no IPVS. */
  readonly ipvs: IpvsState | null
  /** The modes that the kernel has something of. */
  readonly modes: readonly ProxyMode[]
  /** The firewalls of ipvs mode that the kernel has something of. */
  readonly firewalls: readonly FirewallName[]
  /**
   * Chains of type nat beside iptables that others made, as `inet cni_hostport prerouting`: they may
   * translate packets to Services.
   */
  readonly natChains: readonly NatChainState[]
  /** Addresses and node ports that rules of iptables mode serve; null when there are no such rules. */
  readonly rules: readonly SavedFrontend[] | null
  /**
   * Running processes that look like service proxies of this node, in the order of their ids; of
   * two each undoes what the other writes.
   */
  readonly processes: readonly ProxyProcess[]
}

export interface NatChainState {
  readonly chain: string
  readonly priority: number
  /** The firewalls of ipvs mode that do not keep it from packets to Services. */
  readonly takesFrom: readonly FirewallName[]
}

export interface IpvsState {
  readonly version: string
  readonly timeoutsSeconds: { readonly tcp: number; readonly tcpFin: number; readonly udp: number }
  readonly virtualServers: readonly VirtualServerState[]
  /** Virtual servers by firewall mark: never ours. */
  readonly fwmarkVirtualServers: number
  /** Virtual servers of protocols that no Service has: never ours. */
  readonly unknownVirtualServers: number
}

export interface VirtualServerState extends SettingsInWords {
  readonly key: string
  readonly realServers: readonly RealServerState[]
}

export interface RealServerState {
  readonly key: string
  readonly forwarding: string
  readonly weight: number
  readonly activeConnections: number
  readonly inactiveConnections: number
  /** It keeps its connections and gets no new ones (`isDraining`). */
  readonly draining: boolean
}

/** Our sets of both families. */
export interface SetsState {
  readonly count: number
  readonly entries: number
  /** Sets that were enlarged because they were full. */
  readonly grown: readonly { readonly name: string; readonly maxElements: number }[]
}

/** Rejects when the kernel cannot be read (EPERM). */
export function readKernelState(signal: AbortSignal): Promise<KernelState> {
  return withLook(async (look) => {
    const virtualIps = await look.virtualIps(signal)
    const device = await deviceState(look, virtualIps, signal)
    const ipvs = await ipvsState(look, signal)
    const rules = await look.rules(signal)
    return {
      kernel: kernelRelease(),
      device,
      localRoutes: Array.from(virtualIps.routes.keys()).sort(),
      ipv6Forwarding: isSysctlOn('net/ipv6/conf/all/forwarding') ?? null,
      ...(await rulesState(look, rules, signal)),
      sets: await setsState(look, signal),
      ipvs,
      modes: modesIn({ ...virtualIps, ...rules }),
      firewalls: firewallsIn({ ...virtualIps, ...rules }),
      natChains: await natChainsState(signal),
      processes: (await findOtherProxies()).found,
    }
  })
}

async function deviceState(
  { rtnetlink }: Look,
  { device }: VirtualIpsSeen,
  signal: AbortSignal,
): Promise<KernelState['device']> {
  if (device === undefined) return null
  const listed = await rtnetlink.listAddresses({ interfaceIndex: device.index, signal })
  return { kind: device.kind, addresses: listed.map(({ address, prefixLength }) => `${address}/${prefixLength}`) }
}

async function ipvsState(look: Look, signal: AbortSignal): Promise<IpvsState | null> {
  const ipvs = await look.ipvs(signal)
  if (ipvs === undefined) return null
  const services = await ipvs.listServices({ signal })
  const unknownVirtualServers = ipvs.unknownServices
  const ids = services.flatMap((service) => (service.kind === 'address' ? [service.fields] : []))
  const virtualServers: VirtualServerState[] = []
  for await (const { id, destinations } of realServersOf(ipvs, ids, signal))
    virtualServers.push(virtualServerState(id, destinations))
  const [info, timeouts] = [await ipvs.info({ signal }), await ipvs.getTimeouts({ signal })]
  return {
    version: info.version,
    timeoutsSeconds: { tcp: timeouts.tcpSeconds, tcpFin: timeouts.tcpFinSeconds, udp: timeouts.udpSeconds },
    virtualServers: virtualServers.sort((a, b) => (a.key < b.key ? -1 : 1)),
    fwmarkVirtualServers: services.length - ids.length,
    unknownVirtualServers,
  }
}

/** A virtual server as the kernel lists it, with its real servers in order. */
export function virtualServerState(
  fields: VirtualServerFields,
  destinations: readonly DecodedDestination[],
): VirtualServerState {
  return {
    key: virtualServerKey(fields),
    ...settingsInWords(fields),
    realServers: destinations
      .map(({ realServer, activeConnections, inactiveConnections }) => ({
        key: realServerKey(realServer),
        forwarding: realServer.forwarding,
        weight: realServer.weight,
        activeConnections,
        inactiveConnections,
        draining: isDraining(fields.protocol, realServer),
      }))
      .sort((a, b) => (a.key < b.key ? -1 : 1)),
  }
}

async function rulesState(
  look: Look,
  { choice, saved, unread }: RulesSeen,
  signal: AbortSignal,
): Promise<Pick<KernelState, 'iptables' | 'rules'>> {
  if (choice === undefined) return withoutRules(unread)
  let rules: readonly SavedFrontend[] | null = null
  for (const family of look.families) {
    const { [family]: tables } = saved
    if (tables !== undefined && isOfMode('iptables', tables))
      rules = [...(rules ?? []), ...savedFrontends(tables, family)]
  }
  try {
    const other = (await chainsInOtherBackEnd(look.families, choice, signal)) ?? null
    return { iptables: { backEnd: choice.mode, reason: choice.reason, other }, rules }
  } catch (error) {
    if (!(error instanceof CodedError)) throw error
    return withoutRules(error)
  }
}

const MAX_NAT_CHAINS = 20

async function natChainsState(signal: AbortSignal): Promise<KernelState['natChains']> {
  const chains = (await otherNatChains(signal)).slice(0, MAX_NAT_CHAINS)
  return chains.map(({ family, table, chain, priority }) => ({
    chain: `${family} ${table} ${chain}`,
    priority,
    takesFrom: (['iptables', 'nftables'] as const).filter((firewall) => mayTranslate(priority, firewall)),
  }))
}

function withoutRules(reason: CodedError | undefined): Pick<KernelState, 'iptables' | 'rules'> {
  return { iptables: { backEnd: null, reason: reason?.message ?? '', other: null }, rules: null }
}

async function setsState(look: Look, signal: AbortSignal): Promise<SetsState | null> {
  const listed = await (await look.ipset(signal))?.listSets({ signal })
  if (listed === undefined) return null
  const sets = listed.filter(({ name }) => definitionOf(name) !== undefined)
  const grown = sets.filter(({ maxElements }) => maxElements > MAX_ELEMENTS)
  return {
    count: sets.length,
    entries: sets.reduce((sum, { elements }) => sum + elements, 0),
    grown: grown.map(({ name, maxElements }) => ({ name, maxElements })),
  }
}
