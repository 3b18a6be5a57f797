/**
 * Fields of packets as the keys of sets: their types in the kernel, their bytes, and their texts as
 * nft prints them. A type of several fields is a number of 6 bits for each, and every field begins
 * at a multiple of 4 bytes.
 */
import { netlinkError } from '../netlink/errors.ts'
import { ADDRESS_LENGTH, readAddress, writeAddress } from '../values/address.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { PacketField } from './types.ts'

/** Numbers of nft's data types (enum datatypes of nftables' datatype.h). */
const TYPE_NUMBER = { ipv4_addr: 7, ipv6_addr: 8, inet_proto: 12, inet_service: 13 } as const

type TypeName = keyof typeof TYPE_NUMBER

const TYPE_BITS = 6
/** Concatenations have at most five fields, and fit 64 bytes. */
const MAX_KEY_BYTES = 64

function typeOf(field: PacketField, family: IpFamily): TypeName {
  if (field === 'l4proto') return 'inet_proto'
  if (field === 'dport') return 'inet_service'
  return family === 'IPv4' ? 'ipv4_addr' : 'ipv6_addr'
}

/** `ipv4_addr . inet_proto . inet_service` */
export function typeText(fields: readonly PacketField[], family: IpFamily): string {
  return fields.map((field) => typeOf(field, family)).join(' . ')
}

/** NFTA_SET_KEY_TYPE */
export function typeNumber(fields: readonly PacketField[], family: IpFamily): number {
  return fields.reduce((number, field) => (number << TYPE_BITS) | TYPE_NUMBER[typeOf(field, family)], 0)
}

/** Bytes of a field, without padding. */
export function fieldLength(field: PacketField, family: IpFamily): number {
  if (field === 'l4proto') return 1
  return field === 'dport' ? 2 : ADDRESS_LENGTH[family]
}

/** NFTA_SET_KEY_LEN: fields of a concatenation are padded to 4 bytes, a single one is not. */
export function keyLength(fields: readonly PacketField[], family: IpFamily): number {
  const [first] = fields
  if (first !== undefined && fields.length === 1) return fieldLength(first, family)
  return fields.reduce((length, field) => length + padded(fieldLength(field, family)), 0)
}

/** The length of a field in a concatenation. */
export function padded(length: number): number {
  return (length + 3) & ~3
}

/**
 * The fields of a set with this type; undefined for a type that this program never writes. Of
 * addresses the first counts as destination: the type does not say which it is.
 */
export function fieldsOfType(type: number, length: number, family: IpFamily): readonly PacketField[] | undefined {
  const fields: PacketField[] = []
  let rest = type
  while (rest > 0) {
    const field = fieldOfNumber(rest & ((1 << TYPE_BITS) - 1), family)
    if (field === undefined) return undefined
    fields.unshift(field)
    rest >>>= TYPE_BITS
  }
  const first = fields.indexOf('daddr')
  const named = fields.map((field, index) => (field === 'daddr' && index !== first ? 'saddr' : field))
  // A protocol alone cannot be told from a port, see encodeKey.
  if (named.length === 0 || (named.length === 1 && named[0] === 'l4proto')) return undefined
  return keyLength(named, family) === length && length <= MAX_KEY_BYTES ? named : undefined
}

function fieldOfNumber(number: number, family: IpFamily): PacketField | undefined {
  if (number === TYPE_NUMBER.inet_proto) return 'l4proto'
  if (number === TYPE_NUMBER.inet_service) return 'dport'
  return number === TYPE_NUMBER[typeOf('daddr', family)] ? 'daddr' : undefined
}

/** Protocols that nft prints by name; those that no Service has occur in foreign elements only. */
const PROTOCOL_NAMES: ReadonlyMap<number, string> = new Map([
  [1, 'icmp'],
  [2, 'igmp'],
  [6, 'tcp'],
  [17, 'udp'],
  [33, 'dccp'],
  [47, 'gre'],
  [50, 'esp'],
  [51, 'ah'],
  [58, 'ipv6-icmp'],
  [132, 'sctp'],
  [136, 'udplite'],
])
const PROTOCOL_NUMBERS: ReadonlyMap<string, number> = new Map(
  [...PROTOCOL_NAMES].map(([number, name]) => [name, number]),
)

/** Begins the text of a key that nft cannot print; its bytes follow. */
const AS_BYTES = '0x'

/**
 * `10.96.0.1 . tcp . 80` from the bytes of a key. The kernel also takes one whose fields have other
 * padding than zeros: two keys with one text would be one element here.
 */
export function readKey(bytes: Uint8Array, offset: number, fields: readonly PacketField[], family: IpFamily): string {
  let text = ''
  let at = offset
  for (const field of fields) {
    const length = fieldLength(field, family)
    for (let index = length; index < padded(length) && fields.length > 1; index++)
      if (bytes[at + index] !== 0) return hexKey(bytes, offset, keyLength(fields, family))
    if (at !== offset) text += ' . '
    if (field === 'l4proto') text += protocolText(bytes[at] ?? 0)
    else if (field === 'dport') text += ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0)
    else text += readAddress(bytes, at, family)
    at += padded(length)
  }
  return text
}

function hexKey(bytes: Uint8Array, offset: number, length: number): string {
  return `${AS_BYTES}${Buffer.from(bytes.buffer, bytes.byteOffset + offset, length).toString('hex')}`
}

/** `tcp`; the number of a protocol that has no name here. */
export function protocolText(number: number): string {
  return PROTOCOL_NAMES.get(number) ?? String(number)
}

/** The number of `tcp`; undefined for a text that is neither a name nor a number. */
export function protocolNumber(text: string): number | undefined {
  const number = PROTOCOL_NUMBERS.get(text)
  if (number !== undefined) return number
  return /^\d{1,3}$/.test(text) && Number(text) < 256 ? Number(text) : undefined
}

/** What encodeKey returned is valid until its next call. */
export interface EncodedKey {
  readonly bytes: Uint8Array
  readonly length: number
}

const scratch = { bytes: new Uint8Array(MAX_KEY_BYTES + 16), length: 0 }

/**
 * The bytes of `10.96.0.1 . tcp . 80`. An element says by its own text which fields it has: a number
 * that another number follows is a protocol, every other one a port. Throws `netlink-unencodable`.
 */
export function encodeKey(value: string, family: IpFamily): EncodedKey {
  scratch.bytes.fill(0)
  if (value.startsWith(AS_BYTES)) return encodeHexKey(value)
  let at = 0
  let from = 0
  let isSingle = true
  while (from <= value.length) {
    const dot = value.indexOf(' . ', from)
    const to = dot < 0 ? value.length : dot
    if (dot >= 0) isSingle = false
    const length = writeField(value, from, to, family, at)
    at += isSingle ? length : padded(length)
    if (at > MAX_KEY_BYTES) throw unencodable(value)
    if (dot < 0) break
    from = dot + 3
  }
  scratch.length = at
  return scratch
}

function encodeHexKey(value: string): EncodedKey {
  const digits = value.slice(AS_BYTES.length)
  if (!/^(?:[\da-f]{2}){1,64}$/.test(digits)) throw unencodable(value)
  scratch.bytes.set(Buffer.from(digits, 'hex'))
  scratch.length = digits.length / 2
  return scratch
}

/** Writes the field in `value` from `from` to `to`, and returns its length. */
function writeField(value: string, from: number, to: number, family: IpFamily, at: number): number {
  const number = digitsOf(value, from, to)
  if (number < 0) {
    const part = value.slice(from, to)
    if (part.includes(family === 'IPv4' ? '.' : ':')) return writeAddressField(value, part, at)
    const protocol = PROTOCOL_NUMBERS.get(part)
    if (protocol === undefined) throw unencodable(value)
    scratch.bytes[at] = protocol
    return 1
  }
  if (to - from <= 3 && number < 256 && isBeforeNumber(value, to)) {
    scratch.bytes[at] = number
    return 1
  }
  if (number > 0xffff) throw unencodable(value)
  scratch.bytes[at] = number >>> 8
  scratch.bytes[at + 1] = number & 0xff
  return 2
}

function writeAddressField(value: string, part: string, at: number): number {
  try {
    return writeAddress(part, scratch.bytes, at)
  } catch {
    throw unencodable(value)
  }
}

/** Up to five digits as a number; -1 for anything else. */
function digitsOf(value: string, from: number, to: number): number {
  if (to === from || to > from + 5) return -1
  let number = 0
  for (let at = from; at < to; at++) {
    const digit = value.charCodeAt(at) - 48
    if (digit < 0 || digit > 9) return -1
    number = number * 10 + digit
  }
  return number
}

/** Whether the field that ends at `end` precedes a number. */
function isBeforeNumber(value: string, end: number): boolean {
  if (end === value.length) return false
  const from = end + 3
  const next = value.indexOf(' . ', from)
  return digitsOf(value, from, next < 0 ? value.length : next) >= 0
}

function unencodable(value: string): Error {
  return netlinkError('netlink-unencodable', `not an element: ${JSON.stringify(value)}`)
}
