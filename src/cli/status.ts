/**
 * `kube-ipvs status`: what the kernel has now, as a summary and a table for each mode that has something there. The kernel
 * is what is shown, so it works when neither daemon nor API server does.
 */
import type { DecodedDestination } from '../ipvs/codec-servers.ts'
import { schedulerFlagNames } from '../ipvs/text.ts'
import {
  FLAG_ONE_PACKET,
  FLAG_PERSISTENT,
  realServerKey,
  type VirtualServerFields,
  virtualServerKey,
} from '../ipvs/types.ts'
import type { SavedFrontend } from '../modes/iptables/saved-frontends.ts'
import { type Cell, type Column, formatColumns, type Style } from './terminal.ts'

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
  /** `namespace/name:port`; null: no Service asks for it. Absent when Services were not listed. */
  readonly service?: string | null
  readonly scheduler: string
  readonly flags: readonly string[]
  /** Seconds; 0 when not persistent. */
  readonly persistenceTimeoutSeconds: number
  readonly realServers: readonly RealServerStatus[]
}

/** IPVS as it is in the kernel. */
export interface IpvsStatus {
  readonly version: string
  readonly timeoutsSeconds: { readonly tcp: number; readonly tcpFin: number; readonly udp: number }
  readonly virtualServers: readonly VirtualServerStatus[]
  /** Virtual servers by firewall mark: never ours. */
  readonly fwmarkVirtualServers: number
  /** Virtual servers of protocols that no Service has: never ours. */
  readonly unknownVirtualServers: number
  /** Who named the Services of virtual servers; absent when nobody was asked, or nobody answered. */
  readonly namesFrom?: string
}

export interface Status {
  /** Of the proxy that answers, else by what the kernel has; null when that is nothing, or of both modes. */
  readonly mode: string | null
  /** The metrics address that was asked for the mode. */
  readonly proxy: { readonly address: string; readonly answers: boolean }
  readonly version: string
  readonly kernel: string
  /** Kind of the link kube-ipvs0; null when there is none. */
  readonly device: { readonly kind: string; readonly addresses: readonly string[] } | null
  /** /proc/sys/net/ipv6/conf/all/forwarding; null without IPv6. Never written by kube-ipvs. */
  readonly ipv6Forwarding: boolean | null
  /** The back end of iptables that this node uses; null when there is none. `reason`: why, for people. */
  readonly iptables: { readonly backEnd: 'nft' | 'legacy' | null; readonly reason: string }
  /** Our sets; null when the kernel has no ipset. */
  readonly sets: SetsStatus | null
  /** null when the kernel has no IPVS. */
  readonly ipvs: IpvsStatus | null
  /** What rules of iptables mode serve; null when there are no such rules. */
  readonly rules: readonly SavedFrontend[] | null
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

/** The lines of `kube-ipvs status`. */
export function statusText(status: Status, style: Style): string[] {
  const { ipvs, rules, mode } = status
  const virtualServers = ipvs?.virtualServers ?? []
  const tables = [
    ...(virtualServers.length > 0 || mode === 'ipvs' ? [virtualServerTable(virtualServers, style)] : []),
    ...(rules !== null && (rules.length > 0 || mode === 'iptables') ? [ruleTable(rules, style)] : []),
  ]
  return [...summary(status, style), ...tables.flatMap((lines) => ['', ...lines])]
}

const REAL_SERVER_COLUMNS: readonly Column[] = [
  { title: 'REAL SERVER' },
  { title: 'WEIGHT', align: 'right' },
  { title: 'ACTIVE', align: 'right' },
  { title: 'INACTIVE', align: 'right' },
]

/** The table of virtual servers alone: a line for each real server, the virtual server named on its first. */
function virtualServerTable(virtualServers: readonly VirtualServerStatus[], style: Style): string[] {
  const dim = (text: string): string => style('dim', text)
  const yellow = (text: string): string => style('yellow', text)
  const hasNames = virtualServers.some(({ service }) => service !== undefined)
  const rows = virtualServers.flatMap((virtual) => {
    const scheduler = [
      virtual.scheduler,
      ...virtual.flags,
      ...(virtual.persistenceTimeoutSeconds > 0 ? [`${virtual.persistenceTimeoutSeconds}s`] : []),
    ]
    const name: readonly Cell[] = [
      { text: virtual.key, paint: (text: string) => style('bold', text) },
      ...(hasNames ? [virtual.service ?? { text: 'none', paint: yellow }] : []),
      scheduler.join(' '),
    ]
    if (virtual.realServers.length === 0) return [[...name, { text: 'none: connections are refused', paint: yellow }]]
    return virtual.realServers.map((server, index) => [
      ...(index === 0 ? name : name.map(() => '')),
      { text: server.key, paint: (text: string) => (server.draining ? yellow(text) : text) },
      server.draining ? { text: '0 draining', paint: yellow } : String(server.weight),
      String(server.activeConnections),
      String(server.inactiveConnections),
    ])
  })
  const columns = [
    { title: 'VIRTUAL SERVER' },
    ...(hasNames ? [{ title: 'SERVICE' }] : []),
    { title: 'SCHEDULER' },
    ...REAL_SERVER_COLUMNS,
  ]
  return formatColumns(columns, rows, { paintTitle: dim })
}

/** What iptables mode serves: a line for each endpoint, Service and address named on the first. */
function ruleTable(rules: readonly SavedFrontend[], style: Style): string[] {
  const yellow = (text: string): string => style('yellow', text)
  const rows = rules.flatMap(({ service, key, kind, endpoints, without }): (readonly Cell[])[] => {
    const name = [{ text: key, paint: (text: string) => style('bold', text) }, service, kind]
    const [first, ...more] = endpoints
    if (first !== undefined) return [[...name, first], ...more.map((endpoint) => ['', '', '', endpoint])]
    return [[...name, { text: `none: connections are ${without ?? 'refused'}`, paint: yellow }]]
  })
  const columns = [{ title: 'ADDRESS' }, { title: 'SERVICE' }, { title: 'KIND' }, { title: 'ENDPOINT' }]
  return formatColumns(columns, rows, { paintTitle: (text) => style('dim', text) })
}

function summary(status: Status, style: Style): string[] {
  const { device, ipvs, rules, mode } = status
  const rows: (readonly [string, string])[] = [
    ['kube-ipvs', status.version],
    ['mode', modeText(status)],
    ['kernel', `${status.kernel}, ${ipvs === null ? 'no IPVS' : `IPVS ${ipvs.version}`}`],
  ]
  if (mode === 'ipvs' || device !== null)
    rows.push([
      'device',
      device === null
        ? 'kube-ipvs0 does not exist'
        : `kube-ipvs0 (${device.kind === '' ? 'no kind' : device.kind}), ${device.addresses.length} addresses`,
    ])
  const hasIpvs = mode === 'ipvs' || device !== null || (ipvs?.virtualServers.length ?? 0) > 0
  if (ipvs !== null && hasIpvs) rows.push(...ipvsRows(ipvs))
  rows.push(['iptables', `${status.iptables.backEnd ?? 'none'}: ${status.iptables.reason}`])
  if (hasIpvs) rows.push(['sets', setsText(status.sets)])
  if (rules !== null) {
    const services = new Set(rules.map(({ service }) => service)).size
    const what = `${services} Service port${services === 1 ? '' : 's'}, ${rules.length} address${rules.length === 1 ? '' : 'es'}`
    rows.push(['rules', `${what}; names are comments of the rules`])
  }
  if (status.ipv6Forwarding === false)
    rows.push(['ipv6 forwarding', 'off: connections from outside to IPv6 addresses of Services time out'])
  return formatColumns(
    [{ title: '' }, { title: '' }],
    rows.map(([name, value]) => [{ text: name, paint: (text: string) => style('dim', text) }, value]),
  )
}

function ipvsRows(ipvs: IpvsStatus) {
  const { virtualServers, timeoutsSeconds, namesFrom } = ipvs
  const all = virtualServers.flatMap(({ realServers }) => realServers)
  const draining = all.filter((it) => it.draining).length
  const { tcp, tcpFin, udp } = timeoutsSeconds
  return [
    ['virtual servers', virtualServersText(ipvs)],
    ['real servers', `${all.length}${draining === 0 ? '' : `, ${draining} draining`}`],
    ['timeouts', `tcp ${tcp}s, tcp fin ${tcpFin}s, udp ${udp}s`],
    [
      'names',
      namesFrom === undefined
        ? 'the kernel has none; --config, --kubeconfig or --manifests tells whom to ask'
        : `of Services, from ${namesFrom}`,
    ],
  ] as const
}

function virtualServersText({ virtualServers, fwmarkVirtualServers, unknownVirtualServers }: IpvsStatus): string {
  const others = [
    ...(fwmarkVirtualServers === 0 ? [] : [`${fwmarkVirtualServers} by firewall mark`]),
    ...(unknownVirtualServers === 0 ? [] : [`${unknownVirtualServers} of other protocols`]),
  ]
  return [virtualServers.length, ...others].join(' and ')
}

function modeText({ mode, proxy, device, rules }: Status): string {
  if (proxy.answers) return `${mode}, says the proxy at ${proxy.address}`
  const nobody = `no proxy answers at ${proxy.address}`
  if (mode !== null) return `${mode}, by what is in the kernel; ${nobody}`
  return `${device === null && rules === null ? 'none' : 'ipvs and iptables, by what is in the kernel'}; ${nobody}`
}

function setsText(sets: SetsStatus | null): string {
  if (sets === null) return 'the kernel has no ipset'
  const grown = sets.grown.map(({ name, maxElements }) => `, ${name} grown to ${maxElements}`)
  return `${sets.count} with ${sets.entries} entries${grown.join('')}`
}
