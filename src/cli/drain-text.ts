/** What `kube-ipvs drain` prints: the drains there are, and how far a wait for the end of connections is. */
import type { DrainView, OutlierView } from '../inspect/view.ts'
import type { LiveDrain } from '../modes/look/virtual-servers.ts'
import type { ConnectionCounts } from '../modes/look/connections.ts'
import { type FittedColumn, fitColumns } from './fitted-table.ts'
import type { Style } from '../start/style.ts'

/** A drain as the kernel counts it, with what only the daemon knows. */
export interface Drain extends LiveDrain {
  /** `namespace/name:port`; null: no Service owns it any more, or unknown. */
  readonly servicePort: string | null
  /** Since the daemon noticed it; null: unknown. */
  readonly seconds: number | null
  /** The longest that it may take, from its beginning; null: no deadline, or unknown. */
  readonly deadlineSeconds: number | null
}

/** The kernel's drains, those that the daemon has known longest first. @param known absent: no daemon answers */
export function joinDrains(live: readonly LiveDrain[], known: readonly DrainView[] = []): readonly Drain[] {
  const views = new Map(known.map((view) => [`${view.virtualServer} ${view.realServer}`, view]))
  const drains = live.map((drain): Drain => {
    const view = views.get(`${drain.virtualServer} ${drain.realServer}`)
    return {
      ...drain,
      servicePort: view?.servicePort ?? null,
      seconds: view?.seconds ?? null,
      deadlineSeconds: view?.deadlineSeconds ?? null,
    }
  })
  return drains.toSorted((a, b) => (b.seconds ?? -1) - (a.seconds ?? -1) || (name(a) < name(b) ? -1 : 1))
}

const name = ({ virtualServer, realServer }: Pick<LiveDrain, 'virtualServer' | 'realServer'>): string =>
  `${virtualServer} ${realServer}`

const COLUMNS: readonly FittedColumn[] = [
  { title: 'REAL SERVER' },
  { title: 'ACTIVE', align: 'right' },
  { title: 'INACTIVE', align: 'right', leaveOut: 3 },
  { title: 'SINCE', align: 'right', leaveOut: 2 },
  { title: 'ENDS WITHIN', align: 'right', leaveOut: 1 },
  { title: 'VIRTUAL SERVER', leaveOut: 4 },
  { title: 'SERVICE', leaveOut: 5 },
]

/** @param width of the terminal; undefined: any */
export function drainsText(drains: readonly Drain[], style: Style, width: number | undefined): string[] {
  if (drains.length === 0) return ['nothing is draining on this node']
  const rows = drains.map(({ virtualServer, realServer, active, inactive, servicePort, seconds, deadlineSeconds }) => [
    realServer,
    String(active),
    String(inactive),
    seconds === null ? '-' : durationText(seconds),
    seconds === null || deadlineSeconds === null ? '-' : durationText(Math.max(0, deadlineSeconds - seconds)),
    virtualServer,
    servicePort ?? '-',
  ])
  return fitColumns(COLUMNS, rows, { width, paintTitle: (text) => style('dim', text) })
}

/** A real server that does not answer has weight 0 too, and does not drain. */
export function withoutOutliers(live: readonly LiveDrain[], outliers: readonly OutlierView[]): readonly LiveDrain[] {
  const silent = new Set(outliers.map(name))
  return live.filter((drain) => !silent.has(name(drain)))
}

const OUTLIER_COLUMNS: readonly FittedColumn[] = [
  { title: 'DOES NOT ANSWER' },
  { title: 'SINCE', align: 'right', leaveOut: 2 },
  { title: 'NEXT TRIAL', align: 'right', leaveOut: 1 },
  { title: 'VIRTUAL SERVER', leaveOut: 3 },
  { title: 'SERVICE', leaveOut: 4 },
]

/** Endpoints of the API that get no new connections because they do not answer; no line where there is none. */
export function outliersText(outliers: readonly OutlierView[], style: Style, width: number | undefined): string[] {
  if (outliers.length === 0) return []
  const rows = outliers.map(({ virtualServer, realServer, servicePort, seconds, nextTrialSeconds }) => [
    realServer,
    durationText(seconds),
    nextTrialSeconds === null ? '-' : `in ${durationText(nextTrialSeconds)}`,
    virtualServer,
    servicePort ?? '-',
  ])
  return ['', ...fitColumns(OUTLIER_COLUMNS, rows, { width, paintTitle: (text) => style('dim', text) })]
}

/** `45s`, `5m`, `1h2m`, `3d4h`: the two largest units. */
export function durationText(seconds: number): string {
  const all = Math.round(seconds)
  const parts = [
    [Math.floor(all / 86_400), 'd'],
    [Math.floor(all / 3600) % 24, 'h'],
    [Math.floor(all / 60) % 60, 'm'],
    [all % 60, 's'],
  ] as const
  const first = parts.findIndex(([count]) => count > 0)
  if (first < 0) return '0s'
  return parts
    .slice(first, first + 2)
    .flatMap(([count, unit]) => (count === 0 ? [] : [`${count}${unit}`]))
    .join('')
}

/** `3 active connections and 2 UDP flows`: what keeps a wait. */
export function countsText({ active, inactive, udp }: ConnectionCounts, all: boolean): string {
  const plural = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`
  const parts = [
    plural(active, 'active connection'),
    ...(all ? [plural(inactive, 'inactive connection'), ...(udp === null ? [] : [plural(udp, 'UDP flow')])] : []),
  ]
  return parts.join(', ')
}
