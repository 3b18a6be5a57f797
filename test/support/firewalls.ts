/**
 * The firewalls that ipvs mode can have on a node. Each gets its node prepared, its fields of the
 * configuration, and a command that tells whether its rules are in force.
 */
import { FIELDS } from '../../src/config/fields.ts'
import type { Need } from '../kernel/needs.ts'

export interface Firewall {
  readonly name: string
  readonly need: Need
  /** The back end of iptables that kubelet and everything else of the node uses. */
  readonly backEnd: 'nft' | 'legacy'
  /** Fields of `kubeIPVS`. */
  readonly kubeIPVS: Readonly<Record<string, unknown>>
  /** A program with arguments that ends with 0 where this firewall has its rules. */
  readonly proof: readonly string[]
}

/** Until the configuration has this field, there is only one firewall. */
const FIELD = 'kubeIPVS.firewall'
const hasChoice = FIELD in FIELDS
const chosen = (firewall: 'iptables' | 'nftables'): Firewall['kubeIPVS'] => (hasChoice ? { firewall } : {})

const iptables = (backEnd: 'nft' | 'legacy', need: Need): Firewall => ({
  name: `iptables-${backEnd}`,
  need,
  backEnd,
  kubeIPVS: chosen('iptables'),
  proof: [`iptables-${backEnd}`, '-t', 'nat', '-S', 'KUBE-POSTROUTING'],
})

export const IPTABLES_NFT = iptables('nft', 'iptables-nft')
export const IPTABLES_LEGACY = iptables('legacy', 'legacy-iptables')
export const NFTABLES: Firewall = {
  name: 'nftables',
  need: 'nft',
  backEnd: 'nft',
  kubeIPVS: chosen('nftables'),
  proof: ['nft', 'list', 'table', 'ip', 'kube-ipvs'],
}

/** The first is what the others are compared with. */
export const FIREWALLS: readonly [Firewall, ...Firewall[]] = [
  IPTABLES_NFT,
  IPTABLES_LEGACY,
  ...(hasChoice ? [NFTABLES] : []),
]
