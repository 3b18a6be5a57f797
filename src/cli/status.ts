/**
 * `kube-ipvs status`: what the kernel has now, as a summary and a table.
 * What could break: it asks nobody but the kernel, so it works when the daemon and the API server do not.
 */
import type { DecodedDestination } from '../ipvs/codec-destination.ts'
import { realServerKey, virtualServerKey } from '../ipvs/key.ts'
import { schedulerFlagNames } from '../ipvs/text.ts'
import { FLAG_ONE_PACKET, FLAG_PERSISTENT, type VirtualServerFields } from '../ipvs/types.ts'
import { type Column, formatColumns } from './columns.ts'
import type { Style } from './style.ts'

/** One real server as `status --output json` prints it. */
export interface RealServerStatus {
  readonly key: string
  readonly forwarding: string
  readonly weight: number
  readonly activeConnections: number
  readonly inactiveConnections: number
  /** Weight 0 in a TCP virtual server: it keeps its connections and gets no new ones. */
  readonly draining: boolean
}

export interface VirtualServerStatus {
  readonly key: string
  readonly scheduler: string
  readonly flags: readonly string[]
  /** Seconds; 0 when not persistent. */
  readonly persistenceTimeoutSeconds: number
  readonly realServers: readonly RealServerStatus[]
}

export interface Status {
  readonly mode: 'ipvs'
  readonly version: string
  readonly kernel: string
  readonly ipvsVersion: string
  /** Kind of the link kube-ipvs0; null when there is none. */
  readonly device: { readonly kind: string; readonly addresses: readonly string[] } | null
  /** /proc/sys/net/ipv6/conf/all/forwarding; null without IPv6. Never written by kube-ipvs. */
  readonly ipv6Forwarding: boolean | null
  /** The back end of iptables that this node uses; null when there is none. `reason`: why, for people. */
  readonly iptables: { readonly backEnd: 'nft' | 'legacy' | null; readonly reason: string }
  /** Our sets; null when the kernel has no ipset. */
  readonly sets: SetsStatus | null
  readonly timeoutsSeconds: { readonly tcp: number; readonly tcpFin: number; readonly udp: number }
  readonly virtualServers: readonly VirtualServerStatus[]
  /** Virtual servers by firewall mark: never ours. */
  readonly fwmarkVirtualServers: number
  /** Virtual servers of protocols that no Service has: never ours. */
  readonly unknownVirtualServers: number
}

/** Our sets of both families. */
export interface SetsStatus {
  readonly count: number
  readonly entries: number
  /** Sets that take more entries than they were made for, because they were full. */
  readonly grown: readonly { readonly name: string; readonly maxElements: number }[]
}

export function virtualServerStatus(
  fields: VirtualServerFields,
  destinations: readonly DecodedDestination[],
): VirtualServerStatus {
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
        draining: realServer.weight === 0 && fields.protocol === 'tcp',
      }))
      .sort((a, b) => (a.key < b.key ? -1 : 1)),
  }
}

const COLUMNS: readonly Column[] = [
  { title: 'VIRTUAL SERVER' },
  { title: 'SCHEDULER' },
  { title: 'REAL SERVER' },
  { title: 'WEIGHT', align: 'right' },
  { title: 'ACTIVE', align: 'right' },
  { title: 'INACTIVE', align: 'right' },
]

/** The lines of `kube-ipvs status`. */
export function statusText(status: Status, style: Style): string[] {
  return [...summary(status, style), '', ...virtualServerTable(status.virtualServers, style)]
}

/** The table of virtual servers alone: a line for each real server, the virtual server named on its first. */
export function virtualServerTable(virtualServers: readonly VirtualServerStatus[], style: Style): string[] {
  const dim = (text: string): string => style('dim', text)
  const rows = virtualServers.flatMap((virtual) => {
    const scheduler = [
      virtual.scheduler,
      ...virtual.flags,
      ...(virtual.persistenceTimeoutSeconds > 0 ? [`${virtual.persistenceTimeoutSeconds}s`] : []),
    ]
    const name = [{ text: virtual.key, paint: (text: string) => style('bold', text) }, scheduler.join(' ')]
    if (virtual.realServers.length === 0)
      return [[...name, { text: 'none: connections are refused', paint: (text: string) => style('yellow', text) }]]
    return virtual.realServers.map((server, index) => [
      ...(index === 0 ? name : ['', '']),
      { text: server.key, paint: (text: string) => (server.draining ? style('yellow', text) : text) },
      server.draining ? { text: '0 draining', paint: (text: string) => style('yellow', text) } : String(server.weight),
      String(server.activeConnections),
      String(server.inactiveConnections),
    ])
  })
  return formatColumns(COLUMNS, rows, { paintTitle: dim })
}

function summary(status: Status, style: Style): string[] {
  const { virtualServers, device, timeoutsSeconds } = status
  const realServers = virtualServers.reduce((count, virtual) => count + virtual.realServers.length, 0)
  const draining = virtualServers.reduce(
    (count, virtual) => count + virtual.realServers.filter((it) => it.draining).length,
    0,
  )
  const rows: [string, string][] = [
    ['kube-ipvs', `${status.version}, mode ${status.mode}`],
    ['kernel', `${status.kernel}, IPVS ${status.ipvsVersion}`],
    [
      'device',
      device === null
        ? 'kube-ipvs0 does not exist'
        : `kube-ipvs0 (${device.kind === '' ? 'no kind' : device.kind}), ${device.addresses.length} addresses`,
    ],
    ['virtual servers', virtualServersText(status)],
    ['real servers', `${realServers}${draining === 0 ? '' : `, ${draining} draining`}`],
    ['iptables', `${status.iptables.backEnd ?? 'none'}: ${status.iptables.reason}`],
    ['sets', setsText(status.sets)],
    ['timeouts', `tcp ${timeoutsSeconds.tcp}s, tcp fin ${timeoutsSeconds.tcpFin}s, udp ${timeoutsSeconds.udp}s`],
  ]
  if (status.ipv6Forwarding === false)
    rows.push(['ipv6 forwarding', 'off: connections from outside to IPv6 addresses of Services time out'])
  return formatColumns(
    [{ title: '' }, { title: '' }],
    rows.map(([name, value]) => [{ text: name, paint: (text: string) => style('dim', text) }, value]),
  )
}

function virtualServersText({ virtualServers, fwmarkVirtualServers, unknownVirtualServers }: Status): string {
  const others = [
    ...(fwmarkVirtualServers === 0 ? [] : [`${fwmarkVirtualServers} by firewall mark`]),
    ...(unknownVirtualServers === 0 ? [] : [`${unknownVirtualServers} of other protocols`]),
  ]
  return [virtualServers.length, ...others].join(' and ')
}

function setsText(sets: SetsStatus | null): string {
  if (sets === null) return 'the kernel has no ipset'
  const grown = sets.grown.map(({ name, maxElements }) => `, ${name} grown to ${maxElements}`)
  return `${sets.count} with ${sets.entries} entries${grown.join('')}`
}
