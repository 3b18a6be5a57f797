/**
 * Statements of rules as expressions, as nft itself writes them, so that nft can print them: the
 * part of an address that ends at a byte is compared as so many bytes, any other with a mask.
 */
import type { MessageBatch } from '../netlink/batch.ts'
import { netlinkError } from '../netlink/errors.ts'
import { ADDRESS_LENGTH, writeAddress } from '../values/address.ts'
import { type IpFamily, PROTOCOL_NUMBER } from '../values/protocol.ts'
import {
  CMP_EQ,
  CMP_NEQ,
  CT_STATE_NEW,
  ExpressionEncoder,
  FULLY_RANDOM,
  LOOKUP_INVERTED,
  META,
  NETWORK_HEADER,
  TRANSPORT_HEADER,
} from './expression-codec.ts'
import { fieldLength, padded } from './fields.ts'
import { parseNetwork } from './networks.ts'
import type { NftStatement, PacketField } from './types.ts'

/** Bytes of a network interface's name with its NUL (IFNAMSIZ). */
const IFNAMSIZ = 16
/** Offset of the destination port in TCP, UDP and SCTP. */
const DESTINATION_PORT = 2
/** Port unreachable of ICMP and of ICMPv6. */
const PORT_UNREACHABLE: Readonly<Record<IpFamily, number>> = { IPv4: 3, IPv6: 4 }
/** Offsets of the addresses in the headers of IPv4 and IPv6. */
export const ADDRESS_OFFSET: Readonly<Record<IpFamily, Readonly<Record<'saddr' | 'daddr', number>>>> = {
  IPv4: { saddr: 12, daddr: 16 },
  IPv6: { saddr: 8, daddr: 24 },
}

/** An anonymous set that a rule of the same transaction refers to. */
export interface AnonymousSet {
  readonly name: string
  readonly id: number
}

/**
 * Writes the expressions of a statement. Throws `netlink-unencodable` for a foreign one.
 * @param networks the anonymous set of a statement of several networks
 */
export function encodeStatement(
  batch: MessageBatch,
  statement: NftStatement,
  family: IpFamily,
  networks: AnonymousSet | undefined,
): void {
  const to = new ExpressionEncoder(batch)
  switch (statement.kind) {
    case 'interface':
      to.loadMeta(META.iifname)
      return to.compare(comparison(statement), interfaceBytes(statement.name))
    case 'network':
      return encodeNetwork(to, statement, family)
    case 'networks':
      if (networks === undefined) throw netlinkError('netlink-unencodable', 'networks without their set')
      loadFields(to, [statement.field], family)
      return to.lookup(networks.name, { id: networks.id })
    case 'protocol':
      to.loadMeta(META.l4proto)
      return to.compare(CMP_EQ, Uint8Array.of(PROTOCOL_NUMBER[statement.protocol]))
    case 'new-connection':
      to.loadConnectionState()
      to.bitwise(hostOrder(CT_STATE_NEW), hostOrder(0))
      return to.compare(CMP_NEQ, hostOrder(0))
    case 'mark':
      to.loadMeta(META.mark)
      to.bitwise(hostOrder(statement.mask), hostOrder(0))
      return to.compare(comparison(statement), hostOrder(statement.mask))
    case 'lookup':
      loadFields(to, statement.fields, family)
      return to.lookup(statement.set, { flags: statement.isNot === true ? LOOKUP_INVERTED : 0 })
    case 'verdict-map':
      loadFields(to, statement.fields, family)
      return to.lookup(statement.map, { isMap: true })
    case 'set-mark':
      to.loadMeta(META.mark)
      to.bitwise(hostOrder(statement.to === 'set' ? ~statement.mask : -1), hostOrder(statement.mask))
      return to.setMark()
    case 'keep-destination':
      loadFields(to, ['daddr'], family)
      return to.destination(family)
    case 'masquerade':
      return to.masquerade(statement.isFullyRandom ? FULLY_RANDOM : 0)
    case 'reject':
      return to.reject(PORT_UNREACHABLE[family])
    case 'verdict':
      return to.verdict(statement.action)
    case 'foreign':
      throw netlinkError('netlink-unencodable', `the expression ${statement.expression} is not written`)
  }
}

function comparison({ isNot }: { readonly isNot?: true }): number {
  return isNot === true ? CMP_NEQ : CMP_EQ
}

/** 4 bytes as they are in a register of this machine, which is little endian (see MessageBatch). */
export function hostOrder(value: number): Uint8Array {
  const bytes = new Uint8Array(4)
  new DataView(bytes.buffer).setUint32(0, value >>> 0, true)
  return bytes
}

/** A name is compared with its NUL and what follows; a beginning without. */
function interfaceBytes(name: string): Uint8Array {
  const isBeginning = name.endsWith('*')
  const text = Buffer.from(isBeginning ? name.slice(0, -1) : name, 'utf8')
  if (text.length >= IFNAMSIZ || text.length === 0)
    throw netlinkError('netlink-unencodable', `not a network interface: ${JSON.stringify(name)}`)
  if (isBeginning) return text
  const bytes = new Uint8Array(IFNAMSIZ)
  bytes.set(text)
  return bytes
}

function encodeNetwork(
  to: ExpressionEncoder,
  statement: Extract<NftStatement, { kind: 'network' }>,
  family: IpFamily,
): void {
  const { address, prefixLength } = parseNetwork(statement.cidr, family)
  const length = ADDRESS_LENGTH[family]
  const bytes = new Uint8Array(length)
  writeAddress(address, bytes, 0)
  const isWhole = prefixLength > 0 && prefixLength % 8 === 0
  const compared = isWhole ? prefixLength / 8 : length
  to.loadPayload(NETWORK_HEADER, ADDRESS_OFFSET[family][statement.field], compared)
  if (!isWhole) to.bitwise(netmask(prefixLength, length), new Uint8Array(length))
  to.compare(comparison(statement), bytes.subarray(0, compared))
}

/** The mask of a prefix in network order. */
export function netmask(prefixLength: number, length: number): Uint8Array {
  const bytes = new Uint8Array(length)
  for (let index = 0; index < length; index++) {
    const bits = Math.min(8, Math.max(0, prefixLength - 8 * index))
    bytes[index] = (0xff << (8 - bits)) & 0xff
  }
  return bytes
}

/** Loads fields beside each other, from the first register on. */
function loadFields(to: ExpressionEncoder, fields: readonly PacketField[], family: IpFamily): void {
  let word = 0
  for (const field of fields) {
    const length = fieldLength(field, family)
    if (field === 'l4proto') to.loadMeta(META.l4proto, word)
    else if (field === 'dport') to.loadPayload(TRANSPORT_HEADER, DESTINATION_PORT, length, word)
    else to.loadPayload(NETWORK_HEADER, ADDRESS_OFFSET[family][field], length, word)
    word += padded(length) / 4
  }
}
