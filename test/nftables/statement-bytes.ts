/**
 * Statements and their bytes, which are those that nft 1.0.6 sends, but that nft gives an id to named
 * sets too, and leaves NFTA_BITWISE_OP out where it is a mask.
 */
import type { NftStatement } from '../../src/nftables/types.ts'
import type { IpFamily } from '../../src/values/protocol.ts'

export interface Case {
  readonly family: IpFamily
  readonly statement: NftStatement
  /** Each one is an attribute NFTA_LIST_ELEM. */
  readonly expressions: readonly string[]
}

export const CASES: readonly Case[] = [
  {
    family: 'IPv4',
    statement: { kind: 'interface', name: 'cni0' },
    expressions: [
      // meta: KEY 6, DREG 1
      '24000180 090001006d65746100000000 14000280 0800020000000006 0800010000000001',
      // cmp: SREG 1, OP 0, DATA 636e6930000000000000000000000000
      '38000180 08000100636d7000 2c000280 0800010000000001 0800020000000000 ' +
        '1800038014000100636e6930000000000000000000000000',
    ],
  },
  {
    family: 'IPv4',
    statement: { kind: 'interface', name: 'veth*', isNot: true },
    expressions: [
      // meta: KEY 6, DREG 1
      '24000180 090001006d65746100000000 14000280 0800020000000006 0800010000000001',
      // cmp: SREG 1, OP 1, DATA 76657468
      '2c000180 08000100636d7000 20000280 0800010000000001 0800020000000001 0c0003800800010076657468',
    ],
  },
  {
    family: 'IPv4',
    statement: { kind: 'network', field: 'saddr', cidr: '10.0.0.0/8' },
    expressions: [
      // payload: DREG 1, BASE 1, OFFSET 12, LEN 1
      '34000180 0c0001007061796c6f616400 24000280 0800010000000001 0800020000000001 080003000000000c ' +
        '0800040000000001',
      // cmp: SREG 1, OP 0, DATA 0a
      '2c000180 08000100636d7000 20000280 0800010000000001 0800020000000000 0c000380050001000a000000',
    ],
  },
  {
    family: 'IPv6',
    statement: { kind: 'network', field: 'daddr', cidr: 'fd00::/9', isNot: true },
    expressions: [
      // payload: DREG 1, BASE 1, OFFSET 24, LEN 16
      '34000180 0c0001007061796c6f616400 24000280 0800010000000001 0800020000000001 0800030000000018 ' +
        '0800040000000010',
      // bitwise: SREG 1, DREG 1, OP 0, LEN 16, MASK ff800000000000000000000000000000, XOR 00000000000000000000000000000000
      '64000180 0c0001006269747769736500 54000280 0800010000000001 0800020000000001 0800060000000000 ' +
        '0800030000000010 1800048014000100ff800000000000000000000000000000 ' +
        '180005801400010000000000000000000000000000000000',
      // cmp: SREG 1, OP 1, DATA fd000000000000000000000000000000
      '38000180 08000100636d7000 2c000280 0800010000000001 0800020000000001 ' +
        '1800038014000100fd000000000000000000000000000000',
    ],
  },
  {
    family: 'IPv4',
    statement: { kind: 'protocol', protocol: 'sctp' },
    expressions: [
      // meta: KEY 16, DREG 1
      '24000180 090001006d65746100000000 14000280 0800020000000010 0800010000000001',
      // cmp: SREG 1, OP 0, DATA 84
      '2c000180 08000100636d7000 20000280 0800010000000001 0800020000000000 0c0003800500010084000000',
    ],
  },
  {
    family: 'IPv4',
    statement: { kind: 'new-connection' },
    expressions: [
      // ct: KEY 0, DREG 1
      '20000180 0700010063740000 14000280 0800020000000000 0800010000000001',
      // bitwise: SREG 1, DREG 1, OP 0, LEN 4, MASK 08000000, XOR 00000000
      '4c000180 0c0001006269747769736500 3c000280 0800010000000001 0800020000000001 0800060000000000 ' +
        '0800030000000004 0c0004800800010008000000 0c0005800800010000000000',
      // cmp: SREG 1, OP 1, DATA 00000000
      '2c000180 08000100636d7000 20000280 0800010000000001 0800020000000001 0c0003800800010000000000',
    ],
  },
  {
    family: 'IPv4',
    statement: { kind: 'mark', mask: 0x4000, isNot: true },
    expressions: [
      // meta: KEY 3, DREG 1
      '24000180 090001006d65746100000000 14000280 0800020000000003 0800010000000001',
      // bitwise: SREG 1, DREG 1, OP 0, LEN 4, MASK 00400000, XOR 00000000
      '4c000180 0c0001006269747769736500 3c000280 0800010000000001 0800020000000001 0800060000000000 ' +
        '0800030000000004 0c0004800800010000400000 0c0005800800010000000000',
      // cmp: SREG 1, OP 1, DATA 00400000
      '2c000180 08000100636d7000 20000280 0800010000000001 0800020000000001 0c0003800800010000400000',
    ],
  },
  {
    family: 'IPv4',
    statement: { kind: 'set-mark', mask: 0x4000, to: 'set' },
    expressions: [
      // meta: KEY 3, DREG 1
      '24000180 090001006d65746100000000 14000280 0800020000000003 0800010000000001',
      // bitwise: SREG 1, DREG 1, OP 0, LEN 4, MASK ffbfffff, XOR 00400000
      '4c000180 0c0001006269747769736500 3c000280 0800010000000001 0800020000000001 0800060000000000 ' +
        '0800030000000004 0c00048008000100ffbfffff 0c0005800800010000400000',
      // meta: KEY 3, SREG 1
      '24000180 090001006d65746100000000 14000280 0800020000000003 0800030000000001',
    ],
  },
  {
    family: 'IPv4',
    statement: { kind: 'set-mark', mask: 0x4000, to: 'clear' },
    expressions: [
      // meta: KEY 3, DREG 1
      '24000180 090001006d65746100000000 14000280 0800020000000003 0800010000000001',
      // bitwise: SREG 1, DREG 1, OP 0, LEN 4, MASK ffffffff, XOR 00400000
      '4c000180 0c0001006269747769736500 3c000280 0800010000000001 0800020000000001 0800060000000000 ' +
        '0800030000000004 0c00048008000100ffffffff 0c0005800800010000400000',
      // meta: KEY 3, SREG 1
      '24000180 090001006d65746100000000 14000280 0800020000000003 0800030000000001',
    ],
  },
  {
    family: 'IPv6',
    statement: { kind: 'lookup', fields: ['daddr', 'l4proto', 'dport'], set: 'ports', isNot: true },
    expressions: [
      // payload: DREG 1, BASE 1, OFFSET 24, LEN 16
      '34000180 0c0001007061796c6f616400 24000280 0800010000000001 0800020000000001 0800030000000018 ' +
        '0800040000000010',
      // meta: KEY 16, DREG 2
      '24000180 090001006d65746100000000 14000280 0800020000000010 0800010000000002',
      // payload: DREG 13, BASE 2, OFFSET 2, LEN 2
      '34000180 0c0001007061796c6f616400 24000280 080001000000000d 0800020000000002 0800030000000002 ' +
        '0800040000000002',
      // lookup: SREG 1, SET ports, FLAGS 1
      '30000180 0b0001006c6f6f6b75700000 20000280 0800020000000001 0a000100706f727473000000 0800050000000001',
    ],
  },
  {
    family: 'IPv4',
    statement: { kind: 'verdict-map', fields: ['l4proto', 'dport'], map: 'ranges' },
    expressions: [
      // meta: KEY 16, DREG 1
      '24000180 090001006d65746100000000 14000280 0800020000000010 0800010000000001',
      // payload: DREG 9, BASE 2, OFFSET 2, LEN 2
      '34000180 0c0001007061796c6f616400 24000280 0800010000000009 0800020000000002 0800030000000002 ' +
        '0800040000000002',
      // lookup: SREG 1, DREG 0, SET ranges
      '30000180 0b0001006c6f6f6b75700000 20000280 0800020000000001 0800030000000000 0b00010072616e6765730000',
    ],
  },
  {
    family: 'IPv4',
    statement: { kind: 'keep-destination' },
    expressions: [
      // payload: DREG 1, BASE 1, OFFSET 16, LEN 4
      '34000180 0c0001007061796c6f616400 24000280 0800010000000001 0800020000000001 0800030000000010 ' +
        '0800040000000004',
      // nat: TYPE 1, FAMILY 2, REG_ADDR_MIN 1
      '28000180 080001006e617400 1c000280 0800010000000001 0800020000000002 0800030000000001',
    ],
  },
  {
    family: 'IPv6',
    statement: { kind: 'masquerade', isFullyRandom: false },
    expressions: [
      // masq
      '14000180 090001006d61737100000000 04000280',
    ],
  },
  {
    family: 'IPv6',
    statement: { kind: 'masquerade', isFullyRandom: true },
    expressions: [
      // masq: FLAGS 16
      '1c000180 090001006d61737100000000 0c000280 0800010000000010',
    ],
  },
  {
    family: 'IPv4',
    statement: { kind: 'reject' },
    expressions: [
      // reject: TYPE 0, ICMP_CODE 3
      '24000180 0b00010072656a6563740000 14000280 0800010000000000 0500020003000000',
    ],
  },
  {
    family: 'IPv6',
    statement: { kind: 'reject' },
    expressions: [
      // reject: TYPE 0, ICMP_CODE 4
      '24000180 0b00010072656a6563740000 14000280 0800010000000000 0500020004000000',
    ],
  },
  {
    family: 'IPv4',
    statement: { kind: 'verdict', action: { kind: 'goto', chain: 'services' } },
    expressions: [
      // immediate: DREG 0, DATA verdict code -4, chain services
      '40000180 0e000100696d6d656469617465000000 2c000280 0800010000000000 ' +
        '200002801c00028008000100fffffffc0d000200736572766963657300000000',
    ],
  },
  {
    family: 'IPv4',
    statement: { kind: 'verdict', action: { kind: 'return' } },
    expressions: [
      // immediate: DREG 0, DATA verdict code -5
      '30000180 0e000100696d6d656469617465000000 1c000280 0800010000000000 100002800c00028008000100fffffffb',
    ],
  },
]
