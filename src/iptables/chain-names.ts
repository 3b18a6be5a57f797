/**
 * The chains and jumps of ipvs mode, as kube-proxy made them: other programs and people know them by these names.
 * What could break: the order. A chain stands after those its rules lead to; jumps are each put first in their chain, so
 * the last one given here ends up on top.
 */
import type { TableId } from './types.ts'

/** Our chains by table. */
export const CHAINS = {
  nat: ['KUBE-MARK-MASQ', 'KUBE-NODE-PORT', 'KUBE-LOAD-BALANCER', 'KUBE-POSTROUTING', 'KUBE-SERVICES'],
  filter: [
    'KUBE-FORWARD',
    'KUBE-NODE-PORT',
    'KUBE-SOURCE-RANGES-FIREWALL',
    'KUBE-PROXY-FIREWALL',
    'KUBE-IPVS-FILTER',
    'KUBE-IPVS-OUT-FILTER',
  ],
} as const satisfies Readonly<Partial<Record<TableId, readonly string[]>>>

export type NatChain = (typeof CHAINS.nat)[number]
export type FilterChain = (typeof CHAINS.filter)[number]

/** In the order in which they are written. */
export const TABLES = ['nat', 'filter'] as const satisfies readonly TableId[]

export interface JumpPlace {
  readonly table: TableId
  readonly from: string
  readonly to: string
  /** '' for none. */
  readonly comment: string
  /** Only packets that begin a connection take it. */
  readonly onlyNew?: true
}

/** Our jumps, in the order in which they are inserted. */
export const JUMPS: readonly JumpPlace[] = [
  { table: 'nat', from: 'OUTPUT', to: 'KUBE-SERVICES', comment: 'kubernetes service portals' },
  { table: 'nat', from: 'PREROUTING', to: 'KUBE-SERVICES', comment: 'kubernetes service portals' },
  { table: 'nat', from: 'POSTROUTING', to: 'KUBE-POSTROUTING', comment: 'kubernetes postrouting rules' },
  { table: 'filter', from: 'FORWARD', to: 'KUBE-FORWARD', comment: 'kubernetes forwarding rules' },
  { table: 'filter', from: 'INPUT', to: 'KUBE-NODE-PORT', comment: 'kubernetes health check rules' },
  { table: 'filter', from: 'INPUT', to: 'KUBE-PROXY-FIREWALL', comment: 'kube-proxy firewall rules' },
  { table: 'filter', from: 'FORWARD', to: 'KUBE-PROXY-FIREWALL', comment: 'kube-proxy firewall rules' },
  { table: 'filter', from: 'INPUT', to: 'KUBE-IPVS-FILTER', comment: 'kubernetes ipvs access filter' },
  { table: 'filter', from: 'OUTPUT', to: 'KUBE-IPVS-OUT-FILTER', comment: 'kubernetes ipvs access filter' },
]

/** `nat KUBE-SERVICES` */
export function chainKey(table: TableId, chain: string): string {
  return `${table} ${chain}`
}

/** `nat OUTPUT KUBE-SERVICES`; with ` NEW` where only new connections take it, because both modes have jumps of one place. */
export function jumpKey({ table, from, to, onlyNew }: Omit<JumpPlace, 'comment'>): string {
  return `${table} ${from} ${to}${onlyNew === true ? ' NEW' : ''}`
}
