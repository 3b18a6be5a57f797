/** The tables of `kube-ipvs status`: virtual servers, what rules of iptables mode serve, problems and conflicts. */
import type { DaemonView } from '../inspect/view.ts'
import type { SavedFrontend } from '../modes/iptables/saved-frontends.ts'
import { printable } from '../values/quote.ts'
import { fitColumns, type FittedColumn } from './fitted-table.ts'
import type { RealServerStatus, Status, VirtualServerStatus } from './node-status.ts'
import { spanText } from './status-words.ts'
import type { Style } from '../start/style.ts'
import type { Cell } from './terminal.ts'

export interface StatusTextOptions {
  readonly style: Style
  /** Columns of the terminal; undefined: lines may have any length. */
  readonly width?: number | undefined
  /** A part was asked for: the summary of the node is left out, and problems are listed. */
  readonly isPartial?: boolean
}

/** A table for each mode that has something in the kernel; with a filter also what is wrong. Only tables with rows. */
export function statusTables(status: Status, { style, width, isPartial = false }: StatusTextOptions): string[][] {
  const { ipvs, rules, mode, daemon } = status
  const virtualServers = ipvs?.virtualServers ?? []
  const hasVirtual = virtualServers.length > 0 || (mode === 'ipvs' && !isPartial)
  const hasRules = rules !== null && (rules.length > 0 || (mode === 'iptables' && !isPartial))
  return [
    ...(hasVirtual ? [virtualServerTable(virtualServers, style, width)] : []),
    ...(hasRules ? [ruleTable(rules, style, width)] : []),
    ...(isPartial && daemon !== null ? problemTables(daemon, style, width) : []),
  ]
}

const VIRTUAL_SERVER_COLUMNS = {
  virtualServer: { title: 'VIRTUAL SERVER' },
  service: { title: 'SERVICE', leaveOut: 1 },
  scheduler: { title: 'SCHEDULER', leaveOut: 4 },
  realServer: { title: 'REAL SERVER' },
  weight: { title: 'WEIGHT', align: 'right', leaveOut: 2 },
  active: { title: 'ACTIVE', align: 'right', leaveOut: 3 },
  inactive: { title: 'INACTIVE', align: 'right', leaveOut: 5 },
} as const satisfies Readonly<Record<string, FittedColumn>>

/** The table of virtual servers alone: a line for each real server, the virtual server named on its first. */
function virtualServerTable(
  virtualServers: readonly VirtualServerStatus[],
  style: Style,
  width: number | undefined,
): string[] {
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
      {
        text: server.key,
        paint: (text: string) => (server.draining || server.outlier !== undefined ? yellow(text) : text),
      },
      server.outlier !== undefined
        ? { text: outlierText(server.weight, server.outlier), paint: yellow }
        : server.draining
          ? { text: drainText(server), paint: yellow }
          : String(server.weight),
      String(server.activeConnections),
      String(server.inactiveConnections),
    ])
  })
  const { service, ...others } = VIRTUAL_SERVER_COLUMNS
  const { virtualServer, ...more } = others
  const columns = [virtualServer, ...(hasNames ? [service] : []), ...Object.values(more)]
  return fitColumns(columns, rows, { paintTitle: (text) => style('dim', text), width })
}

/** `0 suspect 12s`: it does not answer, since 12 s. */
function outlierText(weight: number, { state, seconds }: NonNullable<RealServerStatus['outlier']>): string {
  return `${weight} ${state} ${spanText(seconds)}`
}

/** `0 draining`, with the time since the daemon noticed it and its deadline. */
function drainText({ drain }: RealServerStatus): string {
  if (drain === undefined) return '0 draining'
  const { seconds, deadlineSeconds } = drain
  return `0 draining ${spanText(seconds)}${deadlineSeconds === null ? '' : ` of ${spanText(deadlineSeconds)}`}`
}

/** What iptables mode serves: a line for each endpoint, Service and address named on the first. */
function ruleTable(rules: readonly SavedFrontend[], style: Style, width: number | undefined): string[] {
  const yellow = (text: string): string => style('yellow', text)
  const rows = rules.flatMap(({ service, key, kind, endpoints, without }): (readonly Cell[])[] => {
    const name = [{ text: key, paint: (text: string) => style('bold', text) }, service, kind]
    const [first, ...more] = endpoints
    if (first !== undefined) return [[...name, first], ...more.map((endpoint) => ['', '', '', endpoint])]
    return [[...name, { text: `none: connections are ${without ?? 'refused'}`, paint: yellow }]]
  })
  const columns = [
    { title: 'ADDRESS' },
    { title: 'SERVICE', leaveOut: 1 },
    { title: 'KIND', leaveOut: 2 },
    { title: 'ENDPOINT' },
  ]
  return fitColumns(columns, rows, { paintTitle: (text) => style('dim', text), width })
}

/** What is wrong with objects and with the node, and which addresses several Services claim. */
function problemTables(daemon: DaemonView, style: Style, width: number | undefined): string[][] {
  const paintTitle = (text: string): string => style('dim', text)
  const bold = (text: string): Cell => ({ text, paint: (one) => style('bold', one) })
  const problems = daemon.problems.map(({ subject, field, message }) => [
    bold(printable(subject)),
    printable(field === undefined ? message : `${field}: ${message}`),
  ])
  const conflicts = daemon.conflicts.map(({ key, owner, others }) => [bold(key), owner, others.join(', ')])
  const problemColumns = [{ title: 'OBJECT' }, { title: 'PROBLEM', wraps: true }]
  const conflictColumns = [{ title: 'ADDRESS' }, { title: 'OWNER' }, { title: 'CLAIMED TOO BY', wraps: true }]
  return [
    ...(problems.length === 0 ? [] : [fitColumns(problemColumns, problems, { paintTitle, width })]),
    ...(conflicts.length === 0 ? [] : [fitColumns(conflictColumns, conflicts, { paintTitle, width })]),
  ]
}
