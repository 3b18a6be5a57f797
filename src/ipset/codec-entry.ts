/**
 * Entries on the wire: IPSET_CMD_ADD and IPSET_CMD_DEL of many entries in one message (ADT), and
 * those of a listed set. The kernel runs a message entry by entry and stops at the first one that
 * it refuses; the entries before it are done. Line numbers inside the entries are left out: with
 * them the kernel sends back the whole request with an error. Written by hand, as codec.ts says.
 */
import type { AttributeCursor } from '../netlink/attributes.ts'
import type { MessageBatch } from '../netlink/batch.ts'
import { NLA_F_NET_BYTEORDER } from '../netlink/constants.ts'
import { netlinkError } from '../netlink/errors.ts'
import type { ReceivedMessage } from '../netlink/message.ts'
import { familyOf, readAddress, writeAddress } from '../values/address.ts'
import { type IpFamily, type Protocol, protocolOfNumber } from '../values/protocol.ts'
import type { SetDefinition } from './catalogue.ts'
import {
  beginIpset,
  IPSET_ATTR,
  IPSET_ATTR_IPADDR_IPV4,
  IPSET_ATTR_IPADDR_IPV6,
  IPSET_DATA,
  IPSET_FLAG_NOMATCH,
  ipsetAttributes,
} from './codec.ts'
import { formatEntry, parseEntry, protocolNumber } from './entry-text.ts'
import { ipsetError } from './errors.ts'
import type { EntryParts, SetEntry } from './types.ts'

/** Entries in one message: an attribute holds 65,535 bytes, an IPv6 entry with a network takes 76. */
export const MAX_ENTRIES = 500

/**
 * Adds or deletes up to 500 entries of one set. Adding an existing entry and deleting a missing one
 * are success (no NLM_F_EXCL). Throws `ipset-entry-invalid`.
 * @param name another set of the same type, instead of the defined one
 */
export function encodeEntries(
  batch: MessageBatch,
  command: 'ADD' | 'DEL',
  set: SetDefinition,
  entries: readonly string[],
  name = set.name,
): void {
  // All entries are parsed first, so that an invalid one leaves no partial message.
  const parts = entries.map((text) => partsOf(set, text))
  beginIpset(batch, command, set.family)
  batch.string(IPSET_ATTR.SETNAME, name)
  // The kernel requires it with ADT, even if entries have no line numbers.
  batch.u32(IPSET_ATTR.LINENO, 0)
  const adt = batch.nest(IPSET_ATTR.ADT)
  for (const each of parts) {
    const data = batch.nest(IPSET_ATTR.DATA)
    putParts(batch, each)
    batch.endNest(data)
  }
  batch.endNest(adt)
  batch.end()
}

/** The parts of an entry; throws `ipset-entry-invalid` for a text that is no entry of this set. */
function partsOf(set: SetDefinition, text: string): EntryParts {
  const parts = parseEntry(set.type, set.family, text)
  if (parts === undefined)
    throw ipsetError('ipset-entry-invalid', `${JSON.stringify(text)} is no ${set.family} entry of type ${set.type}`)
  return parts
}

function putParts(batch: MessageBatch, parts: EntryParts): void {
  if (parts.address !== undefined) putAddress(batch, IPSET_DATA.IP, parts.address)
  if (parts.port !== undefined) batch.u16be(IPSET_DATA.PORT | NLA_F_NET_BYTEORDER, parts.port)
  if (parts.protocol !== undefined) batch.u8(IPSET_DATA.PROTO, protocolNumber(parts.protocol))
  if (parts.second !== undefined) putAddress(batch, IPSET_DATA.IP2, parts.second)
  if (parts.secondLength !== undefined) batch.u8(IPSET_DATA.CIDR2, parts.secondLength)
}

function putAddress(batch: MessageBatch, type: number, address: string): void {
  const nest = batch.nest(type)
  if (familyOf(address) === 'IPv4')
    batch.written(IPSET_ATTR_IPADDR_IPV4 | NLA_F_NET_BYTEORDER, 4, writeAddress, address)
  else batch.written(IPSET_ATTR_IPADDR_IPV6 | NLA_F_NET_BYTEORDER, 16, writeAddress, address)
  batch.endNest(nest)
}

/** Calls `visit` for each entry of a LIST message. The set must be of one of our types. */
export function decodeEntries(message: ReceivedMessage, set: string, visit: (entry: SetEntry) => void): void {
  const attributes = ipsetAttributes(message, 'LIST')
  while (attributes.next()) {
    if (attributes.type !== IPSET_ATTR.ADT) continue
    const entries = attributes.nested()
    while (entries.next()) if (entries.type === IPSET_ATTR.DATA) visit(decodeEntry(entries.nested(), set))
  }
}

function decodeEntry(attributes: AttributeCursor, set: string): SetEntry {
  const parts: { -readonly [field in keyof EntryParts]: EntryParts[field] } = {}
  let protocol: Protocol | number | undefined
  let noMatch = false
  while (attributes.next()) {
    switch (attributes.type) {
      case IPSET_DATA.IP:
        parts.address = decodeAddress(attributes.nested())
        break
      case IPSET_DATA.PORT:
        parts.port = attributes.u16be()
        break
      case IPSET_DATA.PROTO: {
        const number = attributes.u8()
        protocol = protocolOfNumber(number) ?? number
        break
      }
      case IPSET_DATA.IP2:
        parts.second = decodeAddress(attributes.nested())
        break
      case IPSET_DATA.CIDR2:
        parts.secondLength = attributes.u8()
        break
      case IPSET_DATA.CADT_FLAGS:
        noMatch = (attributes.u32be() & IPSET_FLAG_NOMATCH) !== 0
        break
    }
  }
  if (protocol !== undefined) parts.protocol = protocol
  if (parts.address === undefined && parts.port === undefined)
    throw netlinkError('netlink-malformed', `an entry of ${set} that lacks a field`)
  const entry = formatEntry(parts)
  return noMatch ? { set, entry, noMatch } : { set, entry }
}

function decodeAddress(attributes: AttributeCursor): string {
  let address: string | undefined
  const read = (length: number, family: IpFamily): void => {
    attributes.expect(length)
    address = readAddress(attributes.bytes, attributes.offset, family)
  }
  while (attributes.next()) {
    if (attributes.type === IPSET_ATTR_IPADDR_IPV4) read(4, 'IPv4')
    else if (attributes.type === IPSET_ATTR_IPADDR_IPV6) read(16, 'IPv6')
  }
  if (address === undefined) throw netlinkError('netlink-malformed', 'an entry with an address of no family')
  return address
}
