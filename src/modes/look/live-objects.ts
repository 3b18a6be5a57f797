/**
 * Reads what the kernel has for a few addresses and ports, whichever mode wrote it, for `kube-ipvs explain`. It changes nothing and needs
 * no daemon. What the kernel lacks is null.
 */
import { EntryTable } from '../../ipset/tables.ts'
import type { SetEntry, SetEntryKey } from '../../ipset/types.ts'
import { type BoundAddress, liveAddresses } from '../../ipvs/address-diff.ts'
import type { Connections } from '../../ipvs/drains.ts'
import { sortedRealServers } from '../../ipvs/table.ts'
import {
  type RealServerKey,
  realServerKey,
  type VirtualServer,
  type VirtualServerId,
  virtualServerKey,
  type VirtualServerKey,
} from '../../ipvs/types.ts'
import { onlyMode, type ProxyMode } from '../modes-in-kernel.ts'
import { type Look, modesSeen, type RulesSeen, type VirtualIpsSeen } from './look.ts'
import { allVirtualServers, realServersOf } from './virtual-servers.ts'

/** Since the virtual server was added. */
export interface VirtualServerTraffic {
  readonly connections: number
  readonly packetsIn: number
  readonly packetsOut: number
  readonly bytesIn: number
  readonly bytesOut: number
}

export interface LiveVirtualServer {
  readonly server: VirtualServer
  /** At this moment, through this virtual server. */
  readonly connections: ReadonlyMap<RealServerKey, Connections>
  readonly traffic: VirtualServerTraffic
}

export interface LiveObjects extends VirtualIpsSeen, Omit<RulesSeen, 'choice'> {
  /** Those that were asked for; null without IPVS. */
  readonly virtualServers: ReadonlyMap<VirtualServerKey, LiveVirtualServer> | null
  /** Of our sets of both families; null without ipset. */
  readonly entries: ReadonlyMap<SetEntryKey, SetEntry> | null
  /** On kube-ipvs0; null: there is no such device. */
  readonly addresses: ReadonlyMap<string, BoundAddress> | null
}

export interface LiveObjectsOptions {
  /** Which virtual servers to read. */
  readonly isWanted: (id: VirtualServerId) => boolean
  /** Whether rules are of interest. */
  readonly readsRules: boolean
  readonly signal: AbortSignal
}

const NO_TRAFFIC: VirtualServerTraffic = { connections: 0, packetsIn: 0, packetsOut: 0, bytesIn: 0, bytesOut: 0 }

/** Rejects when the kernel cannot be read (EPERM). */
export async function readLiveObjects(look: Look, options: LiveObjectsOptions): Promise<LiveObjects> {
  const { signal, readsRules } = options
  const virtualServers = await readVirtualServers(look, options)
  const entries = await readEntries(look, signal)
  const virtualIps = await look.virtualIps(signal)
  return {
    virtualServers,
    entries,
    ...virtualIps,
    addresses: await readAddresses(look, virtualIps, signal),
    ...(readsRules ? await look.rules(signal) : { saved: {}, unread: undefined }),
  }
}

async function readVirtualServers(
  look: Look,
  { isWanted, signal }: LiveObjectsOptions,
): Promise<LiveObjects['virtualServers']> {
  const ipvs = await look.ipvs(signal)
  if (ipvs === undefined) return null
  const found = new Map<VirtualServerKey, LiveVirtualServer>()
  const ids = (await allVirtualServers(ipvs, signal)).filter(isWanted)
  for await (const { id, destinations } of realServersOf(ipvs, ids, signal))
    found.set(virtualServerKey(id), {
      server: { ...id, realServers: sortedRealServers(destinations) },
      connections: new Map(
        destinations.map(({ realServer, activeConnections: active, inactiveConnections: inactive }) => [
          realServerKey(realServer),
          { active, inactive },
        ]),
      ),
      traffic: NO_TRAFFIC,
    })
  await ipvs.visitTraffic(
    (key, [connections = 0, packetsIn = 0, packetsOut = 0, bytesIn = 0, bytesOut = 0]) => {
      const live = found.get(key)
      if (live !== undefined)
        found.set(key, { ...live, traffic: { connections, packetsIn, packetsOut, bytesIn, bytesOut } })
    },
    { signal },
  )
  return found
}

async function readEntries(look: Look, signal: AbortSignal): Promise<LiveObjects['entries']> {
  const ipset = await look.ipset(signal)
  if (ipset === undefined) return null
  const { families } = look
  return new EntryTable(ipset, { families, onSetLost: () => undefined, onGrown: () => undefined }).list('all', signal)
}

async function readAddresses(
  { rtnetlink }: Look,
  { device }: VirtualIpsSeen,
  signal: AbortSignal,
): Promise<LiveObjects['addresses']> {
  if (device === undefined) return null
  return liveAddresses(await rtnetlink.listAddresses({ interfaceIndex: device.index, signal }))
}

/** The mode whose items these are; null: of none, or of both. */
export function modeOfLive(live: LiveObjects): ProxyMode | null {
  return onlyMode(modesSeen(live, live))
}
