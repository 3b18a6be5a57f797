/**
 * Expressions of nf_tables, the steps of a rule: load a field into a register, mask it, compare it,
 * look it up, decide. Numbers are big endian; the mark and the state of a connection are in host
 * order inside registers.
 */
import type { AttributeCursor } from '../netlink/attributes.ts'
import type { MessageBatch } from '../netlink/batch.ts'
import { NFTA_DATA_VALUE, NFTA_DATA_VERDICT, NFTA_LIST_ELEM } from './wire.ts'
import { FAMILY_NUMBER, type IpFamily } from '../values/protocol.ts'
import type { NftAction } from './types.ts'
import { ownMember } from '../values/own-member.ts'

const NFTA_EXPR_NAME = 1
const NFTA_EXPR_DATA = 2
const NFTA_VERDICT_CODE = 1
const NFTA_VERDICT_CHAIN = 2

/** NFT_META_* of linux/netfilter/nf_tables.h */
export const META = { mark: 3, iifname: 6, l4proto: 16 } as const
/** NFT_PAYLOAD_*_HEADER */
export const [NETWORK_HEADER, TRANSPORT_HEADER] = [1, 2] as const
/** NFT_CMP_EQ, NFT_CMP_NEQ */
export const [CMP_EQ, CMP_NEQ] = [0, 1] as const
/** NFT_CT_STATE, and the bit of IP_CT_NEW in it. */
export const [CT_STATE, CT_STATE_NEW] = [0, 8] as const
/** NFT_LOOKUP_F_INV */
export const LOOKUP_INVERTED = 1
/** NF_NAT_RANGE_PROTO_RANDOM_FULLY of linux/netfilter/nf_nat.h */
export const FULLY_RANDOM = 0x10
/** NFT_NAT_DNAT, and NF_NAT_RANGE_MAP_IPS, with which the kernel prints it. */
export const [NAT_DESTINATION, NAT_MAP_ADDRESSES] = [1, 1] as const
/** NFT_REJECT_ICMP_UNREACH */
export const REJECT_ICMP = 0

const VERDICT_CODE: Readonly<Record<NftAction['kind'], number>> = { drop: 0, accept: 1, jump: -3, goto: -4, return: -5 }
const VERDICT_KIND = new Map<number, NftAction['kind']>([
  [0, 'drop'],
  [1, 'accept'],
  [-3, 'jump'],
  [-4, 'goto'],
  [-5, 'return'],
])

/** The register of a word of 4 bytes: the kernel names every fourth one by the 16 bytes that begin there. */
export function registerOf(word: number): number {
  return word % 4 === 0 ? 1 + word / 4 : 8 + word
}

/** The word at which a register begins; -1 for the verdict and unknown numbers. */
export function wordOf(register: number): number {
  if (register >= 1 && register <= 4) return (register - 1) * 4
  return register >= 8 && register < 24 ? register - 8 : -1
}

/** Writes one expression into a rule. */
export class ExpressionEncoder {
  readonly #batch: MessageBatch

  constructor(batch: MessageBatch) {
    this.#batch = batch
  }

  /** `attributes`: pairs of the number and the value of an attribute. */
  #expression(name: string, attributes: readonly (readonly [type: number, value: number])[], rest?: () => void): void {
    const element = this.#batch.nest(NFTA_LIST_ELEM)
    this.#batch.string(NFTA_EXPR_NAME, name)
    const data = this.#batch.nest(NFTA_EXPR_DATA)
    for (const [type, value] of attributes) this.#batch.u32be(type, value)
    rest?.()
    this.#batch.endNest(data)
    this.#batch.endNest(element)
  }

  #value(type: number, bytes: Uint8Array): void {
    const nest = this.#batch.nest(type)
    this.#batch.binary(NFTA_DATA_VALUE, bytes)
    this.#batch.endNest(nest)
  }

  loadMeta(key: number, word = 0): void {
    this.#expression('meta', [
      [2, key],
      [1, registerOf(word)],
    ])
  }

  /** Writes the first register into the mark. */
  setMark(): void {
    this.#expression('meta', [
      [2, META.mark],
      [3, registerOf(0)],
    ])
  }

  loadPayload(base: number, offset: number, length: number, word = 0): void {
    this.#expression('payload', [
      [1, registerOf(word)],
      [2, base],
      [3, offset],
      [4, length],
    ])
  }

  loadConnectionState(): void {
    this.#expression('ct', [
      [2, CT_STATE],
      [1, registerOf(0)],
    ])
  }

  /** The first register becomes `(register & mask) ^ xor`. */
  bitwise(mask: Uint8Array, xor: Uint8Array): void {
    this.#expression(
      'bitwise',
      [
        [1, registerOf(0)],
        [2, registerOf(0)],
        [6, 0],
        [3, mask.length],
      ],
      () => {
        this.#value(4, mask)
        this.#value(5, xor)
      },
    )
  }

  compare(operation: number, bytes: Uint8Array): void {
    this.#expression(
      'cmp',
      [
        [1, registerOf(0)],
        [2, operation],
      ],
      () => this.#value(3, bytes),
    )
  }

  /** `id`: of an anonymous set of the same transaction. */
  lookup(set: string, options: { readonly isMap?: boolean; readonly flags?: number; readonly id?: number } = {}): void {
    this.#expression('lookup', [[2, registerOf(0)]], () => {
      if (options.isMap === true) this.#batch.u32be(3, 0)
      this.#batch.string(1, set)
      if (options.id !== undefined) this.#batch.u32be(4, options.id)
      if (options.flags !== undefined && options.flags !== 0) this.#batch.u32be(5, options.flags)
    })
  }

  verdict(action: NftAction): void {
    this.#expression('immediate', [[1, 0]], () => {
      const data = this.#batch.nest(2)
      encodeVerdict(this.#batch, action)
      this.#batch.endNest(data)
    })
  }

  /** The destination becomes the address in the first register. */
  destination(family: IpFamily): void {
    this.#expression('nat', [
      [1, NAT_DESTINATION],
      [2, FAMILY_NUMBER[family]],
      [3, registerOf(0)],
    ])
  }

  masquerade(flags: number): void {
    this.#expression('masq', flags === 0 ? [] : [[1, flags]])
  }

  /** `code`: port unreachable of the family. */
  reject(code: number): void {
    this.#expression('reject', [[1, REJECT_ICMP]], () => this.#batch.u8(2, code))
  }
}

/** NFTA_DATA_VERDICT: the decision of a rule or of an element of a map. */
export function encodeVerdict(batch: MessageBatch, action: NftAction): void {
  const verdict = batch.nest(NFTA_DATA_VERDICT)
  batch.u32be(NFTA_VERDICT_CODE, VERDICT_CODE[action.kind])
  if (action.kind === 'jump' || action.kind === 'goto') batch.string(NFTA_VERDICT_CHAIN, action.chain)
  batch.endNest(verdict)
}

/** The verdict inside a data attribute; undefined for a value, or for a verdict that this program never writes. */
export function decodeVerdict(data: AttributeCursor): NftAction | undefined {
  while (data.next()) {
    if (data.type !== NFTA_DATA_VERDICT) continue
    let kind: NftAction['kind'] | undefined
    let chain = ''
    const verdict = data.nested()
    while (verdict.next())
      if (verdict.type === NFTA_VERDICT_CODE) kind = VERDICT_KIND.get(verdict.u32be() | 0)
      else if (verdict.type === NFTA_VERDICT_CHAIN) chain = verdict.string()
    if (kind === undefined) return undefined
    return kind === 'jump' || kind === 'goto' ? { kind, chain } : { kind }
  }
  return undefined
}

/** An expression that was read: its numbers by attribute, its data, and the set that it names. */
export interface Expression {
  readonly name: string
  /** Attributes of 4 bytes as big endian numbers, those of one byte as they are. */
  readonly numbers: ReadonlyMap<number, number>
  /** Values of nested data, copied. */
  readonly data: ReadonlyMap<number, Uint8Array>
  readonly set: string
  readonly verdict: NftAction | undefined
}

/** Attributes that are nested data, by expression. */
const DATA: Readonly<Record<string, readonly number[]>> = { bitwise: [4, 5], cmp: [3], immediate: [2] }
const NFTA_LOOKUP_SET = 1
const NFTA_IMMEDIATE_DATA = 2

/** Reads one item of NFTA_RULE_EXPRESSIONS. */
export function decodeExpression(element: AttributeCursor): Expression {
  const numbers = new Map<number, number>()
  const data = new Map<number, Uint8Array>()
  let [name, set] = ['', '']
  let verdict: NftAction | undefined
  while (element.next()) {
    if (element.type === NFTA_EXPR_NAME) name = element.string()
    if (element.type !== NFTA_EXPR_DATA) continue
    const attributes = element.nested()
    while (attributes.next()) {
      const { type, length } = attributes
      if (name === 'lookup' && type === NFTA_LOOKUP_SET) set = attributes.string()
      else if (ownMember(DATA, name)?.includes(type) === true) {
        data.set(type, valueOf(attributes.nested()))
        if (name === 'immediate' && type === NFTA_IMMEDIATE_DATA) verdict = decodeVerdict(attributes.nested())
      } else if (length === 4) numbers.set(type, attributes.u32be())
      else if (length === 1) numbers.set(type, attributes.u8())
    }
  }
  return { name, numbers, data, set, verdict }
}

const NOTHING = new Uint8Array(0)

function valueOf(data: AttributeCursor): Uint8Array {
  while (data.next()) if (data.type === NFTA_DATA_VALUE) return data.bytes.slice(data.offset, data.offset + data.length)
  return NOTHING
}
