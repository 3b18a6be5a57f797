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

/** Lists that were made here: the source ranges of a Service are very many, and are compared and written again. */
const CANONICAL = new WeakSet<readonly string[]>()

/** The fewest networks with the same addresses, sorted, as texts that nft prints. */
export function canonicalNetworks(texts: readonly string[], family: IpFamily): readonly string[] {
  return CANONICAL.has(texts) ? texts : networksOf(intervalsOf(texts, family), family)
}

/** The fewest networks with the addresses of intervals, which may touch, but are sorted by where they begin. */
export function networksOf(intervals: readonly Interval[], family: IpFamily): readonly string[] {
  const texts: string[] = []
  for (const interval of merged(intervals)) addNetworks(texts, interval, family)
  CANONICAL.add(texts)
  return texts
}

/** The addresses of networks as intervals, sorted, of which none touches another. */
export function intervalsOf(texts: readonly string[], family: IpFamily): readonly Interval[] {
  return merged(texts.map((text) => intervalOf(parseNetwork(text, family))).sort(byStart))
}

function merged(sorted: readonly Interval[]): readonly Interval[] {
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
  const from = numberOf(address, family)
  return { from, to: from + (1n << BigInt(ADDRESS_LENGTH[family] * 8 - prefixLength)) }
}

/** Adds the fewest networks that are an interval. */
function addNetworks(texts: string[], { from, to }: Interval, family: IpFamily): void {
  const bits = ADDRESS_LENGTH[family] * 8
  let at = from
  while (at < to) {
    // The largest network that begins here, and the largest one that fits.
    const aligned = at === 0n ? bits : bitsOf(at & -at) - 1
    const host = Math.min(aligned, bitsOf(to - at) - 1)
    texts.push(networkText({ family, address: addressText(at, family), prefixLength: bits - host }))
    at += 1n << BigInt(host)
  }
}

/** How many binary digits a number has. */
function bitsOf(number: bigint): number {
  const high = Number(number >> 96n)
  if (high > 0) return 96 + digitsOf(high)
  const upper = Number((number >> 48n) & 0xffff_ffff_ffffn)
  return upper > 0 ? 48 + digitsOf(upper) : digitsOf(Number(number & 0xffff_ffff_ffffn))
}

/** Of a number below 2 ** 53. */
function digitsOf(number: number): number {
  const high = Math.floor(number / 2 ** 32)
  return high > 0 ? 64 - Math.clz32(high) : 32 - Math.clz32(number)
}

/** The first number behind the last address of a family. */
export function endOfSpace(family: IpFamily): bigint {
  return 1n << BigInt(ADDRESS_LENGTH[family] * 8)
}

/** Network bytes of an address as a number. */
export function numberOfBytes(bytes: Uint8Array, offset: number, family: IpFamily): bigint {
  const view = new DataView(bytes.buffer, bytes.byteOffset + offset, ADDRESS_LENGTH[family])
  return family === 'IPv4' ? BigInt(view.getUint32(0)) : (view.getBigUint64(0) << 64n) | view.getBigUint64(8)
}

const scratch = new Uint8Array(16)

function numberOf(address: string, family: IpFamily): bigint {
  writeAddress(address, scratch, 0)
  return numberOfBytes(scratch, 0, family)
}

/** The address with this number, in network bytes. */
export function addressBytes(number: bigint, family: IpFamily): Uint8Array {
  const bytes = new Uint8Array(ADDRESS_LENGTH[family])
  const view = new DataView(bytes.buffer)
  if (family === 'IPv4') view.setUint32(0, Number(number))
  else {
    view.setBigUint64(0, number >> 64n)
    view.setBigUint64(8, number & 0xffff_ffff_ffff_ffffn)
  }
  return bytes
}

function addressText(number: bigint, family: IpFamily): string {
  return readAddress(addressBytes(number, family), 0, family)
}
