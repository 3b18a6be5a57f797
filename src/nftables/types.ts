/**
 * A private table of nf_tables as values: what is in it, and what is done with it. Bytes exist only
 * in the codec. Texts inside (addresses, networks, elements) are those that `nft list table` prints,
 * or one element would have two identities. A table is private: everything in it is ours.
 */
import type { IpFamily } from '../values/protocol.ts'

/** A field of a packet that a set holds: source and destination address, protocol, destination port. */
export type PacketField = 'saddr' | 'daddr' | 'l4proto' | 'dport'

export type NftAction =
  | { readonly kind: 'accept' | 'drop' | 'return' }
  | { readonly kind: 'jump' | 'goto'; readonly chain: string }

/** One statement of a rule, in the order of the packet's way through it. */
export type NftStatement =
  /** `iifname "cni0"`; a name that ends in `*` means every name that begins so. */
  | { readonly kind: 'interface'; readonly name: string; readonly isNot?: true }
  /** `ip saddr 10.0.0.0/8` */
  | {
      readonly kind: 'network'
      readonly field: 'saddr' | 'daddr'
      readonly cidr: string
      readonly isNot?: true
    }
  /** `ip saddr { 10.0.0.0/8, 192.0.2.7 }`: an anonymous set of networks, sorted, none inside another. */
  | { readonly kind: 'networks'; readonly field: 'saddr'; readonly cidrs: readonly string[] }
  /** `meta l4proto tcp` */
  | { readonly kind: 'protocol'; readonly protocol: 'tcp' | 'udp' | 'sctp' }
  /** `ct state new` */
  | { readonly kind: 'new-connection' }
  /** `meta mark & 0x4000 == 0x4000`, or `!=` */
  | { readonly kind: 'mark'; readonly mask: number; readonly isNot?: true }
  /** `ip daddr . meta l4proto . th dport @service-ports` */
  | { readonly kind: 'lookup'; readonly fields: readonly PacketField[]; readonly set: string; readonly isNot?: true }
  /** `ip daddr . meta l4proto . th dport vmap @service-marks` */
  | { readonly kind: 'verdict-map'; readonly fields: readonly PacketField[]; readonly map: string }
  /** `meta mark set meta mark | 0x4000` (set), `meta mark set meta mark ^ 0x4000` (clear). */
  | { readonly kind: 'set-mark'; readonly mask: number; readonly to: 'set' | 'clear' }
  /** `dnat to ip daddr`: ends the turn of every later chain that would translate the destination. */
  | { readonly kind: 'keep-destination' }
  /** `masquerade`, `masquerade fully-random` */
  | { readonly kind: 'masquerade'; readonly isFullyRandom: boolean }
  /** `reject`: port unreachable of the family's ICMP. */
  | { readonly kind: 'reject' }
  | { readonly kind: 'verdict'; readonly action: NftAction }
  /** Read from a kernel only: an expression that this program never writes, by the kernel's name. */
  | { readonly kind: 'foreign'; readonly expression: string }

export interface NftRule {
  readonly statements: readonly NftStatement[]
  /** Shown by `nft list`; at most 128 bytes. */
  readonly comment?: string
}

/** Where the kernel calls a base chain. */
export interface NftHook {
  readonly type: 'filter' | 'nat'
  readonly hook: 'prerouting' | 'input' | 'forward' | 'output' | 'postrouting'
  readonly priority: number
}

/** The table itself. With `isOwned` it belongs to the socket that made it (kernel 6.9 and later: and outlives it). */
export interface PrivateTable {
  readonly kind: 'table'
  readonly family: IpFamily
  /** Whether it belongs to the socket that reads or writes it; false for one that belongs to another socket. */
  readonly isOwned: boolean
  /** Read from a kernel only: the port id of the socket that it belongs to, where that is another one; until that is closed nobody else can change it. */
  readonly takenBy?: number
  /** Read from a kernel only: it sees no packets (`dormant`). */
  readonly isForeign?: true
}

/** A set, or with `isMap` a map from its fields to verdicts. */
export interface NftSet {
  readonly kind: 'set'
  readonly family: IpFamily
  readonly name: string
  readonly fields: readonly PacketField[]
  readonly isMap: boolean
  /** Read from a kernel only: it has a type or a property that this program never writes. Its elements are not listed. */
  readonly isForeign?: true
}

/** A chain with its rules, which are written as a whole. */
export interface NftChain {
  readonly kind: 'chain'
  readonly family: IpFamily
  readonly name: string
  readonly hook?: NftHook
  readonly rules: readonly NftRule[]
  /** Read from a kernel only: it has a hook, type or policy that this program never writes. */
  readonly isForeign?: true
}

export interface NftElement {
  readonly kind: 'element'
  readonly family: IpFamily
  readonly set: string
  /** The values of the set's fields, joined as nft prints them: `10.96.0.1 . tcp . 80`; or CATCH_ALL. */
  readonly value: string
  /** Of a map. */
  readonly action?: NftAction
  /** Read from a kernel only: it has an expression of its own (a limit, a counter), which this program never writes. */
  readonly isForeign?: true
}

/** The value of an element that stands for every value that the set does not have. This program never writes one. */
export const CATCH_ALL = '*'

export type NftItem = PrivateTable | NftSet | NftChain | NftElement

/** `replace`: the item that has this key in the kernel is another one; both happen in one transaction. */
export interface NftOperation {
  readonly kind: 'add' | 'delete' | 'replace'
  readonly item: NftItem
  /** Of a plain chain that replaces a base chain, whose hook the kernel takes away with the chain only. */
  readonly hadHook?: true
}

/** `ip`, `ip set vips`, `ip chain marks`, `ip element vips 10.96.0.1`: identity of an item in both private tables. */
export function nftKey(item: NftItem): string {
  const family = NFT_FAMILY[item.family]
  switch (item.kind) {
    case 'table':
      return family
    case 'set':
    case 'chain':
      return `${family} ${item.kind} ${item.name}`
    case 'element':
      return `${family} element ${item.set} ${item.value}`
  }
}

/** Names of the families in nft's texts. */
export const NFT_FAMILY: Readonly<Record<IpFamily, 'ip' | 'ip6'>> = { IPv4: 'ip', IPv6: 'ip6' }

/** The name of the private table in both families. */
export const PRIVATE_TABLE = 'kube-ipvs'
