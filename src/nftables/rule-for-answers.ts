/**
 * What one rule of nf_tables does with a packet of an established connection of which nothing else
 * is known: the rule is run for the state of such a packet.
 */
import type { AttributeCursor } from '../netlink/attributes.ts'

// linux/netfilter/nf_tables.h
const NFTA_LIST_ELEM = 1
const NFTA_EXPR_NAME = 1
const NFTA_EXPR_DATA = 2
const NFTA_CT_KEY = 2
const NFT_CT_STATE = 0
const NFTA_BITWISE_MASK = 4
const NFTA_BITWISE_XOR = 5
const NFTA_CMP_OP = 2
const NFTA_CMP_DATA = 3
const NFT_CMP_EQ = 0
const NFT_CMP_NEQ = 1
const NFTA_LOOKUP_DREG = 3
const NFT_REG_VERDICT = 0
const NFTA_IMMEDIATE_DATA = 2
const NFTA_DATA_VALUE = 1
const NFTA_DATA_VERDICT = 2
const NFTA_VERDICT_CODE = 1
const NFTA_VERDICT_CHAIN = 2
const [NF_DROP, NF_ACCEPT] = [0, 1]
const NFTA_MATCH_NAME = 1
const NFTA_MATCH_REV = 2
const NFTA_MATCH_INFO = 3

/** NF_CT_STATE_BIT(IP_CT_ESTABLISHED); the masks of x_tables have the same bits. */
const ESTABLISHED = 1 << 1

/** struct xt_conntrack_mtinfo3 (xt_conntrack.h), of which revision 2 is the beginning. */
const CONNTRACK_INFO = { matchFlags: 146, invertFlags: 148, stateMask: 150, bytes: 154, revisions: [2, 3] } as const
/** XT_CONNTRACK_STATE; the alias says that the rule was written with the match `state`. */
const [XT_CONNTRACK_STATE, XT_CONNTRACK_STATE_ALIAS] = [1 << 0, 1 << 13]

export interface RuleForAnswers {
  /** It accepts all such packets, by the state of the connection alone. */
  readonly accepts: boolean
  /** It drops every packet, so that no rule behind it gets one. */
  readonly drops: boolean
  /** The chain to which it may lead one; '' for none. */
  readonly leadsTo: string
  /** A map of verdicts, which the rule does not contain, may lead one anywhere. */
  readonly leadsAnywhere: boolean
}

const NOTHING: RuleForAnswers = { accepts: false, drops: false, leadsTo: '', leadsAnywhere: false }

/**
 * A set or a map of states counts, because it may contain this one.
 * @param expressions the attribute NFTA_RULE_EXPRESSIONS
 */
export function ruleForAnswers(expressions: AttributeCursor): RuleForAnswers {
  const run = new Run()
  while (expressions.next()) {
    if (expressions.type !== NFTA_LIST_ELEM) continue
    const { name, data } = expressionOf(expressions.nested())
    run.expression(name, data)
    if (run.isOver) return NOTHING
  }
  return run.result
}

class Run {
  /** The state where it has been loaded, as far as the rule has changed it since. */
  #value: number | undefined
  #hasState = false
  #hasOtherCondition = false
  #accepts = false
  #drops = false
  #leadsTo = ''
  #leadsAnywhere = false
  /** Such a packet does not match. */
  isOver = false

  get result(): RuleForAnswers {
    const accepts = this.#accepts && this.#hasState && !this.#hasOtherCondition
    const drops = this.#drops && !this.#hasState && !this.#hasOtherCondition
    return { accepts, drops, leadsTo: this.#leadsTo, leadsAnywhere: this.#leadsAnywhere }
  }

  expression(name: string, data: AttributeCursor | undefined): void {
    switch (name) {
      case 'counter':
      case 'log':
        return
      case 'ct':
        return this.#load(numberOf(data, NFTA_CT_KEY) === NFT_CT_STATE)
      case 'bitwise':
        return this.#mask(data)
      case 'cmp':
        return this.#compare(data)
      case 'lookup':
        return this.#lookUp(data)
      case 'immediate':
        return this.#decide(data)
      case 'match':
        return this.#match(data)
      case 'reject':
        this.#drops = true
        return
      case 'target':
        this.#drops = isEndingTarget(data)
        return
      default:
        return this.#load(false)
    }
  }

  #load(isState: boolean): void {
    this.#value = isState ? ESTABLISHED : undefined
    if (isState) this.#hasState = true
    else this.#hasOtherCondition = true
  }

  #mask(data: AttributeCursor | undefined): void {
    const [mask, xor] = [valueOf(data, NFTA_BITWISE_MASK), valueOf(data, NFTA_BITWISE_XOR)]
    if (this.#value === undefined || mask === undefined) return
    this.#value = ((this.#value & mask) ^ (xor ?? 0)) >>> 0
  }

  /** What compares the order of states means nothing. */
  #compare(data: AttributeCursor | undefined): void {
    const [op, value] = [numberOf(data, NFTA_CMP_OP), valueOf(data, NFTA_CMP_DATA)]
    if (this.#value === undefined || value === undefined) return
    if (op === NFT_CMP_EQ) this.isOver = this.#value !== value
    else if (op === NFT_CMP_NEQ) this.isOver = this.#value === value
    else this.#hasOtherCondition = true
  }

  #lookUp(data: AttributeCursor | undefined): void {
    if (numberOf(data, NFTA_LOOKUP_DREG) !== NFT_REG_VERDICT) return
    this.#accepts = true
    this.#leadsAnywhere = true
  }

  #decide(data: AttributeCursor | undefined): void {
    while (data?.next() === true) {
      if (data.type !== NFTA_IMMEDIATE_DATA) continue
      const value = data.nested()
      while (value.next()) {
        if (value.type !== NFTA_DATA_VERDICT) continue
        const verdict = value.nested()
        while (verdict.next())
          if (verdict.type === NFTA_VERDICT_CODE) {
            const code = verdict.u32be()
            this.#accepts ||= code === NF_ACCEPT
            this.#drops ||= code === NF_DROP
          } else if (verdict.type === NFTA_VERDICT_CHAIN) this.#leadsTo = verdict.string()
      }
    }
  }

  /** A match of iptables. */
  #match(data: AttributeCursor | undefined): void {
    let [name, revision] = ['', 0]
    let info: DataView | undefined
    while (data?.next() === true)
      if (data.type === NFTA_MATCH_NAME) name = data.string()
      else if (data.type === NFTA_MATCH_REV) revision = data.u32be()
      else if (data.type === NFTA_MATCH_INFO)
        info = new DataView(data.bytes.buffer, data.bytes.byteOffset + data.offset, data.length)
    if (name === 'comment') return
    const isMatched = info && matchesEstablished(name, revision, info)
    if (isMatched === undefined) this.#hasOtherCondition = true
    else if (isMatched) this.#hasState = true
    else this.isOver = true
  }
}

/** undefined: it is about something else, too. */
function matchesEstablished(name: string, revision: number, info: DataView): boolean | undefined {
  // struct xt_state_info
  if (name === 'state') return info.byteLength < 4 ? undefined : (info.getUint32(0, true) & ESTABLISHED) !== 0
  const { matchFlags, invertFlags, stateMask, bytes, revisions } = CONNTRACK_INFO
  if (name !== 'conntrack' || !revisions.some((known) => known === revision) || info.byteLength < bytes)
    return undefined
  const isInverted = (info.getUint16(invertFlags, true) & XT_CONNTRACK_STATE) !== 0
  const conditions = info.getUint16(matchFlags, true) & ~XT_CONNTRACK_STATE_ALIAS
  if ((conditions & XT_CONNTRACK_STATE) === 0) return undefined
  const matches = ((info.getUint16(stateMask, true) & ESTABLISHED) !== 0) !== isInverted
  return matches && conditions !== XT_CONNTRACK_STATE ? undefined : matches
}

/** Whether a target of x_tables drops every packet. */
export function isEndingTarget(data: AttributeCursor | undefined): boolean {
  const name = nameInXtables(data)
  return name === 'REJECT' || name === 'DROP'
}

/** The name of a match or a target of x_tables: NFTA_TARGET_NAME is NFTA_MATCH_NAME. */
export function nameInXtables(data: AttributeCursor | undefined): string {
  const again = data?.copy()
  while (again?.next() === true) if (again.type === NFTA_MATCH_NAME) return again.string()
  return ''
}

/** The name of an expression, and what it has besides. */
export function expressionOf(element: AttributeCursor): {
  readonly name: string
  readonly data: AttributeCursor | undefined
} {
  let name = ''
  let data: AttributeCursor | undefined
  while (element.next())
    if (element.type === NFTA_EXPR_NAME) name = element.string()
    else if (element.type === NFTA_EXPR_DATA) data = element.nested()
  return { name, data }
}

function numberOf(data: AttributeCursor | undefined, type: number): number | undefined {
  const again = data?.copy()
  while (again?.next() === true) if (again.type === type) return again.u32be()
  return undefined
}

/** A value of four bytes as the state of a connection has it: a number of the machine, not of the network. */
function valueOf(data: AttributeCursor | undefined, type: number): number | undefined {
  const again = data?.copy()
  while (again?.next() === true) {
    if (again.type !== type) continue
    const value = again.nested()
    while (value.next()) if (value.type === NFTA_DATA_VALUE && value.length === 4) return value.u32()
  }
  return undefined
}
