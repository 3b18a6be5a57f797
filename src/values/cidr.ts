/**
 * Address ranges, parsed once and compared often. `address` is canonical and has its host bits
 * cleared; `contains` compares numbers, and never across families.
 */
import { familyOf, parseAddressSloppy, readAddress, writeAddress } from './address.ts'
import type { IpFamily } from './protocol.ts'

/** A range of addresses of one family. */
export interface Cidr {
  readonly family: IpFamily
  /** Canonical text, host bits cleared. */
  readonly address: string
  /** 0-32 for IPv4, 0-128 for IPv6. */
  readonly prefixLength: number
}

const prefixBytes = new Uint8Array(16)
const candidateBytes = new Uint8Array(16)

/** The netmask's byte `index` for a prefix length. */
function maskAt(index: number, prefixLength: number): number {
  const bits = Math.min(8, Math.max(0, prefixLength - 8 * index))
  return (0xff << (8 - bits)) & 0xff
}

/**
 * A range from `address/length` as Kubernetes' netutils.ParseCIDRSloppy reads it (leading zeros
 * allowed in both parts); undefined when the text is no range. The range of an IPv4-mapped IPv6
 * address keeps its IPv6 form unless the prefix ends inside the mapping: at 96 and longer it is the
 * IPv4 range, because a Go net.IP cannot distinguish the two.
 */
export function parseCidr(text: string): Cidr | undefined {
  const slash = text.indexOf('/')
  if (slash < 0) return undefined
  const lengthText = text.slice(slash + 1)
  const host = text.slice(0, slash)
  const address = parseAddressSloppy(host)
  if (address === undefined || !/^[0-9]+$/.test(lengthText)) return undefined
  let prefixLength = Number(lengthText)
  const written = host.includes(':') ? 'IPv6' : 'IPv4'
  if (prefixLength > (written === 'IPv4' ? 32 : 128)) return undefined
  let size = writeAddress(address, prefixBytes, 0)
  if (written === 'IPv6' && size === 4) {
    if (prefixLength >= 96) {
      prefixLength -= 96
    } else {
      size = 16
      writeAddress(`::ffff:${address}`, prefixBytes, 0)
    }
  }
  const family: IpFamily = size === 4 ? 'IPv4' : 'IPv6'
  for (let index = 0; index < size; index++) {
    prefixBytes[index] = (prefixBytes[index] ?? 0) & maskAt(index, prefixLength)
  }
  return { family, address: readAddress(prefixBytes, 0, family), prefixLength }
}

/** The ranges that `parseCidr` reads; other texts are left out. */
export function parseCidrs(texts: readonly string[]): readonly Cidr[] {
  return texts.flatMap((text) => parseCidr(text) ?? [])
}

/** `10.96.0.0/12` or `fd00::/108`. */
export function formatCidr(cidr: Cidr): string {
  return `${cidr.address}/${cidr.prefixLength}`
}

/** Whether a canonical address is in the range. An address of the other family never is. */
export function contains(cidr: Cidr, address: string): boolean {
  if (familyOf(address) !== cidr.family) return false
  writeAddress(cidr.address, prefixBytes, 0)
  writeAddress(address, candidateBytes, 0)
  const wholeBytes = cidr.prefixLength >>> 3
  for (let index = 0; index < wholeBytes; index++) {
    if (prefixBytes[index] !== candidateBytes[index]) return false
  }
  const mask = maskAt(wholeBytes, cidr.prefixLength)
  return ((prefixBytes[wholeBytes] ?? 0) & mask) === ((candidateBytes[wholeBytes] ?? 0) & mask)
}
