/**
 * Networks as nft keeps them: a list of them is a set of intervals, whose borders are the first
 * address of each and the first one behind it. What touches is one interval, so one set of addresses
 * has one list of networks.
 */
import { ADDRESS_LENGTH, readAddress, writeAddress } from '../values/address.ts'
import { type Cidr, parseCidr } from '../values/cidr.ts'
import { netlinkError } from '../netlink/errors.ts'
import type { IpFamily } from '../values/protocol.ts'

/** From its first address up to, but not with, the second one, as numbers. */
export interface Interval {
  readonly from: bigint
  readonly to: bigint
}

/** The network of a text that nft prints or takes: `10.0.0.0/8`, `192.0.2.7`. Throws `netlink-unencodable`. */
export function parseNetwork(text: string, family: IpFamily): Cidr {
  const cidr = parseCidr(text.includes('/') ? text : `${text}/${ADDRESS_LENGTH[family] * 8}`)
  if (cidr === undefined || cidr.family !== family)
    throw netlinkError('netlink-unencodable', `not a network of ${family}: ${JSON.stringify(text)}`)
  return cidr
}

/** As nft prints it: a host has no length. */
export function networkText({ family, address, prefixLength }: Cidr): string {
  return prefixLength === ADDRESS_LENGTH[family] * 8 ? address : `${address}/${prefixLength}`
}

/** The text that nft prints for a network: without the bits of hosts, and `192.0.2.7` for `192.0.2.7/32`. */
export function canonicalNetwork(text: string, family: IpFamily): string {
  return networkText(parseNetwork(text, family))
}

/** The fewest networks with the same addresses, sorted, as texts that nft prints. */
export function canonicalNetworks(texts: readonly string[], family: IpFamily): readonly string[] {
  return intervalsOf(texts, family).flatMap((interval) => networksOf(interval, family))
}

/** The addresses of networks as intervals, sorted, of which none touches another. */
export function intervalsOf(texts: readonly string[], family: IpFamily): readonly Interval[] {
  const sorted = texts.map((text) => intervalOf(parseNetwork(text, family))).sort(byStart)
  const merged: { from: bigint; to: bigint }[] = []
  for (const { from, to } of sorted) {
    const last = merged.at(-1)
    if (last === undefined || from > last.to) merged.push({ from, to })
    else if (to > last.to) last.to = to
  }
  return merged
}

function byStart(a: Interval, b: Interval): number {
  return a.from < b.from ? -1 : Number(a.from > b.from)
}

function intervalOf({ family, address, prefixLength }: Cidr): Interval {
  const from = numberOf(address)
  return { from, to: from + (1n << BigInt(ADDRESS_LENGTH[family] * 8 - prefixLength)) }
}

/** The fewest networks that are an interval. */
export function networksOf({ from, to }: Interval, family: IpFamily): string[] {
  const texts: string[] = []
  const bits = ADDRESS_LENGTH[family] * 8
  let at = from
  while (at < to) {
    let size = 0
    while (size < bits && (at & ((2n << BigInt(size)) - 1n)) === 0n && at + (2n << BigInt(size)) <= to) size++
    texts.push(networkText({ family, address: addressText(at, family), prefixLength: bits - size }))
    at += 1n << BigInt(size)
  }
  return texts
}

/** The first number behind the last address of a family. */
export function endOfSpace(family: IpFamily): bigint {
  return 1n << BigInt(ADDRESS_LENGTH[family] * 8)
}

/** Network bytes of an address as a number. */
export function numberOfBytes(bytes: Uint8Array, offset: number, length: number): bigint {
  let number = 0n
  for (let index = 0; index < length; index++) number = (number << 8n) | BigInt(bytes[offset + index] ?? 0)
  return number
}

function numberOf(address: string): bigint {
  const bytes = new Uint8Array(16)
  return numberOfBytes(bytes, 0, writeAddress(address, bytes, 0))
}

/** The address with this number, in network bytes. */
export function addressBytes(number: bigint, family: IpFamily): Uint8Array {
  const bytes = new Uint8Array(ADDRESS_LENGTH[family])
  let rest = number
  for (let index = bytes.length - 1; index >= 0; index--) {
    bytes[index] = Number(rest & 0xffn)
    rest >>= 8n
  }
  return bytes
}

function addressText(number: bigint, family: IpFamily): string {
  return readAddress(addressBytes(number, family), 0, family)
}
