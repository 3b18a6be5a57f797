/**
 * Sets on the wire (linux/netfilter/ipset/ip_set.h, ip_set_hash.h, ip_set_bitmap.h): requests about
 * sets. Numbers inside DATA are big endian and must carry NLA_F_NET_BYTEORDER, or the kernel
 * answers IPSET_ERR_PROTOCOL; LINENO is in host order. Written by hand: there is no library for
 * Node, and a process of `ipset` for each change would cost more than the change.
 */
import type { AttributeCursor } from '../netlink/attributes.ts'
import type { MessageBatch } from '../netlink/batch.ts'
import { NLA_F_NET_BYTEORDER, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL } from '../netlink/constants.ts'
import { netlinkError } from '../netlink/errors.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import { beginNetfilter, netfilterAttributes, NFNL_SUBSYS } from '../netlink/nfnetlink-codec.ts'
import { FAMILY_NUMBER, type IpFamily } from '../values/protocol.ts'
import { HASH_SIZE, type SetName, type SetType } from './catalogue.ts'
import type { SetParameters } from './types.ts'

/** IPSET_PROTOCOL: the version that this program uses; kernels since 4.20 have it. */
export const IPSET_PROTOCOL = 7

/** enum ipset_cmd */
const IPSET_CMD = {
  PROTOCOL: 1,
  CREATE: 2,
  DESTROY: 3,
  RENAME: 5,
  SWAP: 6,
  LIST: 7,
  ADD: 9,
  DEL: 10,
  TYPE: 13,
} as const

type IpsetCommand = keyof typeof IPSET_CMD

/** IPSET_ATTR_* at command level */
export const IPSET_ATTR = {
  PROTOCOL: 1,
  SETNAME: 2,
  TYPENAME: 3,
  /** IPSET_ATTR_SETNAME2 of RENAME and SWAP has the number of TYPENAME. */
  SETNAME2: 3,
  REVISION: 4,
  FAMILY: 5,
  FLAGS: 6,
  DATA: 7,
  ADT: 8,
  LINENO: 9,
  PROTOCOL_MIN: 10,
  /** IPSET_ATTR_REVISION_MIN of TYPE has the number of PROTOCOL_MIN. */
  REVISION_MIN: 10,
} as const

/** IPSET_ATTR_* inside DATA: of an entry (ADT) or of a set's parameters (CREATE). */
export const IPSET_DATA = {
  IP: 1,
  PORT: 4,
  PORT_TO: 5,
  TIMEOUT: 6,
  PROTO: 7,
  CADT_FLAGS: 8,
  BITMASK: 12,
  HASHSIZE: 18,
  MAXELEM: 19,
  NETMASK: 20,
  ELEMENTS: 24,
  REFERENCES: 25,
  IP2: 20,
  CIDR2: 21,
} as const

/** IPSET_ATTR_IPADDR_* inside IP and IP2 */
export const IPSET_ATTR_IPADDR_IPV4 = 1
export const IPSET_ATTR_IPADDR_IPV6 = 2

/** IPSET_FLAG_LIST_HEADER at command level: sets without their entries. */
const IPSET_FLAG_LIST_HEADER = 4

/** IPSET_FLAG_* of CADT_FLAGS of an entry */
export const IPSET_FLAG_NOMATCH = 0x04

/**
 * The requested revision of each type: the last one without `bucketsize` (Linux 5.11). Kernels
 * since 3.18 have it, and every ipset program since 6.22 can print it. Later revisions add nothing
 * that we set.
 */
export const REVISION: Readonly<Record<SetType, number>> = {
  'hash:ip': 4,
  'hash:ip,port': 5,
  'hash:ip,port,ip': 5,
  'hash:ip,port,net': 7,
  'bitmap:port': 3,
}

const NFPROTO_UNSPEC = 0

/** Starts a message of the ipset subsystem. Errors name it `IPSET_CMD_…`. */
export function beginIpset(batch: MessageBatch, command: IpsetCommand, family: IpFamily | undefined, flags = 0): void {
  beginNetfilter(batch, NFNL_SUBSYS.IPSET, IPSET_CMD[command], flags, OPERATION[command], family)
  batch.u8(IPSET_ATTR.PROTOCOL, IPSET_PROTOCOL)
}

const OPERATION: Readonly<Record<IpsetCommand, string>> = {
  PROTOCOL: 'IPSET_CMD_PROTOCOL',
  CREATE: 'IPSET_CMD_CREATE',
  DESTROY: 'IPSET_CMD_DESTROY',
  RENAME: 'IPSET_CMD_RENAME',
  SWAP: 'IPSET_CMD_SWAP',
  LIST: 'IPSET_CMD_LIST',
  ADD: 'IPSET_CMD_ADD',
  DEL: 'IPSET_CMD_DEL',
  TYPE: 'IPSET_CMD_TYPE',
}

/** IPSET_CMD_PROTOCOL: which versions the kernel supports. */
export function encodeProtocol(batch: MessageBatch): void {
  beginIpset(batch, 'PROTOCOL', undefined)
  batch.end()
}

/**
 * IPSET_CMD_CREATE. An existing set with equal parameters (buckets aside) is success, unless
 * `exclusive`; one with other parameters is EEXIST. `parameters.extras` is not written: we never
 * set any.
 */
export function encodeCreate(
  batch: MessageBatch,
  name: SetName,
  type: SetType,
  parameters: SetParameters,
  options: { readonly hashSize?: number; readonly exclusive?: boolean } = {},
): void {
  const { family, maxElements, firstPort, lastPort } = parameters
  beginIpset(batch, 'CREATE', family, NLM_F_CREATE | (options.exclusive === true ? NLM_F_EXCL : 0))
  batch.string(IPSET_ATTR.SETNAME, name)
  batch.string(IPSET_ATTR.TYPENAME, type)
  batch.u8(IPSET_ATTR.REVISION, REVISION[type])
  batch.u8(IPSET_ATTR.FAMILY, family === undefined ? NFPROTO_UNSPEC : FAMILY_NUMBER[family])
  const data = batch.nest(IPSET_ATTR.DATA)
  if (type === 'bitmap:port') {
    batch.u16be(IPSET_DATA.PORT | NLA_F_NET_BYTEORDER, firstPort)
    batch.u16be(IPSET_DATA.PORT_TO | NLA_F_NET_BYTEORDER, lastPort)
  } else {
    batch.u32be(IPSET_DATA.HASHSIZE | NLA_F_NET_BYTEORDER, options.hashSize ?? HASH_SIZE)
    batch.u32be(IPSET_DATA.MAXELEM | NLA_F_NET_BYTEORDER, maxElements)
  }
  batch.endNest(data)
  batch.end()
}

/** IPSET_CMD_DESTROY: IPSET_ERR_BUSY while something refers to the set; success when the set does not exist. */
export function encodeDestroy(batch: MessageBatch, name: SetName): void {
  beginIpset(batch, 'DESTROY', undefined)
  batch.string(IPSET_ATTR.SETNAME, name)
  batch.end()
}

/**
 * IPSET_CMD_SWAP: the sets exchange their names, and rules refer to the other one;
 * IPSET_ERR_TYPE_MISMATCH when their types differ. IPSET_CMD_RENAME: `second` must be free;
 * IPSET_ERR_REFERENCED while something refers to `first`.
 */
export function encodePair(batch: MessageBatch, command: 'SWAP' | 'RENAME', first: SetName, second: SetName): void {
  beginIpset(batch, command, undefined)
  batch.string(IPSET_ATTR.SETNAME, first)
  batch.string(IPSET_ATTR.SETNAME2, second)
  batch.end()
}

/**
 * IPSET_CMD_LIST as a dump: all sets (`name` undefined) or one (ENOENT when it does not exist),
 * with entries or without.
 */
export function encodeList(batch: MessageBatch, name: SetName | undefined, headersOnly: boolean): void {
  beginIpset(batch, 'LIST', undefined, NLM_F_DUMP)
  if (name !== undefined) batch.string(IPSET_ATTR.SETNAME, name)
  if (headersOnly) batch.u32be(IPSET_ATTR.FLAGS | NLA_F_NET_BYTEORDER, IPSET_FLAG_LIST_HEADER)
  batch.end()
}

/**
 * IPSET_CMD_TYPE: whether the kernel has a type; IPSET_ERR_FIND_TYPE when not. The kernel loads the
 * module if it can.
 */
export function encodeType(batch: MessageBatch, type: SetType, family: IpFamily | undefined): void {
  beginIpset(batch, 'TYPE', family)
  batch.string(IPSET_ATTR.TYPENAME, type)
  batch.u8(IPSET_ATTR.FAMILY, family === undefined ? NFPROTO_UNSPEC : FAMILY_NUMBER[family])
  batch.end()
}

/** Attributes of a reply; `netlink-malformed` for any other message. */
export function ipsetAttributes(message: ReceivedMessage, command: IpsetCommand): AttributeCursor {
  return netfilterAttributes(message, NFNL_SUBSYS.IPSET, IPSET_CMD[command], OPERATION[command])
}

/** Lowest and highest version that the kernel supports. */
export interface Versions {
  readonly lowest: number
  readonly highest: number
}

/** Reads the answer to PROTOCOL or TYPE: protocol versions, revisions of the type. */
export function decodeVersions(message: ReceivedMessage, command: 'PROTOCOL' | 'TYPE'): Versions {
  const attributes = ipsetAttributes(message, command)
  const wanted = command === 'PROTOCOL' ? IPSET_ATTR.PROTOCOL : IPSET_ATTR.REVISION
  let highest: number | undefined
  let lowest: number | undefined
  while (attributes.next()) {
    if (attributes.type === wanted) highest = attributes.u8()
    else if (attributes.type === IPSET_ATTR.PROTOCOL_MIN) lowest = attributes.u8()
  }
  if (highest === undefined) throw netlinkError('netlink-malformed', `${OPERATION[command]} that lacks a field`)
  // For a type with one revision the kernel sends no lowest one.
  return { lowest: lowest ?? highest, highest }
}
