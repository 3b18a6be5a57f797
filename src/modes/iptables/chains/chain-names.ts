/**
 * The chains and jumps of iptables mode, named as kube-proxy names them, because operators and
 * other programs find the chains of a Service by their names.
 */
import { hash } from 'node:crypto'
import { chainKey, type ChainSet, jumpKey } from '../../../iptables/layout.ts'
import type { TableId } from '../../../iptables/types.ts'

/** Kubelet writes the same chain, so neither program may remove it. */
const SHARED_CHAIN = 'KUBE-FIREWALL'
const CANARY_CHAIN = 'KUBE-PROXY-CANARY'

/** Chains that exist even without Services. */
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

/** Prefixes of the chains of one Service port or endpoint. Each follows the chains that its rules jump to. */
const SERVICE_CHAINS = ['KUBE-SEP', 'KUBE-SVL', 'KUBE-SVC', 'KUBE-EXT', 'KUBE-FW']

const PORTALS = 'kubernetes service portals'
const VISIBLE = 'kubernetes externally-visible service portals'
const FIREWALL = 'kubernetes load balancer firewall'

/**
 * The jumps (kube-proxy's iptablesJumpChains and iptablesKubeletJumpChains), in the order in which
 * they are inserted.
 */
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
  { table: 'nat', from: 'OUTPUT', to: 'KUBE-SERVICES', comment: PORTALS, isFirst: true },
  { table: 'nat', from: 'PREROUTING', to: 'KUBE-SERVICES', comment: PORTALS, isFirst: true },
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

/**
 * Keys of the items that drop packets from outside to 127.0.0.0/8 (CVE-2020-8558). They are needed
 * if node ports answer there.
 */
export const LOOPBACK_GUARD: readonly string[] = [
  chainKey('filter', SHARED_CHAIN),
  ...IPTABLES_JUMPS.filter(({ to }) => to === SHARED_CHAIN).map((jump) => jumpKey(jump)),
]

/** A chain of one Service port: for cluster endpoints, for local endpoints, for external traffic, for source ranges. */
export type ServiceChainKind = 'SVC' | 'SVL' | 'EXT' | 'FW'

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
/** Letters of a name's hash: 80 bits. */
const LETTERS = 16

/** The first 16 letters of base32 (RFC 4648) of the SHA-256 of a text. */
export function chainHash(text: string): string {
  const digest = hash('sha256', text, 'buffer')
  let letters = ''
  let bits = 0
  let left = 0
  for (let at = 0; letters.length < LETTERS; ) {
    if (left < 5) {
      bits = ((bits & 0x1f) << 8) | (digest[at++] ?? 0)
      left += 8
    }
    left -= 5
    letters += ALPHABET[(bits >> left) & 0x1f]
  }
  return letters
}

/** `KUBE-SVC-XPGD46QRK7WJZT7O`. `portHash`: chainHash of `namespace/name:port` and the protocol. */
export function serviceChain(kind: ServiceChainKind, portHash: string): string {
  return `KUBE-${kind}-${portHash}`
}

/** `KUBE-SEP-SXIVWICOYRO3J4NJ`. @param port `namespace/name:port` and the protocol @param endpoint `10.180.0.1:80` */
export function endpointChain(port: string, endpoint: string): string {
  return `KUBE-SEP-${chainHash(port + endpoint)}`
}
