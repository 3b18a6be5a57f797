/** The text of `kube-ipvs status`: a summary of what the kernel has, and a table for each mode that has something there. */
import type { Fallback } from '../modes/fallback.ts'
import type { SavedFrontend } from '../modes/iptables/saved-frontends.ts'
import type { IpvsState, KernelState, SetsState, VirtualServerState } from '../modes/leftovers/kernel-state.ts'
import { quote } from '../values/quote.ts'
import { type Cell, type Column, formatColumns, type Style } from './terminal.ts'

export interface VirtualServerStatus extends VirtualServerState {
  /** `namespace/name:port`; null: no Service owns it. Absent when Services were not listed. */
  readonly service?: string | null
}

export interface IpvsStatus extends IpvsState {
  readonly virtualServers: readonly VirtualServerStatus[]
  /** The source of the names of Services; absent when none was queried, or none answered. */
  readonly namesFrom?: string
}

/** What `status --output json` prints. */
export interface Status extends KernelState {
  /** The mode of the proxy that answers, else the mode whose items the kernel has; null when it has none, or items of both modes. */
  readonly mode: string | null
  /**
   * Why the node is in iptables mode although ipvs mode is configured: of the proxy that answers, else for a configuration that was
   * given and as the kernel is now. null: nothing is missing, or nothing is known.
   */
  readonly fallback: Fallback | null
  /** The metrics address that was queried for the mode. */
  readonly proxy: { readonly address: string; readonly answers: boolean }
  readonly version: string
  readonly ipvs: IpvsStatus | null
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
    ...fallbackRows(status),
    ...processRows(status),
    ['kernel', `${status.kernel}, ${ipvs === null ? 'no IPVS' : `IPVS ${ipvs.version}`}`],
  ]
  if (mode === 'ipvs' || device !== null)
    rows.push([
      'device',
      device === null
        ? 'kube-ipvs0 does not exist'
        : `kube-ipvs0 (${device.kind === '' ? 'no kind' : device.kind}), ${device.addresses.length} addresses`,
    ])
  if (status.localRoutes.length > 0) rows.push(['local routes', `${status.localRoutes.length} virtual IPs`])
  const hasIpvs = mode === 'ipvs' || device !== null || (ipvs?.virtualServers.length ?? 0) > 0
  if (ipvs !== null && hasIpvs) rows.push(...ipvsRows(ipvs))
  const { backEnd, reason, other } = status.iptables
  rows.push(['iptables', `${backEnd ?? 'none'}: ${reason}`])
  if (other !== null)
    rows.push([
      'other back end',
      `${other.chains} chains of a proxy are in iptables-${other.backEnd} too: "kube-ipvs cleanup" removes them`,
    ])
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

function processRows({ processes }: Status): (readonly [string, string])[] {
  if (processes.length < 2) return []
  const names = processes.map(({ pid, name }) => `${quote(name)} (pid ${pid})`).join(', ')
  return [['proxies', `${names}: of two proxies each undoes what the other writes`]]
}

function fallbackRows({ fallback, proxy }: Status): (readonly [string, string])[] {
  if (fallback === null) return []
  const { reason, message, remedy } = fallback
  return [
    ['fallback', `${proxy.answers ? 'from ipvs mode' : 'ipvs mode cannot start'}: ${message} (${reason})`],
    ['remedy', remedy],
  ]
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
        ? 'the kernel has none; --config, --kubeconfig or --manifests names a source'
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
  if (proxy.answers) return `${mode}, reported by the proxy at ${proxy.address}`
  const noProxy = `no proxy answers at ${proxy.address}`
  if (mode !== null) return `${mode}, according to the kernel; ${noProxy}`
  return `${device === null && rules === null ? 'none' : 'ipvs and iptables, according to the kernel'}; ${noProxy}`
}

function setsText(sets: SetsState | null): string {
  if (sets === null) return 'the kernel has no ipset'
  const grown = sets.grown.map(({ name, maxElements }) => `, ${name} grown to ${maxElements} (kube-proxy refuses it)`)
  return `${sets.count} with ${sets.entries} entries${grown.join('')}`
}
