/**
 * Flows of the conntrack table on the wire (linux/netfilter/nfnetlink_conntrack.h): a filtered
 * dump, what it lists, and the deletion of one flow. Written by hand: there is no library for Node,
 * and the program `conntrack` is not on every node. IPCTNL_MSG_CT_DELETE without CTA_TUPLE_ORIG
 * empties the whole table, so only `encodeDeleteFlow` writes it, tuple first.
 */
import type { AttributeCursor } from '../netlink/attributes.ts'
import type { MessageBatch } from '../netlink/batch.ts'
import { NLM_F_DUMP } from '../netlink/constants.ts'
import { netlinkError } from '../netlink/errors.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import { beginNetfilter, netfilterAttributes, netfilterFamily, NFNL_SUBSYS } from '../netlink/nfnetlink-codec.ts'
import { ADDRESS_LENGTH, familyOf, readAddress, writeAddress } from '../values/address.ts'
import { type IpFamily, type Protocol, PROTOCOL_NUMBER, protocolOfNumber } from '../values/protocol.ts'
import type { Flow, FlowFilter, FlowState, FlowTuple, TableSize } from './types.ts'

/** enum cntl_msg_types */
const IPCTNL_MSG_CT_NEW = 0
const IPCTNL_MSG_CT_GET = 1
const IPCTNL_MSG_CT_DELETE = 2
const IPCTNL_MSG_CT_GET_STATS = 5

/** enum ctattr_type */
const CTA_TUPLE_ORIG = 1
const CTA_TUPLE_REPLY = 2
const CTA_STATUS = 3
const CTA_PROTOINFO = 4
const CTA_ID = 12
const CTA_ZONE = 18
const CTA_FILTER = 25

/** enum ctattr_protoinfo, enum ctattr_protoinfo_tcp */
const CTA_PROTOINFO_TCP = 1
const CTA_PROTOINFO_TCP_STATE = 1

/** enum ctattr_tuple */
const CTA_TUPLE_IP = 1
const CTA_TUPLE_PROTO = 2
const CTA_TUPLE_ZONE = 3

/** enum ctattr_ip */
const CTA_IP_V4_SRC = 1
const CTA_IP_V4_DST = 2
const CTA_IP_V6_SRC = 3
const CTA_IP_V6_DST = 4

/** enum ctattr_l4proto */
const CTA_PROTO_NUM = 1
const CTA_PROTO_SRC_PORT = 2
const CTA_PROTO_DST_PORT = 3

// The next are in no header of user space but in net/netfilter/nf_internals.h, an interface since Linux 5.8.
/** enum ctattr_filter */
const CTA_FILTER_ORIG_FLAGS = 1

/** The parts of a tuple that a filter compares. */
const CTA_FILTER_F_CTA_IP_DST = 1 << 1
const CTA_FILTER_F_CTA_PROTO_NUM = 1 << 3
const CTA_FILTER_F_CTA_PROTO_DST_PORT = 1 << 5

/** enum ctattr_stats_global */
const CTA_STATS_GLOBAL_ENTRIES = 1
const CTA_STATS_GLOBAL_MAX_ENTRIES = 2

const SOURCE = { IPv4: CTA_IP_V4_SRC, IPv6: CTA_IP_V6_SRC } as const
const DESTINATION = { IPv4: CTA_IP_V4_DST, IPv6: CTA_IP_V6_DST } as const

const { CTNETLINK } = NFNL_SUBSYS

/** IPCTNL_MSG_CT_GET_STATS: the number of flows and its limit. */
export function encodeTableSize(batch: MessageBatch): void {
  beginNetfilter(batch, CTNETLINK, IPCTNL_MSG_CT_GET_STATS, 0, 'IPCTNL_MSG_CT_GET_STATS')
  batch.end()
}

/**
 * IPCTNL_MSG_CT_GET as a dump of the flows that pass a filter. Kernels before 5.8 ignore CTA_FILTER
 * and list every flow of the family, so the caller compares each flow with the filter again
 * (`passes`). For IPv6 the address is left out: Linux 5.8 to 7.2 (at least) have the comparison
 * inverted (ctnetlink_filter_match_tuple) and list all other flows.
 */
export function encodeDumpFlows(batch: MessageBatch, filter: FlowFilter): void {
  const { family, protocol, destination, destinationPort } = filter
  let flags = CTA_FILTER_F_CTA_PROTO_NUM
  beginNetfilter(batch, CTNETLINK, IPCTNL_MSG_CT_GET, NLM_F_DUMP, 'IPCTNL_MSG_CT_GET', family)
  const tuple = batch.nest(CTA_TUPLE_ORIG)
  if (destination !== undefined && family === 'IPv4') {
    flags |= CTA_FILTER_F_CTA_IP_DST
    const ip = batch.nest(CTA_TUPLE_IP)
    encodeAddress(batch, CTA_IP_V4_DST, destination, family)
    batch.endNest(ip)
  }
  const proto = batch.nest(CTA_TUPLE_PROTO)
  batch.u8(CTA_PROTO_NUM, PROTOCOL_NUMBER[protocol])
  if (destinationPort !== undefined) {
    flags |= CTA_FILTER_F_CTA_PROTO_DST_PORT
    batch.u16be(CTA_PROTO_DST_PORT, destinationPort)
  }
  batch.endNest(proto)
  batch.endNest(tuple)
  const compared = batch.nest(CTA_FILTER)
  batch.u32(CTA_FILTER_ORIG_FLAGS, flags)
  batch.endNest(compared)
  batch.end()
}

/** Whether a flow passes a filter, as the kernel decides it with CTA_FILTER. */
export function passes(flow: Flow, filter: FlowFilter): boolean {
  return (
    flow.family === filter.family &&
    flow.protocol === filter.protocol &&
    (filter.destinationPort ?? flow.original.destinationPort) === flow.original.destinationPort &&
    (filter.destination ?? flow.original.destination) === flow.original.destination
  )
}

/**
 * IPCTNL_MSG_CT_DELETE of exactly this flow; ENOENT when it does not exist any more, or when
 * another flow has replaced it.
 */
export function encodeDeleteFlow(batch: MessageBatch, flow: Flow): void {
  const { family, protocol, original, zone, id } = flow
  beginNetfilter(batch, CTNETLINK, IPCTNL_MSG_CT_DELETE, 0, 'IPCTNL_MSG_CT_DELETE', family)
  const tuple = batch.nest(CTA_TUPLE_ORIG)
  const ip = batch.nest(CTA_TUPLE_IP)
  encodeAddress(batch, SOURCE[family], original.source, family)
  encodeAddress(batch, DESTINATION[family], original.destination, family)
  batch.endNest(ip)
  const proto = batch.nest(CTA_TUPLE_PROTO)
  batch.u8(CTA_PROTO_NUM, PROTOCOL_NUMBER[protocol])
  batch.u16be(CTA_PROTO_SRC_PORT, original.sourcePort)
  batch.u16be(CTA_PROTO_DST_PORT, original.destinationPort)
  batch.endNest(proto)
  // A kernel without zones refuses both attributes, whatever their value.
  if (original.zone !== 0) batch.u16be(CTA_TUPLE_ZONE, original.zone)
  batch.endNest(tuple)
  if (zone !== 0) batch.u16be(CTA_ZONE, zone)
  batch.u32be(CTA_ID, id)
  batch.end()
}

function encodeAddress(batch: MessageBatch, type: number, text: string, family: IpFamily): void {
  if (familyOf(text) !== family) throw netlinkError('netlink-unencodable', `${text} in a flow of ${family}`)
  batch.written(type, ADDRESS_LENGTH[family], writeAddress, text)
}

/** Reads IPCTNL_MSG_CT_NEW, a line of a dump; undefined for a flow of an unknown family or protocol. */
export function decodeFlow(message: ReceivedMessage): Flow | undefined {
  const attributes = netfilterAttributes(message, CTNETLINK, IPCTNL_MSG_CT_NEW, 'IPCTNL_MSG_CT_NEW')
  const family = netfilterFamily(message)
  if (family === undefined) return undefined
  let original: DecodedTuple | undefined
  let reply: DecodedTuple | undefined
  let id: number | undefined
  let zone = 0
  while (attributes.next()) {
    if (attributes.type === CTA_TUPLE_ORIG) original = decodeTuple(attributes, family)
    else if (attributes.type === CTA_TUPLE_REPLY) reply = decodeTuple(attributes, family)
    else if (attributes.type === CTA_ID) id = attributes.u32be()
    else if (attributes.type === CTA_ZONE) zone = attributes.u16be()
  }
  if (original === undefined || reply === undefined || id === undefined) throw incomplete()
  if (original.protocol === undefined) return undefined
  return { family, protocol: original.protocol, original: original.tuple, reply: reply.tuple, zone, id }
}

/**
 * enum tcp_conntrack: TCP_CONNTRACK_SYN_SENT, _SYN_RECV, _ESTABLISHED and _SYN_SENT2. IPVS calls
 * connections in these states active.
 */
const ACTIVE_TCP_STATES: ReadonlySet<number> = new Set([1, 2, 3, 9])

/**
 * IPS_DST_NAT of enum ip_conntrack_status: a rule has translated the destination. IPVS, which does
 * it too, does not set it.
 */
const IPS_DST_NAT = 1 << 5

/** Reads the state of a flow from a line of a dump. */
export function decodeFlowState(message: ReceivedMessage): FlowState {
  const attributes = netfilterAttributes(message, CTNETLINK, IPCTNL_MSG_CT_NEW, 'IPCTNL_MSG_CT_NEW')
  let isActiveTcp = false
  let isByRule = false
  while (attributes.next())
    if (attributes.type === CTA_STATUS) isByRule = (attributes.u32be() & IPS_DST_NAT) !== 0
    else if (attributes.type === CTA_PROTOINFO) isActiveTcp = hasActiveState(attributes.nested())
  return { isActiveTcp, isByRule }
}

function hasActiveState(protocols: AttributeCursor): boolean {
  while (protocols.next()) {
    if (protocols.type !== CTA_PROTOINFO_TCP) continue
    const fields = protocols.nested()
    while (fields.next()) if (fields.type === CTA_PROTOINFO_TCP_STATE) return ACTIVE_TCP_STATES.has(fields.u8())
  }
  return false
}

interface DecodedTuple {
  /** undefined: an unknown protocol, whose tuples may have no ports. */
  readonly protocol: Protocol | undefined
  readonly tuple: FlowTuple
}

const NO_PORT = -1

function decodeTuple(attribute: AttributeCursor, family: IpFamily): DecodedTuple {
  const tuple = { source: '', sourcePort: NO_PORT, destination: '', destinationPort: NO_PORT, zone: 0 }
  let protocolNumber: number | undefined
  const parts = attribute.nested()
  while (parts.next()) {
    if (parts.type === CTA_TUPLE_IP) {
      const addresses = parts.nested()
      while (addresses.next()) {
        if (addresses.type === SOURCE[family]) tuple.source = decodeAddress(addresses, family)
        else if (addresses.type === DESTINATION[family]) tuple.destination = decodeAddress(addresses, family)
      }
    } else if (parts.type === CTA_TUPLE_PROTO) {
      const proto = parts.nested()
      while (proto.next()) {
        if (proto.type === CTA_PROTO_NUM) protocolNumber = proto.u8()
        else if (proto.type === CTA_PROTO_SRC_PORT) tuple.sourcePort = proto.u16be()
        else if (proto.type === CTA_PROTO_DST_PORT) tuple.destinationPort = proto.u16be()
      }
    } else if (parts.type === CTA_TUPLE_ZONE) tuple.zone = parts.u16be()
  }
  if (protocolNumber === undefined || tuple.source === '' || tuple.destination === '') throw incomplete()
  const protocol = protocolOfNumber(protocolNumber)
  if (protocol !== undefined && (tuple.sourcePort === NO_PORT || tuple.destinationPort === NO_PORT)) throw incomplete()
  return { protocol, tuple }
}

function decodeAddress(attribute: AttributeCursor, family: IpFamily): string {
  attribute.expect(ADDRESS_LENGTH[family])
  return readAddress(attribute.bytes, attribute.offset, family)
}

/** Reads the answer to IPCTNL_MSG_CT_GET_STATS. */
export function decodeTableSize(message: ReceivedMessage): TableSize {
  const attributes = netfilterAttributes(message, CTNETLINK, IPCTNL_MSG_CT_GET_STATS, 'IPCTNL_MSG_CT_GET_STATS')
  let flows: number | undefined
  let limit: number | undefined
  while (attributes.next()) {
    if (attributes.type === CTA_STATS_GLOBAL_ENTRIES) flows = attributes.u32be()
    else if (attributes.type === CTA_STATS_GLOBAL_MAX_ENTRIES) limit = attributes.u32be()
  }
  if (flows === undefined) throw incomplete()
  return { flows, limit }
}

function incomplete(): Error {
  return netlinkError('netlink-malformed', 'conntrack message that lacks a field')
}
