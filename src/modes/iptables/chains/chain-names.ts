/** The chains and jumps of iptables mode, named as kube-proxy names them, but for those of single Services. */
import { chainKey, type ChainSet, jumpKey } from '../../../iptables/layout.ts'
import type { TableId } from '../../../iptables/types.ts'

/** Kubelet writes the same chain, so neither may remove it. */
const SHARED_CHAIN = 'KUBE-FIREWALL'
const CANARY_CHAIN = 'KUBE-PROXY-CANARY'

/** Chains that exist whatever Services there are. */
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

/** Chains of one Service port or endpoint, by what stands before the hash: each after those its rules lead to. */
const SERVICE_CHAINS = ['KUBE-SEP', 'KUBE-SVL', 'KUBE-SVC', 'KUBE-EXT', 'KUBE-FW']

const PORTALS = 'kubernetes service portals'
const VISIBLE = 'kubernetes externally-visible service portals'
const FIREWALL = 'kubernetes load balancer firewall'

/** The jumps (kube-proxy's iptablesJumpChains and iptablesKubeletJumpChains), in the order in which they are inserted. */
export const IPTABLES_JUMPS: ChainSet['jumps'] = [
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

export const IPTABLES_CHAINS: ChainSet = {
  chains: FIXED_CHAINS,
  hashedChains: SERVICE_CHAINS,
  jumps: IPTABLES_JUMPS,
  shared: [chainKey('filter', SHARED_CHAIN)],
}

/** Keys of what keeps packets from outside away from 127.0.0.0/8 (CVE-2020-8558), where node ports answer there. */
export const LOOPBACK_GUARD: readonly string[] = [
  chainKey('filter', SHARED_CHAIN),
  ...IPTABLES_JUMPS.filter(({ to }) => to === SHARED_CHAIN).map((jump) => jumpKey(jump)),
]
