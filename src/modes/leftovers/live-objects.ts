/**
 * Reads what the kernel has for a few addresses and ports, whichever mode wrote it, for `kube-ipvs explain`. It changes nothing and needs
 * no daemon. What the kernel lacks is null.
 */
import { openRtnetlink } from '../../../native/open.ts'
import { EntryTable } from '../../ipset/tables.ts'
import type { SetEntry, SetEntryKey } from '../../ipset/types.ts'
import type { SavedTables } from '../../iptables/save-text.ts'
import { type BoundAddress, liveAddresses } from '../../ipvs/address-diff.ts'
import { liveRoutes, type LocalRoute } from '../../ipvs/route-diff.ts'
import { listOwnRoutes } from '../../ipvs/routes.ts'
import {
  compareRealServers,
  type RealServerKey,
  realServerKey,
  type VirtualServer,
  type VirtualServerId,
  virtualServerKey,
  type VirtualServerKey,
} from '../../ipvs/types.ts'
import { ipFamilies } from '../../node/host.ts'
import { HostIptables } from '../../node/iptables-programs.ts'
import { CodedError } from '../../values/errors.ts'
import type { IpFamily } from '../../values/protocol.ts'
import { SERVICE_DEVICE } from '../../values/well-known.ts'
import { chooseBackEnd } from '../iptables-back-end.ts'
import { openIpset, openIpvs, unlessMissing } from '../ipvs/kernel.ts'
import { modesIn, onlyMode, type ProxyMode } from '../modes-in-kernel.ts'
import { readRulesOf } from '../nft-access.ts'
import { CLEANUP_LAYOUT } from './layouts.ts'

/** Connections of a real server at this moment, through one virtual server. */
export interface RealServerConnections {
  readonly active: number
  readonly inactive: number
}

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
  readonly connections: ReadonlyMap<RealServerKey, RealServerConnections>
  readonly traffic: VirtualServerTraffic
}

export interface LiveObjects {
  /** Those that were asked for; null without IPVS. */
  readonly virtualServers: ReadonlyMap<VirtualServerKey, LiveVirtualServer> | null
  /** Of our sets of both families; null without ipset. */
  readonly entries: ReadonlyMap<SetEntryKey, SetEntry> | null
  /** On kube-ipvs0; null: there is no such device. */
  readonly addresses: ReadonlyMap<string, BoundAddress> | null
  /** Our local routes. */
  readonly routes: ReadonlyMap<string, LocalRoute>
  /** Rules by family; a family is absent when they cannot be read, or were not asked for. */
  readonly rules: { readonly [family in IpFamily]?: SavedTables }
  /** Why rules are absent; '' when they are not. */
  readonly rulesUnread: string
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
export async function readLiveObjects(options: LiveObjectsOptions): Promise<LiveObjects> {
  const { signal, readsRules } = options
  return {
    virtualServers: await readVirtualServers(options),
    entries: await readEntries(signal),
    ...(await readAddresses(signal)),
    ...(readsRules ? await readRules(signal) : { rules: {}, rulesUnread: '' }),
  }
}

async function readVirtualServers({ isWanted, signal }: LiveObjectsOptions): Promise<LiveObjects['virtualServers']> {
  const ipvs = await unlessMissing('ipvs-missing', () => openIpvs(signal))
  if (ipvs === undefined) return null
  try {
    const found = new Map<VirtualServerKey, LiveVirtualServer>()
    for (const service of await ipvs.listServices({ signal })) {
      if (service.kind !== 'address' || !isWanted(service.fields)) continue
      const listed = await ipvs.listDestinations(service.fields, { signal })
      const realServers = listed.map(({ realServer }) => realServer).sort(compareRealServers)
      found.set(virtualServerKey(service.fields), {
        server: { ...service.fields, realServers },
        connections: new Map(
          listed.map(({ realServer, activeConnections: active, inactiveConnections: inactive }) => [
            realServerKey(realServer),
            { active, inactive },
          ]),
        ),
        traffic: NO_TRAFFIC,
      })
    }
    await ipvs.visitTraffic(
      (key, [connections = 0, packetsIn = 0, packetsOut = 0, bytesIn = 0, bytesOut = 0]) => {
        const live = found.get(key)
        if (live !== undefined)
          found.set(key, { ...live, traffic: { connections, packetsIn, packetsOut, bytesIn, bytesOut } })
      },
      { signal },
    )
    return found
  } finally {
    ipvs.close()
  }
}

async function readEntries(signal: AbortSignal): Promise<LiveObjects['entries']> {
  const ipset = await unlessMissing('ipset-missing', () => openIpset(signal))
  if (ipset === undefined) return null
  try {
    const table = new EntryTable(ipset, {
      families: ipFamilies(),
      onSetLost: () => undefined,
      onGrown: () => undefined,
    })
    return await table.list('all', signal)
  } finally {
    ipset.close()
  }
}

async function readAddresses(signal: AbortSignal): Promise<Pick<LiveObjects, 'addresses' | 'routes'>> {
  const rtnetlink = openRtnetlink()
  try {
    const routes = liveRoutes(await listOwnRoutes(rtnetlink, ipFamilies(), { signal }))
    const link = await rtnetlink.getLink(SERVICE_DEVICE, { signal })
    if (link === undefined) return { addresses: null, routes }
    return { addresses: liveAddresses(await rtnetlink.listAddresses({ interfaceIndex: link.index, signal })), routes }
  } finally {
    rtnetlink.close()
  }
}

async function readRules(signal: AbortSignal): Promise<Pick<LiveObjects, 'rules' | 'rulesUnread'>> {
  try {
    const choice = await chooseBackEnd(ipFamilies(), signal, { mayLoadModules: false })
    const iptables = new HostIptables(choice)
    const rules: { [family in IpFamily]?: SavedTables } = {}
    for (const family of ipFamilies())
      if (choice.unusable[family] === undefined)
        rules[family] = (await readRulesOf(iptables, family, CLEANUP_LAYOUT, signal)).saved
    return { rules, rulesUnread: '' }
  } catch (error) {
    if (!(error instanceof CodedError)) throw error
    return { rules: {}, rulesUnread: error.message }
  }
}

/** The mode whose items these are; null: of none, or of both. */
export function modeOfLive({ addresses, routes, rules }: LiveObjects): ProxyMode | null {
  return onlyMode(
    modesIn({ hasDevice: addresses !== null, hasLocalRoutes: routes.size > 0, rules: Object.values(rules) }),
  )
}
