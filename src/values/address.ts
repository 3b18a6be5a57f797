/**
 * IP addresses as canonical text (decimal IPv4, lower-case shortest IPv6) and as network bytes. The
 * text is a map key everywhere, so every address has exactly one form. `::ffff:1.2.3.4` is IPv6, as
 * in Go's netip; only the sloppy parser reads it as 1.2.3.4, as Go's net.IP does. Written by hand
 * for speed; the tests compare it with ipaddr.js.
 */
import type { IpFamily } from './protocol.ts'

/** Bytes of an address on the wire. */
export const ADDRESS_LENGTH: Readonly<Record<IpFamily, number>> = { IPv4: 4, IPv6: 16 }

const DOT = 46
const COLON = 58
const ZERO = 48

/** The eight 16-bit groups of the IPv6 address being parsed or printed; every function fills it before it reads it. */
const groups = new Uint16Array(8)

/** Value of a hexadecimal digit, -1 for anything else. */
function hexValue(code: number): number {
  if (code >= ZERO && code <= 57) return code - ZERO
  const lower = code | 0x20
  return lower >= 97 && lower <= 102 ? lower - 87 : -1
}

/** Four decimal octets from `start` to the end as an unsigned 32-bit number; -1 when the text is no address. */
function parseOctets(text: string, start: number, sloppy: boolean): number {
  let address = 0
  let at = start
  for (let octet = 0; octet < 4; octet++) {
    if (octet > 0 && text.charCodeAt(at++) !== DOT) return -1
    const first = at
    let value = 0
    for (; at < text.length; at++) {
      const digit = text.charCodeAt(at) - ZERO
      if (digit < 0 || digit > 9) break
      value = value * 10 + digit
      if (value > 255) return -1
    }
    if (at === first) return -1
    if (!sloppy && at > first + 1 && text.charCodeAt(first) === ZERO) return -1
    address = address * 256 + value
  }
  return at === text.length ? address : -1
}

/**
 * Fills `groups` from IPv6 text; false when the text is no address. The sloppy form accepts any
 * number of leading zeros.
 */
function parseGroups(text: string, sloppy: boolean): boolean {
  let at = 0
  let count = 0
  let ellipsis = -1
  if (text.charCodeAt(0) === COLON) {
    if (text.charCodeAt(1) !== COLON) return false
    ellipsis = 0
    at = 2
  }
  while (at < text.length) {
    if (count === 8) return false
    const first = at
    let value = 0
    for (; at < text.length; at++) {
      const digit = hexValue(text.charCodeAt(at))
      if (digit < 0) break
      value = value * 16 + digit
      if (value > 0xffff) return false
    }
    if (at === first || (!sloppy && at > first + 4)) return false
    if (text.charCodeAt(at) === DOT) {
      // The last two groups written as IPv4.
      if (count > 6 || (ellipsis < 0 && count !== 6)) return false
      const tail = parseOctets(text, first, sloppy)
      if (tail < 0) return false
      groups[count++] = tail >>> 16
      groups[count++] = tail & 0xffff
      at = text.length
      break
    }
    groups[count++] = value
    if (at === text.length) break
    if (text.charCodeAt(at++) !== COLON || at === text.length) return false
    if (text.charCodeAt(at) === COLON) {
      if (ellipsis >= 0) return false
      ellipsis = count
      at++
    }
  }
  if (count === 8) return ellipsis < 0
  if (ellipsis < 0) return false
  const moved = count - ellipsis
  groups.copyWithin(8 - moved, ellipsis, count)
  groups.fill(0, ellipsis, 8 - moved)
  return true
}

function groupAt(index: number): number {
  return groups[index] ?? 0
}

function formatIpv4(address: number): string {
  return `${address >>> 24}.${(address >>> 16) & 255}.${(address >>> 8) & 255}.${address & 255}`
}

/** Whether `groups` holds ::ffff:a.b.c.d. */
function isMapped(): boolean {
  for (let index = 0; index < 5; index++) if (groupAt(index) !== 0) return false
  return groupAt(5) === 0xffff
}

/** RFC 5952 section 4: the first longest run of two or more zero groups becomes `::`. */
function formatGroups(): string {
  if (isMapped()) return `::ffff:${formatIpv4(groupAt(6) * 0x10000 + groupAt(7))}`
  let start = -1
  let length = 1
  for (let index = 0; index < 8; index++) {
    if (groupAt(index) !== 0) continue
    let end = index + 1
    while (end < 8 && groupAt(end) === 0) end++
    if (end - index > length) {
      start = index
      length = end - index
    }
    index = end
  }
  let text = ''
  for (let index = 0; index < 8; index++) {
    if (index === start) {
      text += '::'
      index += length - 1
      continue
    }
    if (index > 0 && index !== start + length) text += ':'
    text += groupAt(index).toString(16)
  }
  return text
}

/**
 * Canonical text of an address, or undefined when `text` is no address. As strict as Go's
 * netip.ParseAddr: no leading zeros in IPv4, at most four digits in an IPv6 group, no zone, no
 * white space.
 */
export function parseAddress(text: string): string | undefined {
  if (text.includes(':')) return parseGroups(text, false) ? formatGroups() : undefined
  // Without leading zeros the text is canonical already.
  return parseOctets(text, 0, false) < 0 ? undefined : text
}

/**
 * As parseAddress, but accepts what Kubernetes' netutils.ParseIPSloppy takes (net.ParseIP of Go
 * 1.16): IPv4 octets with leading zeros, read as decimal, and IPv6 groups with more zeros than
 * needed. IPv4-mapped IPv6 becomes the IPv4 address, because a Go net.IP cannot distinguish the two
 * and prints the short one.
 */
export function parseAddressSloppy(text: string): string | undefined {
  if (!text.includes(':')) {
    if (parseOctets(text, 0, false) >= 0) return text
    const address = parseOctets(text, 0, true)
    return address < 0 ? undefined : formatIpv4(address)
  }
  if (!parseGroups(text, true)) return undefined
  return isMapped() ? formatIpv4(groupAt(6) * 0x10000 + groupAt(7)) : formatGroups()
}

/** Family of a canonical address. */
export function familyOf(address: string): IpFamily {
  return address.includes(':') ? 'IPv6' : 'IPv4'
}

/**
 * Writes a canonical address in network byte order at `offset` and returns the number of bytes: 4
 * or 16. The array must have room for them. Text that is no address is a mistake of the program and
 * throws.
 */
export function writeAddress(address: string, into: Uint8Array, offset: number): number {
  const ipv4 = parseOctets(address, 0, false)
  if (ipv4 >= 0) {
    into[offset] = ipv4 >>> 24
    into[offset + 1] = (ipv4 >>> 16) & 255
    into[offset + 2] = (ipv4 >>> 8) & 255
    into[offset + 3] = ipv4 & 255
    return 4
  }
  if (!parseGroups(address, false)) throw new TypeError(`not an IP address: ${JSON.stringify(address)}`)
  for (let index = 0; index < 8; index++) {
    const group = groupAt(index)
    into[offset + 2 * index] = group >>> 8
    into[offset + 2 * index + 1] = group & 255
  }
  return 16
}

/** Canonical text of the 4 or 16 bytes at `offset`; bytes past the end of the array count as 0. */
export function readAddress(bytes: Uint8Array, offset: number, family: IpFamily): string {
  if (family === 'IPv4') {
    return `${bytes[offset] ?? 0}.${bytes[offset + 1] ?? 0}.${bytes[offset + 2] ?? 0}.${bytes[offset + 3] ?? 0}`
  }
  for (let index = 0; index < 8; index++) {
    groups[index] = ((bytes[offset + 2 * index] ?? 0) << 8) | (bytes[offset + 2 * index + 1] ?? 0)
  }
  return formatGroups()
}

/** Whether a canonical address is in 127.0.0.0/8, is ::1, or is IPv4-mapped 127.0.0.0/8 (net.IP.IsLoopback). */
export function isLoopback(address: string): boolean {
  return address.startsWith('127.') || address === '::1' || address.startsWith('::ffff:127.')
}

/** Whether a canonical address is in 169.254.0.0/16 or fe80::/10 (net.IP.IsLinkLocalUnicast). */
export function isLinkLocal(address: string): boolean {
  return address.startsWith('169.254.') || address.startsWith('::ffff:169.254.') || /^fe[89ab][0-9a-f]:/.test(address)
}

/**
 * The kind of a canonical address that no workload has, which the API server and the kernel refuse
 * as endpoint; undefined for others.
 */
export function specialAddress(address: string): string | undefined {
  if (address === '0.0.0.0' || address === '::') return 'unspecified'
  if (address === '255.255.255.255') return 'the broadcast address'
  if (isLoopback(address)) return 'a loopback address'
  if (isLinkLocal(address)) return 'a link-local address'
  return isMulticast(address) ? 'a multicast address' : undefined
}

/** 224.0.0.0/4 and ff00::/8. */
export function isMulticast(address: string): boolean {
  return /^(?:22[4-9]|23\d)\./.test(address) || /^ff[0-9a-f]{2}:/.test(address)
}

/** `10.0.0.1:80` or `[fd00::1]:80`. */
export function formatEndpoint(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
}

/** The address and port that `formatEndpoint` made the text from. */
export function parseEndpoint(text: string): { readonly address: string; readonly port: number } {
  const colon = text.lastIndexOf(':')
  const address = text.startsWith('[') ? text.slice(1, colon - 1) : text.slice(0, colon)
  return { address, port: Number(text.slice(colon + 1)) }
}
