/** The chains and jumps of ipvs mode, named as kube-proxy names them: operators and other programs know these names. */
import type { ChainSet } from '../../../../iptables/layout.ts'
import type { TableId } from '../../../../iptables/types.ts'

/** Chains by table, each after those that its rules jump to. */
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

/** The jumps, in the order in which they are inserted: the last one ends up on top. */
export const JUMPS: ChainSet['jumps'] = [
  { table: 'nat', from: 'OUTPUT', to: 'KUBE-SERVICES', comment: 'kubernetes service portals', isFirst: true },
  { table: 'nat', from: 'PREROUTING', to: 'KUBE-SERVICES', comment: 'kubernetes service portals', isFirst: true },
  { table: 'nat', from: 'POSTROUTING', to: 'KUBE-POSTROUTING', comment: 'kubernetes postrouting rules' },
  { table: 'filter', from: 'FORWARD', to: 'KUBE-FORWARD', comment: 'kubernetes forwarding rules' },
  { table: 'filter', from: 'INPUT', to: 'KUBE-NODE-PORT', comment: 'kubernetes health check rules' },
  { table: 'filter', from: 'INPUT', to: 'KUBE-PROXY-FIREWALL', comment: 'kube-proxy firewall rules' },
  { table: 'filter', from: 'FORWARD', to: 'KUBE-PROXY-FIREWALL', comment: 'kube-proxy firewall rules' },
  { table: 'filter', from: 'INPUT', to: 'KUBE-IPVS-FILTER', comment: 'kubernetes ipvs access filter' },
  { table: 'filter', from: 'OUTPUT', to: 'KUBE-IPVS-OUT-FILTER', comment: 'kubernetes ipvs access filter' },
]

export const IPVS_CHAINS: ChainSet = { chains: CHAINS, jumps: JUMPS }
