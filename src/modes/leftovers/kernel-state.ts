/**
 * Reads what proxies of any mode have in the kernel, for `kube-ipvs status`. This changes nothing, and needs neither a running
 * daemon nor the API server.
 */
import { readFileSync } from 'node:fs'
import { openRtnetlink } from '../../../native/open.ts'
import { definitionOf, MAX_ELEMENTS } from '../../ipset/catalogue.ts'
import type { SavedTables } from '../../iptables/save-text.ts'
import { liveRoutes } from '../../ipvs/route-diff.ts'
import { listOwnRoutes } from '../../ipvs/routes.ts'
import type { DecodedDestination } from '../../ipvs/codec-servers.ts'
import { isDraining } from '../../ipvs/drains.ts'
import { schedulerFlagNames } from '../../ipvs/text.ts'
import {
  FLAG_ONE_PACKET,
  FLAG_PERSISTENT,
  realServerKey,
  type VirtualServerFields,
  virtualServerKey,
} from '../../ipvs/types.ts'
import { ipFamilies, kernelRelease } from '../../node/host.ts'
import { HostIptables } from '../../node/iptables-programs.ts'
import { findOtherProxies, type ProxyProcess } from '../../node/other-proxies.ts'
import { CodedError } from '../../values/errors.ts'
import { SERVICE_DEVICE } from '../../values/well-known.ts'
import { type SavedFrontend, savedFrontends } from '../iptables/saved-frontends.ts'
import { chooseBackEnd } from '../iptables-back-end.ts'
import { openIpset, openIpvs, unlessMissing } from '../ipvs/kernel.ts'
import { isOfMode, modesIn, type ProxyMode } from '../modes-in-kernel.ts'
import { readRulesOf } from '../nft-access.ts'
import { CLEANUP_LAYOUT } from './layouts.ts'
import { chainsInOtherBackEnd, type OtherBackEnd } from './other-back-end.ts'

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
   * The back end of iptables that this node uses; null when there is none. `reason` explains the choice to the user. `other`: chains of
   * a proxy in the back end that is not in use; null when there are none.
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
  /** Addresses and node ports that rules of iptables mode serve; null when there are no such rules. */
  readonly rules: readonly SavedFrontend[] | null
  /** Running processes that look like service proxies of this node, in the order of their ids; of two each undoes what the other writes. */
  readonly processes: readonly ProxyProcess[]
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

export interface VirtualServerState {
  readonly key: string
  readonly scheduler: string
  readonly flags: readonly string[]
  /** Seconds; 0 when not persistent. */
  readonly persistenceTimeoutSeconds: number
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
export async function readKernelState(signal: AbortSignal): Promise<KernelState> {
  const { device, localRoutes } = await readVirtualIps(signal)
  const ipvs = await readIpvs(signal)
  const { iptables, rules, saved } = await readRules(signal)
  return {
    kernel: kernelRelease(),
    device,
    localRoutes,
    ipv6Forwarding: readFlag('/proc/sys/net/ipv6/conf/all/forwarding'),
    iptables,
    sets: await readSets(signal),
    ipvs,
    modes: modesIn({ hasDevice: device !== null, hasLocalRoutes: localRoutes.length > 0, rules: saved }),
    rules,
    processes: (await findOtherProxies()).found,
  }
}

async function readVirtualIps(signal: AbortSignal): Promise<Pick<KernelState, 'device' | 'localRoutes'>> {
  const rtnetlink = openRtnetlink()
  try {
    const localRoutes = Array.from(liveRoutes(await listOwnRoutes(rtnetlink, ipFamilies(), { signal })).keys()).sort()
    const link = await rtnetlink.getLink(SERVICE_DEVICE, { signal })
    if (link === undefined) return { device: null, localRoutes }
    const listed = await rtnetlink.listAddresses({ interfaceIndex: link.index, signal })
    const addresses = listed.map(({ address, prefixLength }) => `${address}/${prefixLength}`)
    return { device: { kind: link.kind, addresses }, localRoutes }
  } finally {
    rtnetlink.close()
  }
}

async function readIpvs(signal: AbortSignal): Promise<IpvsState | null> {
  const ipvs = await unlessMissing('ipvs-missing', () => openIpvs(signal))
  if (ipvs === undefined) return null
  try {
    const services = await ipvs.listServices({ signal })
    const virtualServers: VirtualServerState[] = []
    for (const service of services)
      if (service.kind === 'address')
        virtualServers.push(virtualServerState(service.fields, await ipvs.listDestinations(service.fields, { signal })))
    const [info, timeouts] = [await ipvs.info({ signal }), await ipvs.getTimeouts({ signal })]
    return {
      version: info.version,
      timeoutsSeconds: { tcp: timeouts.tcpSeconds, tcpFin: timeouts.tcpFinSeconds, udp: timeouts.udpSeconds },
      virtualServers: virtualServers.sort((a, b) => (a.key < b.key ? -1 : 1)),
      fwmarkVirtualServers: services.filter((service) => service.kind === 'fwmark').length,
      unknownVirtualServers: ipvs.unknownServices,
    }
  } finally {
    ipvs.close()
  }
}

/** A virtual server as the kernel lists it, with its real servers in order. */
export function virtualServerState(
  fields: VirtualServerFields,
  destinations: readonly DecodedDestination[],
): VirtualServerState {
  const flags = [
    ...((fields.flags & FLAG_PERSISTENT) === 0 ? [] : ['persistent']),
    ...((fields.flags & FLAG_ONE_PACKET) === 0 ? [] : ['one-packet']),
    ...schedulerFlagNames(fields.scheduler, fields.flags),
  ]
  return {
    key: virtualServerKey(fields),
    scheduler: fields.scheduler,
    flags,
    persistenceTimeoutSeconds: (fields.flags & FLAG_PERSISTENT) === 0 ? 0 : fields.timeoutSeconds,
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

interface ReadRules extends Pick<KernelState, 'iptables' | 'rules'> {
  readonly saved: readonly SavedTables[]
}

async function readRules(signal: AbortSignal): Promise<ReadRules> {
  const all: SavedTables[] = []
  try {
    const choice = await chooseBackEnd(ipFamilies(), signal, { mayLoadModules: false })
    const iptables = new HostIptables(choice)
    let rules: readonly SavedFrontend[] | null = null
    for (const family of ipFamilies()) {
      if (choice.unusable[family] !== undefined) continue
      const { saved } = await readRulesOf(iptables, family, CLEANUP_LAYOUT, signal)
      all.push(saved)
      if (isOfMode('iptables', saved)) rules = [...(rules ?? []), ...savedFrontends(saved, family)]
    }
    const other = (await chainsInOtherBackEnd(ipFamilies(), choice, signal)) ?? null
    return { iptables: { backEnd: choice.mode, reason: choice.reason, other }, rules, saved: all }
  } catch (error) {
    if (!(error instanceof CodedError)) throw error
    return { iptables: { backEnd: null, reason: error.message, other: null }, rules: null, saved: all }
  }
}

async function readSets(signal: AbortSignal): Promise<SetsState | null> {
  const ipset = await unlessMissing('ipset-missing', () => openIpset(signal))
  if (ipset === undefined) return null
  try {
    const sets = (await ipset.listSets({ signal })).filter(({ name }) => definitionOf(name) !== undefined)
    const grown = sets.filter(({ maxElements }) => maxElements > MAX_ELEMENTS)
    return {
      count: sets.length,
      entries: sets.reduce((sum, { elements }) => sum + elements, 0),
      grown: grown.map(({ name, maxElements }) => ({ name, maxElements })),
    }
  } finally {
    ipset.close()
  }
}

function readFlag(file: string): boolean | null {
  try {
    return readFileSync(file, 'utf8').trim() !== '0'
  } catch {
    // The kernel has no IPv6.
    return null
  }
}
