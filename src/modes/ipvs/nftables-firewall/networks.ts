/** Networks as nft prints them: one address without its length, and a list without networks inside others. */
import { ADDRESS_LENGTH, familyOf, writeAddress } from '../../../values/address.ts'

/** `10.0.0.0/8`; a network of one address is `10.0.0.1`. */
export function networkText(cidr: string): string {
  const slash = cidr.lastIndexOf('/')
  const address = cidr.slice(0, slash)
  return Number(cidr.slice(slash + 1)) === bitsOf(address) ? address : cidr
}

/**
 * The networks (CIDRs without host bits, or addresses, all of one family) in the order of their
 * addresses, without those inside another: an interval set holds no two that overlap.
 */
export function distinctNetworks(texts: Iterable<string>): readonly string[] {
  const found = Array.from(texts, parse).sort((a, b) => Buffer.compare(a.bytes, b.bytes) || a.length - b.length)
  const kept: Network[] = []
  for (const network of found) {
    const last = kept.at(-1)
    if (last === undefined || !isInside(network, last)) kept.push(network)
  }
  return kept.map(({ text }) => text)
}

interface Network {
  readonly text: string
  readonly bytes: Uint8Array
  /** Of the prefix, in bits. */
  readonly length: number
}

function parse(text: string): Network {
  const slash = text.lastIndexOf('/')
  const address = slash < 0 ? text : text.slice(0, slash)
  const bytes = new Uint8Array(ADDRESS_LENGTH[familyOf(address)])
  writeAddress(address, bytes, 0)
  return {
    text: slash < 0 ? text : networkText(text),
    bytes,
    length: slash < 0 ? bitsOf(address) : Number(text.slice(slash + 1)),
  }
}

/** Whether a network that sorts after another one is inside it. */
function isInside({ bytes }: Network, { bytes: outer, length }: Network): boolean {
  const whole = length >>> 3
  for (let index = 0; index < whole; index++) if (bytes[index] !== outer[index]) return false
  const mask = (0xff << (8 - (length & 7))) & 0xff
  return (length & 7) === 0 || ((bytes[whole] ?? 0) & mask) === ((outer[whole] ?? 0) & mask)
}

const bitsOf = (address: string): number => 8 * ADDRESS_LENGTH[familyOf(address)]
