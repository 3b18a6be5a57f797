/**
 * Reads the expressions of one rule of nf_tables as far as iptables matters: its verdict, its
 * x_tables matches, and whether iptables prints everything that it does.
 */
import type { AttributeCursor } from '../netlink/attributes.ts'
import type { IpFamily } from '../values/protocol.ts'
import { Conditions } from './conditions.ts'
import { ownMember } from '../values/own-member.ts'

export interface NftVerdict {
  readonly kind: 'accept' | 'drop' | 'return' | 'jump' | 'goto' | 'other'
  /** The target of a jump or goto; else ''. */
  readonly chain: string
}

export interface NftRuleContent {
  /** undefined: the rule has none, or a map decides. */
  readonly verdict: NftVerdict | undefined
  /** Whether iptables prints all conditions and effects of the rule. */
  readonly isExact: boolean
  /** It has an effect besides its verdict: a target of x_tables, a map of verdicts, a translation, a mark. */
  readonly hasOtherEffect: boolean
  /** Names of its x_tables matches, which only iptables writes. */
  readonly matches: readonly string[]
  /** The text of its match `comment`; '' when it has none. */
  readonly comment: string
  /** Whether it has nothing but a verdict, a counter, a comment and the state of connections. */
  readonly isPlain: boolean
}

// linux/netfilter/nf_tables.h
const NFTA_LIST_ELEM = 1
const NFTA_EXPR_NAME = 1
const NFTA_EXPR_DATA = 2
const NFTA_IMMEDIATE_DATA = 2
const NFTA_DATA_VERDICT = 2
const NFTA_VERDICT_CODE = 1
const NFTA_VERDICT_CHAIN = 2
const NFTA_MATCH_NAME = 1
const NFTA_MATCH_INFO = 3

/** Verdicts by their code: NF_DROP, NF_ACCEPT, NFT_JUMP, NFT_GOTO, NFT_RETURN. */
const VERDICTS: Readonly<Record<number, NftVerdict['kind']>> = {
  0: 'drop',
  1: 'accept',
  [-3]: 'jump',
  [-4]: 'goto',
  [-5]: 'return',
}

/** Expressions that only look at a packet, or only count or note it. All others do something. */
const LOOKS: ReadonlySet<string> = new Set([
  'meta',
  'payload',
  'cmp',
  'bitwise',
  'byteorder',
  'range',
  'lookup',
  'ct',
  'fib',
  'rt',
  'socket',
  'osf',
  'exthdr',
  'numgen',
  'hash',
  'limit',
  'connlimit',
  'quota',
  'last',
  'xfrm',
  'tunnel',
  'inner',
])

class Reader {
  readonly #conditions: Conditions
  /** It loads a value for an expression that follows, such as the address of a NAT. */
  #loadsValue = false
  verdict: NftVerdict | undefined
  isPlain = true
  hasOtherEffect = false
  comment = ''
  readonly matches: string[] = []

  constructor(family: IpFamily) {
    this.#conditions = new Conditions(family)
  }

  get isExact(): boolean {
    return !this.#loadsValue && this.#conditions.isExact
  }

  expression(name: string, data: AttributeCursor | undefined): void {
    switch (name) {
      case 'counter':
      case 'log':
        return
      case 'immediate':
        return this.#immediate(data)
      case 'match':
        return this.#match(data)
      case 'target':
        this.isPlain = false
        this.hasOtherEffect = true
        return
      default:
        this.isPlain = false
        if (!LOOKS.has(name) || writes(name, data)) this.hasOtherEffect = true
        this.#conditions.read(name, data)
    }
  }

  #immediate(data: AttributeCursor | undefined): void {
    while (data?.next() === true) if (data.type === NFTA_IMMEDIATE_DATA) this.verdict = verdictOf(data.nested())
    if (this.verdict !== undefined) return
    this.#loadsValue = true
    this.isPlain = false
  }

  #match(data: AttributeCursor | undefined): void {
    let name = ''
    while (data?.next() === true)
      if (data.type === NFTA_MATCH_NAME) name = data.string()
      else if (data.type === NFTA_MATCH_INFO && name === 'comment') this.comment = data.string()
    this.matches.push(name)
    if (name !== 'comment' && name !== 'conntrack') this.isPlain = false
  }
}

/** @param expressions the attribute NFTA_RULE_EXPRESSIONS */
export function readExpressions(expressions: AttributeCursor, family: IpFamily): NftRuleContent {
  const reader = new Reader(family)
  while (expressions.next()) {
    if (expressions.type !== NFTA_LIST_ELEM) continue
    const element = expressions.nested()
    let name = ''
    let data: AttributeCursor | undefined
    while (element.next())
      if (element.type === NFTA_EXPR_NAME) name = element.string()
      else if (element.type === NFTA_EXPR_DATA) data = element.nested()
    reader.expression(name, data)
  }
  const { verdict, isExact, isPlain, hasOtherEffect, matches, comment } = reader
  return { verdict, isExact, isPlain, hasOtherEffect, matches, comment }
}

/**
 * Attributes with which an expression that usually looks at something sets it: a source register,
 * or the verdict as destination of a map.
 */
const SOURCES: Readonly<Record<string, number>> = { meta: 3, payload: 5, ct: 4, exthdr: 7 }
const NFTA_LOOKUP_DREG = 3
const NFT_REG_VERDICT = 0

function writes(name: string, data: AttributeCursor | undefined): boolean {
  const again = data?.copy()
  while (again?.next() === true) {
    if (again.type === ownMember(SOURCES, name)) return true
    if (name === 'lookup' && again.type === NFTA_LOOKUP_DREG && again.u32be() === NFT_REG_VERDICT) return true
  }
  return false
}

function verdictOf(data: AttributeCursor): NftVerdict | undefined {
  while (data.next()) {
    if (data.type !== NFTA_DATA_VERDICT) continue
    let kind: NftVerdict['kind'] = 'other'
    let chain = ''
    const verdict = data.nested()
    while (verdict.next())
      if (verdict.type === NFTA_VERDICT_CODE) kind = VERDICTS[verdict.u32be() | 0] ?? 'other'
      else if (verdict.type === NFTA_VERDICT_CHAIN) chain = verdict.string()
    return { kind, chain }
  }
  return undefined
}
