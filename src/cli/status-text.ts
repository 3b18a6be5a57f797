/** The text of `kube-ipvs status`: whether the node is fine, a summary, and the tables. */
import type { DaemonView, PassView } from '../inspect/view.ts'
import type { SetsState } from '../modes/look/kernel-state.ts'
import { printable, quote } from '../values/quote.ts'
import { breakText, fitColumns } from './fitted-table.ts'
import type { IpvsStatus, Status } from './node-status.ts'
import { statusTables, type StatusTextOptions } from './status-tables.ts'
import { count, spanText } from './status-words.ts'

/** The lines of `kube-ipvs status`. */
export function statusText(status: Status, options: StatusTextOptions): string[] {
  const { isPartial = false } = options
  const tables = statusTables(status, options)
  const parts = [
    verdictLines(status, options),
    ...(isPartial ? [] : [summary(status, options)]),
    ...(isPartial && tables.length === 0 ? [['Nothing matches.']] : tables),
  ]
  return parts.flatMap((lines, index) => (index === 0 ? lines : ['', ...lines]))
}

/** The answer to the question whether this node is fine: green, red, or yellow where that is not known. */
function verdictLines({ verdict, daemon, mode }: Status, { style, width }: StatusTextOptions): string[] {
  const { fine, reasons, notes } = verdict
  const counts =
    daemon === null ? [] : [count(daemon.counts.services, 'Service'), count(daemon.counts.frontends, 'address', 'es')]
  const text =
    fine === true
      ? `This node is fine: ${[`${mode} mode`, ...counts].join(', ')}${notes.map((note) => `; ${note}`).join('')}`
      : `${fine === false ? 'This node is not fine' : 'Cannot tell whether this node is fine'}: ${reasons.join('; ')}`
  const colour = fine === true ? 'green' : fine === false ? 'red' : 'yellow'
  return (width === undefined ? [text] : breakText(text, width)).map((line) => style(colour, line))
}

function summary(status: Status, { style, width }: StatusTextOptions): string[] {
  const { device, ipvs, rules, mode } = status
  const rows: (readonly [string, string])[] = [
    ['kube-ipvs', status.version],
    ['mode', modeText(status)],
    ...firewallRows(status),
    ...daemonRows(status),
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
  if (status.natChains.length > 0)
    rows.push([
      'other nat',
      status.natChains.map(({ chain, priority }) => `${printable(chain)} (priority ${priority})`).join(', '),
    ])
  // The nftables firewall has none.
  const hasSets = hasIpvs && (status.firewalls.length === 0 || status.firewalls.includes('iptables'))
  if (hasSets) rows.push(['sets', setsText(status.sets)])
  if (rules !== null) {
    const services = new Set(rules.map(({ service }) => service)).size
    const what = `${services} Service port${services === 1 ? '' : 's'}, ${rules.length} address${rules.length === 1 ? '' : 'es'}`
    rows.push(['rules', `${what}; names are comments of the rules`])
  }
  if (status.ipv6Forwarding === false)
    rows.push(['ipv6 forwarding', 'off: connections from outside to IPv6 addresses of Services time out'])
  return fitColumns(
    [{ title: '' }, { title: '', wraps: true }],
    rows.map(([name, value]) => [{ text: name, paint: (text: string) => style('dim', text) }, value]),
    { width },
  )
}

/** Which firewall ipvs mode uses and why; without a daemon that says so, which the kernel has. */
function firewallRows({ mode, daemon, firewalls }: Status): (readonly [string, string])[] {
  if (mode !== 'ipvs') return []
  const firewall = daemon?.firewall ?? undefined
  if (firewall !== undefined) return [['firewall', `${firewall.name}: ${printable(firewall.reason)}`]]
  return firewalls.length === 0 ? [] : [['firewall', `${firewalls.join(' and ')}, according to the kernel`]]
}

function daemonRows({ daemon, daemonUnknown, socket, rows }: Status): (readonly [string, string])[] {
  if (daemon === null) return daemonUnknown === null ? [] : [['daemon', daemonUnknown.reason]]
  const { pid, version, uptimeSeconds, health, passes, counts } = daemon
  const troubles = [
    ...(counts.problems === 0 ? [] : [count(counts.problems, 'problem')]),
    ...(counts.conflicts === 0 ? [] : [`${count(counts.conflicts, 'claim')} lost to another Service`]),
  ]
  const pending = health.pending.map(({ what, seconds }) => `${printable(what)} (${spanText(seconds)})`)
  return [
    ['daemon', `kube-ipvs ${printable(version)}, pid ${pid}, up ${spanText(uptimeSeconds)}, answers at ${socket}`],
    ...(rows === null ? [] : ([['objects', objectsText(rows)]] as const)),
    ...(pending.length === 0 ? [] : ([['pending', pending.join('; ')]] as const)),
    ...(passes.length === 0 ? [] : ([['last passes', passes.map(passText).join('; ')]] as const)),
    ...roomRows(daemon),
    ...(troubles.length === 0 ? [] : ([['problems', `${troubles.join(', ')}: --problems lists them`]] as const)),
  ]
}

/** What is wanted in the kernel and what is there, by state. */
function objectsText({ present, missing, extra, differs, draining, unread }: NonNullable<Status['rows']>): string {
  const others = { missing, extra, differs, draining }
  return [
    `${present} present`,
    ...Object.entries(others).flatMap(([state, number]) => (number === 0 ? [] : [`${number} ${state}`])),
    ...(unread.length === 0 ? [] : [`not counted: ${unread.map(printable).join(', ')}`]),
  ].join(', ')
}

/** The room is worth a line when little of it is left. */
const SCARCE = 0.8

function roomRows({ room }: DaemonView): readonly (readonly [string, string])[] {
  if (room === undefined || (room.leftOut.services === 0 && room.used < room.limit * SCARCE)) return []
  const { services, frontends } = room.leftOut
  const leftOut =
    services === 0
      ? ''
      : `; ${count(frontends, 'frontend')} of ${count(services, 'Service')} left out: --problems names them`
  return [['room', `${room.used} of ${room.limit} real servers (kubeIPVS.maxRealServers)${leftOut}`]]
}

function passText({ what, endedSecondsAgo, durationMs, applied, failed, unreadable }: PassView): string {
  const ago = endedSecondsAgo === null ? 'never' : `${spanText(endedSecondsAgo)} ago`
  const counts = [
    count(applied, 'operation'),
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(unreadable > 0 ? [`${unreadable} unreadable`] : []),
  ]
  return `${what === 'tables' ? 'tables' : `rules ${what}`} ${ago}, ${counts.join(', ')} in ${durationMs} ms`
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
  const silent = all.filter((it) => it.outlier !== undefined).length
  const { tcp, tcpFin, udp } = timeoutsSeconds
  return [
    ['virtual servers', virtualServersText(ipvs)],
    [
      'real servers',
      `${all.length}${draining === 0 ? '' : `, ${draining} draining`}${silent === 0 ? '' : `, ${silent} that do not answer`}`,
    ],
    ['timeouts', `tcp ${tcp}s, tcp fin ${tcpFin}s, udp ${udp}s`],
    [
      'names',
      namesFrom === undefined
        ? 'the kernel has none, and no daemon answers; --config, --kubeconfig or --manifests names another source'
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

function modeText({ mode, proxy, device, rules, daemon }: Status): string {
  if (daemon !== null)
    return mode === daemon.configuredMode ? daemon.mode : `${daemon.mode}; configured: ${daemon.configuredMode}`
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
