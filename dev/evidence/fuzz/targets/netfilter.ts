/** What the kernel says over nfnetlink: ipset, conntrack, nf_tables of iptables and of others, and our private table. */
import type { ReceivedMessage } from '../../../../src/netlink/message.ts'
import { netfilterFamily } from '../../../../src/netlink/nfnetlink-codec.ts'
import {
  decodeFlow,
  decodeFlowState,
  decodeTableSize,
  encodeDeleteFlow,
  passes,
} from '../../../../src/conntrack/codec.ts'
import { definitionOf } from '../../../../src/ipset/catalogue.ts'
import { decodeEntries, encodeEntries } from '../../../../src/ipset/codec-entry.ts'
import { decodeHeader } from '../../../../src/ipset/codec-header.ts'
import { decodeVersions } from '../../../../src/ipset/codec.ts'
import { parseEntry } from '../../../../src/ipset/entry-text.ts'
import { decodeChain, decodePrivateRule, encodeRule } from '../../../../src/nftables/chain-codec.ts'
import { decodeUnconditional } from '../../../../src/nftables/chain-rest.ts'
import { decodeBaseChain } from '../../../../src/nftables/chains.ts'
import { decodeElements, encodeElements } from '../../../../src/nftables/element-codec.ts'
import { decodeNftChange } from '../../../../src/nftables/events.ts'
import { operationText } from '../../../../src/nftables/item-text.ts'
import { decodePrivateTableChange } from '../../../../src/nftables/private-events.ts'
import { decodeRule } from '../../../../src/nftables/rules.ts'
import { decodeCount, decodeSet, NetworksDecoder } from '../../../../src/nftables/set-codec.ts'
import { decodeStatements } from '../../../../src/nftables/statement-decoder.ts'
import { ruleText } from '../../../../src/nftables/statement-text.ts'
import { decodePrivateTable } from '../../../../src/nftables/table-codec.ts'
import { decodeTable } from '../../../../src/nftables/tables.ts'
import type { NftElement, NftSet, NftStatement } from '../../../../src/nftables/types.ts'
import type { IpFamily } from '../../../../src/values/protocol.ts'
import { NAMES } from '../json-changes.ts'
import { rule, type Target, unlessRefused } from '../target.ts'
import { eachMessage, firstMessage, reply } from './netlink.ts'

const FAMILIES = ['IPv4', 'IPv6'] as const
const UNENCODABLE = ['netlink-unencodable']
const MAX_BYTES = 24 * 1024

/** Sets of every type, whose entries are read. */
const SETS = [
  'KUBE-CLUSTER-IP',
  'KUBE-LOOP-BACK',
  'KUBE-LOAD-BALANCER-SOURCE-CIDR',
  'KUBE-NODE-PORT-TCP',
  'KUBE-IPVS-IPS',
].flatMap((name) => definitionOf(name) ?? [])

/** What is read of a set is an entry of it, or is refused when it is written. */
function readEntries(message: ReceivedMessage): void {
  decodeEntries(message, 'KUBE-CLUSTER-IP', ({ entry }) => {
    for (const set of SETS) {
      if (set.family !== undefined && parseEntry(set.type, set.family, entry) === undefined) continue
      unlessRefused(['ipset-entry-invalid'], () => {
        const bytes = reply((batch) => encodeEntries(batch, 'ADD', set, [entry]), 0x607)
        decodeEntries(firstMessage(bytes), set.name, (again) =>
          rule(again.entry === entry, 'an entry is written as it was read'),
        )
      })
    }
  })
}

const SERVICE = ['daddr', 'l4proto', 'dport'] as const
const PRIVATE_SETS: readonly NftSet[] = FAMILIES.flatMap((family) => [
  { kind: 'set', family, name: 'ranges', fields: SERVICE, isMap: true },
  { kind: 'set', family, name: 'ports', fields: ['dport'], isMap: false },
  { kind: 'set', family, name: 'loop-back', fields: [...SERVICE, 'saddr'], isMap: false },
])

/** Rules without a foreign part are written as they were read. */
function readPrivateRule(message: ReceivedMessage): void {
  const family = netfilterFamily(message)
  const listed = decodePrivateRule(message, family ?? 'IPv4')
  if (listed === undefined || family === undefined) return
  const statements = decodeStatements(listed.expressions, family, () => ['10.0.0.0/8'])
  ruleText({ statements }, family)
  const isOurs = statements.every(({ kind }) => kind !== 'foreign' && kind !== 'networks')
  if (!isOurs || statements.length === 0) return
  const again = unlessRefused(UNENCODABLE, () => {
    const bytes = reply((batch) => encodeRule(batch, family, 'c', { statements }, 1))
    return statementsOf(firstMessage(bytes), family)
  })
  rule(again === undefined || JSON.stringify(again) === JSON.stringify(statements), 'a rule is written as it was read')
}

function statementsOf(message: ReceivedMessage, family: IpFamily): readonly NftStatement[] {
  return decodeStatements(decodePrivateRule(message, family)?.expressions ?? [], family, () => undefined)
}

function readElements(message: ReceivedMessage): void {
  for (const set of PRIVATE_SETS) {
    const elements: NftElement[] = []
    decodeElements(message, set, (element) => void elements.push(element))
    for (const element of elements.slice(0, 3))
      operationText({ kind: 'add', item: element } as Parameters<typeof operationText>[0])
    const [first] = elements
    // Nobody writes a foreign one.
    if (first === undefined || first.isForeign === true || (set.isMap && first.action === undefined)) continue
    const again: NftElement[] = []
    unlessRefused(UNENCODABLE, () => {
      const bytes = reply((batch) => encodeElements(batch, 'NEWSETELEM', set.family, set.name, [first]))
      decodeElements(firstMessage(bytes), set, (element) => void again.push(element))
      rule(JSON.stringify(again) === JSON.stringify([first]), 'an element is written as it was read')
    })
  }
}

/** Networks are as many as their borders allow, and no more than the message can mean. */
function readNetworks(message: ReceivedMessage): void {
  for (const family of FAMILIES) {
    const decoder = new NetworksDecoder(family)
    decoder.read(message)
    decoder.networks()
  }
}

const WORDS = [
  'kube-ipvs',
  'filter',
  'nat',
  'KUBE-SERVICES',
  'INPUT',
  'immediate',
  'lookup',
  'cmp',
  'payload',
  'meta',
  'bitwise',
  'match',
  'target',
  'comment',
  'conntrack',
  '__set1',
  'ranges',
  ...NAMES,
]

export const NETFILTER_TARGETS: readonly Target[] = [
  {
    name: 'ipset-sets',
    slice: 800,
    what: 'sets of ipset with their entries, and the versions',
    form: 'netlink',
    headerBytes: 4,
    words: ['KUBE-CLUSTER-IP', 'hash:ip,port', 'hash:net', ...NAMES],
    maxBytes: MAX_BYTES,
    run: (input) =>
      eachMessage(input, [
        decodeHeader,
        readEntries,
        (message) => decodeVersions(message, 'PROTOCOL'),
        (message) => decodeVersions(message, 'TYPE'),
      ]),
  },
  {
    name: 'conntrack-flows',
    what: 'flows of conntrack and their states, and the deletion of one',
    form: 'netlink',
    headerBytes: 4,
    maxBytes: MAX_BYTES,
    run: (input) =>
      eachMessage(input, [
        decodeFlowState,
        decodeTableSize,
        (message) => {
          const flow = decodeFlow(message)
          if (flow === undefined) return
          passes(flow, { family: 'IPv4', protocol: 'udp' })
          // Without the tuple the kernel empties the whole table.
          const bytes = reply((batch) => encodeDeleteFlow(batch, flow))
          rule((bytes[22] ?? 0) === 1 && (bytes[20] ?? 0) > 8, 'a deletion names its flow')
        },
      ]),
  },
  {
    name: 'nft-rules',
    what: 'rules, chains and tables of nf_tables that others wrote, iptables among them',
    form: 'netlink',
    headerBytes: 4,
    words: WORDS,
    maxBytes: MAX_BYTES,
    run: (input) =>
      eachMessage(input, [
        (message) => decodeRule(message, { family: 'IPv4', table: 'filter' }),
        (message) => decodeRule(message, { family: 'IPv6', table: 'nat', chain: 'KUBE-SERVICES' }),
        (message) => decodeUnconditional(message, { family: 'ip', table: 'filter', chain: 'INPUT' }),
        decodeTable,
        decodeBaseChain,
        decodeNftChange,
      ]),
  },
  {
    name: 'nft-private',
    what: 'the private table: sets, chains, rules, announcements',
    form: 'netlink',
    headerBytes: 4,
    words: WORDS,
    maxBytes: MAX_BYTES,
    run: (input) =>
      eachMessage(input, [
        (message) => decodePrivateTable(message),
        decodeSet,
        decodeCount,
        decodeChain,
        readPrivateRule,
        decodePrivateTableChange,
      ]),
  },
  {
    name: 'nft-elements',
    slice: 500,
    what: 'elements of the private table, and networks of its anonymous sets',
    form: 'netlink',
    headerBytes: 4,
    words: WORDS,
    maxBytes: MAX_BYTES,
    run: (input) => eachMessage(input, [readElements, readNetworks]),
  },
]
