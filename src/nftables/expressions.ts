/**
 * Reads the expressions of one rule of nf_tables as far as iptables matters: its verdict, its x_tables matches, and whether iptables
 * prints everything that it does. What iptables cannot translate it leaves out without a word (sets, ranges of addresses, verdict maps)
 * or refuses, which depends on its version, so only what every version prints counts as exact.
 */
import type { AttributeCursor } from '../netlink/attributes.ts'
import type { IpFamily } from '../values/protocol.ts'

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
const NFTA_META_KEY = 2
const NFTA_META_SREG = 3
const NFTA_CMP_OP = 2
const NFTA_PAYLOAD_BASE = 2
const NFTA_PAYLOAD_OFFSET = 3
const NFTA_PAYLOAD_LEN = 4
const NFTA_PAYLOAD_SREG = 5
const NFTA_IMMEDIATE_DATA = 2
const NFTA_DATA_VERDICT = 2
const NFTA_VERDICT_CODE = 1
const NFTA_VERDICT_CHAIN = 2
const NFTA_BITWISE_OP = 6
const NFTA_LIMIT_TYPE = 4
const NFTA_LIMIT_FLAGS = 5
const NFTA_MATCH_NAME = 1
const NFTA_MATCH_INFO = 3
const NFTA_CMP_DATA = 3
const NFTA_DATA_VALUE = 1

/** NFT_META_*: mark, iif, oif, iifname, oifname; the protocol is separate. */
const META_KEYS: ReadonlySet<number> = new Set([3, 4, 5, 6, 7])
const META_L4PROTO = 16
const [NETWORK_HEADER, TRANSPORT_HEADER] = [1, 2]
/** NFT_CMP_EQ and NFT_CMP_NEQ; the others compare by size. */
const CMP_NEQ = 1
const [TCP, UDP] = [6, 17]
/** Offset of the flags of TCP. */
const TCP_FLAGS = 13

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

/** What was loaded and has to be compared next. */
type Loaded = 'value' | 'protocol' | 'port' | 'flags'

class Reader {
  readonly #family: IpFamily
  #loaded: Loaded | undefined
  /** The protocol that the rule was compared with. */
  #protocol = 0
  #isCompared = false
  verdict: NftVerdict | undefined
  isExact = true
  isPlain = true
  hasOtherEffect = false
  comment = ''
  readonly matches: string[] = []

  constructor(family: IpFamily) {
    this.#family = family
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
        if (!this.#isExactCondition(name, data)) this.isExact = false
    }
  }

  end(): void {
    this.#settle()
  }

  /** What was loaded before must have been compared. */
  #settle(): void {
    if (this.#loaded !== undefined && !this.#isCompared) this.isExact = false
    this.#loaded = undefined
    this.#isCompared = false
  }

  #load(what: Loaded | undefined): boolean {
    this.#settle()
    this.#loaded = what
    return what !== undefined
  }

  #isExactCondition(name: string, data: AttributeCursor | undefined): boolean {
    switch (name) {
      case 'meta':
        return this.#meta(data)
      case 'payload':
        return this.#payload(data)
      case 'bitwise':
        return this.#bitwise(data)
      case 'cmp':
        return this.#compare(data)
      case 'range':
        return this.#compared(this.#loaded === 'port')
      case 'limit':
        return isLimitOfPackets(data)
      default:
        return false
    }
  }

  #meta(data: AttributeCursor | undefined): boolean {
    let key = -1
    while (data?.next() === true)
      if (data.type === NFTA_META_KEY) key = data.u32be()
      else if (data.type === NFTA_META_SREG) return false
    if (key === META_L4PROTO) return this.#load('protocol')
    return this.#load(META_KEYS.has(key) ? 'value' : undefined)
  }

  #payload(data: AttributeCursor | undefined): boolean {
    let [base, offset, length] = [-1, -1, -1]
    while (data?.next() === true)
      if (data.type === NFTA_PAYLOAD_BASE) base = data.u32be()
      else if (data.type === NFTA_PAYLOAD_OFFSET) offset = data.u32be()
      else if (data.type === NFTA_PAYLOAD_LEN) length = data.u32be()
      else if (data.type === NFTA_PAYLOAD_SREG) return false
    if (base === NETWORK_HEADER) return this.#load(this.#networkField(offset, length))
    return this.#load(base === TRANSPORT_HEADER ? this.#transportField(offset, length) : undefined)
  }

  /** Source, destination (or the first bytes of them) and protocol. */
  #networkField(offset: number, length: number): Loaded | undefined {
    const isIpv4 = this.#family === 'IPv4'
    const [source, destination, size, protocol] = isIpv4 ? [12, 16, 4, 9] : [8, 24, 16, 6]
    if (offset === protocol && length === 1) return 'protocol'
    return (offset === source || offset === destination) && length >= 1 && length <= size ? 'value' : undefined
  }

  #transportField(offset: number, length: number): Loaded | undefined {
    if (this.#protocol !== TCP && this.#protocol !== UDP) return undefined
    if ((offset === 0 || offset === 2) && length === 2) return 'port'
    return this.#protocol === TCP && offset === TCP_FLAGS && length === 1 ? 'flags' : undefined
  }

  /** A mask of what was loaded; without NFTA_BITWISE_OP it is one. */
  #bitwise(data: AttributeCursor | undefined): boolean {
    while (data?.next() === true) if (data.type === NFTA_BITWISE_OP && data.u32be() !== 0) return false
    return (this.#loaded === 'value' || this.#loaded === 'flags') && !this.#isCompared
  }

  #compare(data: AttributeCursor | undefined): boolean {
    let operation = 0
    let first = -1
    while (data?.next() === true)
      if (data.type === NFTA_CMP_OP) operation = data.u32be()
      else if (data.type === NFTA_CMP_DATA) first = firstByte(data.nested())
    if (this.#loaded === 'protocol' && operation === 0) this.#protocol = first
    // A range of ports is two comparisons of one port.
    if (this.#loaded === 'port') return this.#compared(true)
    return this.#compared(this.#loaded !== undefined && !this.#isCompared && operation <= CMP_NEQ)
  }

  #compared(isExact: boolean): boolean {
    this.#isCompared = true
    return isExact
  }

  #immediate(data: AttributeCursor | undefined): void {
    while (data?.next() === true) if (data.type === NFTA_IMMEDIATE_DATA) this.verdict = verdictOf(data.nested())
    // A value for an expression that follows, such as the address of a NAT.
    if (this.verdict === undefined) this.isExact = this.isPlain = false
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
  reader.end()
  const { verdict, isExact, isPlain, hasOtherEffect, matches, comment } = reader
  return { verdict, isExact, isPlain, hasOtherEffect, matches, comment }
}

/** Attributes with which an expression that usually looks at something sets it: a source register, or the verdict as destination of a map. */
const SOURCES: Readonly<Record<string, number>> = { meta: 3, payload: 5, ct: 4, exthdr: 7 }
const NFTA_LOOKUP_DREG = 3
const NFT_REG_VERDICT = 0

function writes(name: string, data: AttributeCursor | undefined): boolean {
  const again = data?.copy()
  while (again?.next() === true) {
    if (again.type === SOURCES[name]) return true
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

function firstByte(data: AttributeCursor): number {
  while (data.next()) if (data.type === NFTA_DATA_VALUE) return data.u8()
  return -1
}

function isLimitOfPackets(data: AttributeCursor | undefined): boolean {
  while (data?.next() === true)
    if ((data.type === NFTA_LIMIT_TYPE || data.type === NFTA_LIMIT_FLAGS) && data.u32be() !== 0) return false
  return true
}
