/**
 * Which chains and jumps each mode has, in which order they are written, and what either leaves for the other to remove.
 * What could break: KUBE-FIREWALL is kubelet's as well, so it is written in iptables mode and never removed.
 */
import { CHAINS, chainKey, jumpKey, type JumpPlace, JUMPS, TABLES } from './chain-names.ts'
import type { TableId } from './types.ts'

export interface ChainLayout {
  /** In the order in which they are written. */
  readonly tables: readonly TableId[]
  /** Chains of fixed names: each after those its rules lead to, so that they can be deleted the other way round. */
  readonly chains: Readonly<Record<TableId, readonly string[]>>
  /** In the order in which they are inserted: the last one ends up on top. */
  readonly jumps: readonly JumpPlace[]
  /** Whether this chain is one of ours, of either mode. */
  owns(table: TableId, chain: string): boolean
}

/** Chains of one Service port or endpoint in iptables mode, whoever made them. */
const SERVICE_CHAIN = /^KUBE-(SVC|SVL|EXT|FW|SEP)-[A-Z2-7]{16}$/

/** Those of one table that are ours, each after those its rules lead to. */
export function ownChains(layout: ChainLayout, table: TableId, chains: Iterable<string>): string[] {
  const there = new Set(chains)
  const [first, ...rest] = layout.chains[table].filter((chain) => there.has(chain))
  const services: Record<string, string[]> = { SEP: [], SVL: [], SVC: [], EXT: [], FW: [] }
  if (table === 'nat')
    for (const chain of there) {
      const kind = SERVICE_CHAIN.exec(chain)?.[1]
      if (kind !== undefined) services[kind]?.push(chain)
    }
  // The first one is KUBE-MARK-MASQ, to which they lead, unless somebody took it away.
  return [...(first === undefined ? [] : [first]), ...Object.values(services).flat(), ...rest]
}

/** Shared by kubelet: both write the same chain, and neither may take it away. */
const SHARED_CHAIN = 'KUBE-FIREWALL'
const CANARY_CHAIN = 'KUBE-PROXY-CANARY'

/** Chains of iptables mode that are there whatever Services there are. */
export const FIXED_CHAINS = {
  filter: [
    'KUBE-SERVICES',
    'KUBE-EXTERNAL-SERVICES',
    'KUBE-FORWARD',
    'KUBE-NODEPORTS',
    'KUBE-PROXY-FIREWALL',
    SHARED_CHAIN,
    CANARY_CHAIN,
  ],
  nat: ['KUBE-MARK-MASQ', 'KUBE-NODEPORTS', 'KUBE-POSTROUTING', 'KUBE-SERVICES', CANARY_CHAIN],
  mangle: [CANARY_CHAIN],
} as const satisfies Readonly<Record<TableId, readonly string[]>>

const PORTALS = 'kubernetes service portals'
const VISIBLE = 'kubernetes externally-visible service portals'
const FIREWALL = 'kubernetes load balancer firewall'

/** Jumps of iptables mode (kube-proxy's iptablesJumpChains and iptablesKubeletJumpChains). */
export const IPTABLES_JUMPS: readonly JumpPlace[] = [
  { table: 'filter', from: 'INPUT', to: 'KUBE-EXTERNAL-SERVICES', comment: VISIBLE, onlyNew: true },
  { table: 'filter', from: 'FORWARD', to: 'KUBE-EXTERNAL-SERVICES', comment: VISIBLE, onlyNew: true },
  { table: 'filter', from: 'INPUT', to: 'KUBE-NODEPORTS', comment: 'kubernetes health check service ports' },
  { table: 'filter', from: 'FORWARD', to: 'KUBE-SERVICES', comment: PORTALS, onlyNew: true },
  { table: 'filter', from: 'OUTPUT', to: 'KUBE-SERVICES', comment: PORTALS, onlyNew: true },
  { table: 'filter', from: 'FORWARD', to: 'KUBE-FORWARD', comment: 'kubernetes forwarding rules' },
  { table: 'filter', from: 'INPUT', to: 'KUBE-PROXY-FIREWALL', comment: FIREWALL, onlyNew: true },
  { table: 'filter', from: 'OUTPUT', to: 'KUBE-PROXY-FIREWALL', comment: FIREWALL, onlyNew: true },
  { table: 'filter', from: 'FORWARD', to: 'KUBE-PROXY-FIREWALL', comment: FIREWALL, onlyNew: true },
  { table: 'nat', from: 'OUTPUT', to: 'KUBE-SERVICES', comment: PORTALS },
  { table: 'nat', from: 'PREROUTING', to: 'KUBE-SERVICES', comment: PORTALS },
  { table: 'nat', from: 'POSTROUTING', to: 'KUBE-POSTROUTING', comment: 'kubernetes postrouting rules' },
  { table: 'filter', from: 'INPUT', to: SHARED_CHAIN, comment: '' },
  { table: 'filter', from: 'OUTPUT', to: SHARED_CHAIN, comment: '' },
]

/** Keys of what keeps packets from outside away from 127.0.0.0/8 (CVE-2020-8558), where node ports answer there. */
export const LOOPBACK_GUARD: readonly string[] = [
  chainKey('filter', SHARED_CHAIN),
  ...IPTABLES_JUMPS.filter(({ to }) => to === SHARED_CHAIN).map((jump) => jumpKey(jump)),
]

function layoutOf(
  tables: ChainLayout['tables'],
  own: Readonly<Partial<Record<TableId, readonly string[]>>>,
  others: Readonly<Partial<Record<TableId, readonly string[]>>>,
  jumps: readonly JumpPlace[],
): ChainLayout {
  const of = (table: TableId): readonly string[] => {
    const ours = own[table] ?? []
    const foreign = (others[table] ?? []).filter((chain) => chain !== SHARED_CHAIN && !ours.includes(chain))
    // The first one is led to, also by the other mode's.
    return [...ours.slice(0, 1), ...foreign, ...ours.slice(1)]
  }
  const chains = { nat: of('nat'), filter: of('filter'), mangle: of('mangle') }
  return {
    tables,
    chains,
    jumps,
    owns: (table, chain) => chains[table].includes(chain) || (table === 'nat' && SERVICE_CHAIN.test(chain)),
  }
}

const sameJump = (a: JumpPlace, b: JumpPlace): boolean =>
  a.table === b.table && a.from === b.from && a.to === b.to && a.onlyNew === b.onlyNew
const without = (jumps: readonly JumpPlace[], others: readonly JumpPlace[]): readonly JumpPlace[] =>
  jumps.filter((jump) => jump.to !== SHARED_CHAIN && !others.some((other) => sameJump(jump, other)))

/** ipvs mode, and whatever iptables mode has beside it. */
export const IPVS_MODE: ChainLayout = layoutOf([...TABLES, 'mangle'], CHAINS, FIXED_CHAINS, [
  ...JUMPS,
  ...without(IPTABLES_JUMPS, JUMPS),
])

/** iptables mode, and whatever ipvs mode has beside it. Filter rules come first: what is refused is refused from the start. */
export const IPTABLES_MODE: ChainLayout = layoutOf(['filter', 'nat', 'mangle'], FIXED_CHAINS, CHAINS, [
  ...IPTABLES_JUMPS,
  ...without(JUMPS, IPTABLES_JUMPS),
])
