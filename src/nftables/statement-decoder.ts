/**
 * Expressions of a rule as statements. Every statement is a fixed sequence of expressions; what is
 * no sequence of ours becomes `foreign`, one for each expression.
 */
import { ADDRESS_LENGTH, readAddress } from '../values/address.ts'
import { FAMILY_NUMBER, type IpFamily, protocolOfNumber } from '../values/protocol.ts'
import {
  CMP_EQ,
  CMP_NEQ,
  CT_STATE,
  CT_STATE_NEW,
  type Expression,
  FULLY_RANDOM,
  LOOKUP_INVERTED,
  META,
  NAT_DESTINATION,
  NAT_MAP_ADDRESSES,
  registerOf,
  NETWORK_HEADER,
  REJECT_ICMP,
  TRANSPORT_HEADER,
  wordOf,
} from './expression-codec.ts'
import { fieldLength, padded } from './fields.ts'
import { networkText } from './networks.ts'
import { ADDRESS_OFFSET, netmask } from './statement-encoder.ts'
import type { NftStatement, PacketField } from './types.ts'

/** The networks in an anonymous set; undefined when it is no set of networks. */
export type NetworksOf = (set: string) => readonly string[] | undefined

/** A statement, and how many expressions it takes. */
type Found = readonly [statement: NftStatement, count: number] | undefined

/** The statements of a rule, in order. */
export function decodeStatements(
  expressions: readonly Expression[],
  family: IpFamily,
  networksOf: NetworksOf,
): readonly NftStatement[] {
  const statements: NftStatement[] = []
  let at = 0
  while (at < expressions.length) {
    const [statement, count] = new Match(expressions, at, family, networksOf).found() ?? [
      { kind: 'foreign', expression: expressions[at]?.name ?? '' } as const,
      1,
    ]
    statements.push(statement)
    at += count
  }
  return statements
}

class Match {
  readonly #all: readonly Expression[]
  readonly #at: number
  readonly #family: IpFamily
  readonly #networksOf: NetworksOf

  constructor(all: readonly Expression[], at: number, family: IpFamily, networksOf: NetworksOf) {
    this.#all = all
    this.#at = at
    this.#family = family
    this.#networksOf = networksOf
  }

  /** The expression `offset` behind the first one, if it is one of this name. */
  #expression(offset: number, name: string): Expression | undefined {
    const expression = this.#all[this.#at + offset]
    return expression?.name === name ? expression : undefined
  }

  found(): Found {
    const first = this.#all[this.#at]
    switch (first?.name) {
      case 'immediate':
        return first.numbers.get(1) === 0 && first.verdict !== undefined
          ? [{ kind: 'verdict', action: first.verdict }, 1]
          : undefined
      case 'masq':
        return masquerade(first)
      case 'reject':
        return isReject(first, this.#family) ? [{ kind: 'reject' }, 1] : undefined
      case 'ct':
        return this.#newConnection(first)
      case 'meta':
        return this.#meta(first) ?? this.#fields()
      case 'payload':
        return this.#network(first) ?? this.#keptDestination(first) ?? this.#fields()
      default:
        return undefined
    }
  }

  #newConnection(first: Expression): Found {
    const isState = first.numbers.get(2) === CT_STATE && isFirst(first, 1) && !first.numbers.has(4)
    const compare = this.#compared(2)
    if (!isState || compare?.operation !== CMP_NEQ || word(compare.bytes) !== 0) return undefined
    const masked = this.#masked(1)
    return masked !== undefined && word(masked.mask) === CT_STATE_NEW && word(masked.xor) === 0
      ? [{ kind: 'new-connection' }, 3]
      : undefined
  }

  #meta(first: Expression): Found {
    if (!isFirst(first, 1)) return undefined
    switch (first.numbers.get(2)) {
      case META.iifname:
        return this.#interface()
      case META.l4proto: {
        const compare = this.#compared(1)
        const protocol = compare?.bytes.length === 1 ? protocolOfNumber(compare.bytes[0] ?? 0) : undefined
        if (compare?.operation !== CMP_EQ || protocol === undefined) return undefined
        return [{ kind: 'protocol', protocol }, 2]
      }
      case META.mark:
        return this.#mark()
      default:
        return undefined
    }
  }

  #interface(): Found {
    const compare = this.#compared(1)
    if (compare === undefined) return undefined
    const { bytes } = compare
    const end = bytes.indexOf(0)
    const text = Buffer.from(end < 0 ? bytes : bytes.subarray(0, end)).toString('utf8')
    const isBeginning = end < 0
    if (text === '' || (!isBeginning && (bytes.length !== 16 || text.endsWith('*')))) return undefined
    return [{ kind: 'interface', name: isBeginning ? `${text}*` : text, ...not(compare.operation) }, 2]
  }

  #mark(): Found {
    const masked = this.#masked(1)
    if (masked === undefined) return undefined
    const [mask, xor] = [word(masked.mask), word(masked.xor)]
    const set = this.#expression(2, 'meta')
    if (set !== undefined && set.numbers.get(2) === META.mark && isFirst(set, 3)) {
      if (mask === ~xor >>> 0) return [{ kind: 'set-mark', mask: xor, to: 'set' }, 3]
      return mask === 0xffff_ffff ? [{ kind: 'set-mark', mask: xor, to: 'clear' }, 3] : undefined
    }
    const compare = this.#compared(2)
    if (compare === undefined || xor !== 0 || word(compare.bytes) !== mask) return undefined
    return [{ kind: 'mark', mask, ...not(compare.operation) }, 3]
  }

  /** The bytes that the first register is compared with, equal or not. */
  #compared(offset: number): { readonly operation: number; readonly bytes: Uint8Array } | undefined {
    const compare = this.#expression(offset, 'cmp')
    const operation = compare?.numbers.get(2)
    const bytes = compare?.data.get(3)
    if (compare === undefined || bytes === undefined || !isFirst(compare, 1)) return undefined
    return operation === CMP_EQ || operation === CMP_NEQ ? { operation, bytes } : undefined
  }

  #masked(offset: number): { readonly mask: Uint8Array; readonly xor: Uint8Array } | undefined {
    const bitwise = this.#expression(offset, 'bitwise')
    const [mask, xor] = [bitwise?.data.get(4), bitwise?.data.get(5)]
    if (bitwise === undefined || mask === undefined || xor === undefined) return undefined
    const isMask = (bitwise.numbers.get(6) ?? 0) === 0 && isFirst(bitwise, 1) && isFirst(bitwise, 2)
    return isMask ? { mask, xor } : undefined
  }

  #network(first: Expression): Found {
    const field = this.#addressField(first)
    if (field === undefined || !isFirst(first, 1)) return undefined
    const length = first.numbers.get(4) ?? 0
    const size = ADDRESS_LENGTH[this.#family]
    const masked = this.#masked(1)
    const compare = this.#compared(masked === undefined ? 1 : 2)
    if (compare?.bytes.length !== length || length < 1 || length > size) return undefined
    let prefixLength = length * 8
    if (masked !== undefined) {
      prefixLength = prefixOf(masked.mask)
      const isPrefix = length === size && sameBytes(masked.mask, netmask(prefixLength, size))
      if (!isPrefix || masked.xor.some((byte) => byte !== 0)) return undefined
    }
    const bytes = new Uint8Array(size)
    bytes.set(compare.bytes)
    const cidr = networkText({ family: this.#family, address: readAddress(bytes, 0, this.#family), prefixLength })
    return [{ kind: 'network', field, cidr, ...not(compare.operation) }, masked === undefined ? 2 : 3]
  }

  #keptDestination(first: Expression): Found {
    const nat = this.#expression(1, 'nat')
    const isWhole = first.numbers.get(4) === ADDRESS_LENGTH[this.#family] && isFirst(first, 1)
    if (nat === undefined || !isWhole || this.#addressField(first) !== 'daddr') return undefined
    return isKeptDestination(nat, this.#family) ? [{ kind: 'keep-destination' }, 2] : undefined
  }

  #addressField({ numbers }: Expression): 'saddr' | 'daddr' | undefined {
    if (numbers.get(2) !== NETWORK_HEADER || numbers.has(5)) return undefined
    const { saddr, daddr } = ADDRESS_OFFSET[this.#family]
    const offset = numbers.get(3)
    if (offset === saddr) return 'saddr'
    return offset === daddr ? 'daddr' : undefined
  }

  /** Fields beside each other, and the set or map in which they are looked up. */
  #fields(): Found {
    const fields: PacketField[] = []
    let position = 0
    for (;;) {
      const expression = this.#all[this.#at + fields.length]
      const field = expression === undefined ? undefined : this.#field(expression)
      if (expression === undefined || field === undefined) break
      if (wordOf(expression.numbers.get(1) ?? 0) !== position) return undefined
      fields.push(field)
      position += padded(fieldLength(field, this.#family)) / 4
    }
    const lookup = this.#expression(fields.length, 'lookup')
    return lookup === undefined || fields.length === 0 ? undefined : this.#lookup(lookup, fields)
  }

  #lookup(lookup: Expression, fields: readonly PacketField[]): Found {
    const { set, numbers } = lookup
    const flags = numbers.get(5) ?? 0
    if (!isFirst(lookup, 2) || flags > LOOKUP_INVERTED || set === '') return undefined
    const count = fields.length + 1
    if (numbers.has(3)) {
      const isVerdict = numbers.get(3) === 0 && flags === 0
      return isVerdict ? [{ kind: 'verdict-map', fields, map: set }, count] : undefined
    }
    const isNot = flags === LOOKUP_INVERTED
    if (!isAnonymous(set)) return [{ kind: 'lookup', fields, set, ...(isNot ? { isNot } : {}) }, count]
    const cidrs = isNot || fields.length !== 1 || fields[0] !== 'saddr' ? undefined : this.#networksOf(set)
    return cidrs === undefined ? undefined : [{ kind: 'networks', field: 'saddr', cidrs }, count]
  }

  #field(expression: Expression): PacketField | undefined {
    const { name, numbers } = expression
    if (name === 'meta') return numbers.get(2) === META.l4proto && !numbers.has(3) ? 'l4proto' : undefined
    if (name !== 'payload') return undefined
    if (numbers.get(2) === TRANSPORT_HEADER)
      return numbers.get(3) === 2 && numbers.get(4) === 2 && !numbers.has(5) ? 'dport' : undefined
    return numbers.get(4) === ADDRESS_LENGTH[this.#family] ? this.#addressField(expression) : undefined
  }
}

/** Names of anonymous sets, which the kernel numbers. */
export function isAnonymous(set: string): boolean {
  return /^__(?:set|map)/.test(set)
}

function masquerade({ numbers }: Expression): Found {
  const flags = numbers.get(1) ?? 0
  // Registers with a range of ports.
  if (numbers.has(2) || numbers.has(3) || (flags !== 0 && flags !== FULLY_RANDOM)) return undefined
  return [{ kind: 'masquerade', isFullyRandom: flags === FULLY_RANDOM }, 1]
}

/** It translates to the one address in the first register, and no port. */
function isKeptDestination({ numbers }: Expression, family: IpFamily): boolean {
  return (
    numbers.get(1) === NAT_DESTINATION &&
    numbers.get(2) === FAMILY_NUMBER[family] &&
    numbers.get(3) === registerOf(0) &&
    (numbers.get(4) ?? registerOf(0)) === registerOf(0) &&
    !numbers.has(5) &&
    !numbers.has(6) &&
    (numbers.get(7) ?? NAT_MAP_ADDRESSES) === NAT_MAP_ADDRESSES
  )
}

function isReject({ numbers }: Expression, family: IpFamily): boolean {
  return numbers.get(1) === REJECT_ICMP && numbers.get(2) === (family === 'IPv4' ? 3 : 4)
}

/** Whether an attribute names the register at which all of ours begin. */
function isFirst({ numbers }: Expression, attribute: number): boolean {
  return wordOf(numbers.get(attribute) ?? 0) === 0
}

function not(operation: number): { readonly isNot?: true } {
  return operation === CMP_NEQ ? { isNot: true } : {}
}

/** 4 bytes of a register as a number; -1 when there are not as many. */
function word(bytes: Uint8Array): number {
  if (bytes.length !== 4) return -1
  return new DataView(bytes.buffer, bytes.byteOffset, 4).getUint32(0, true)
}

/** How many bits a mask begins with. */
function prefixOf(mask: Uint8Array): number {
  let bits = 0
  for (const byte of mask) {
    bits += Math.clz32(~(byte << 24))
    if (byte !== 0xff) break
  }
  return bits
}

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, index) => byte === b[index])
}
