/**
 * The conditions of one rule of nf_tables, each of which loads a field of a packet, may mask it,
 * and compares it: whether iptables prints all of them. What iptables cannot translate it leaves
 * out without a word (sets, ranges of addresses, verdict maps) or refuses, which depends on its
 * version, so only what every version prints counts as exact.
 */
import type { AttributeCursor } from '../netlink/attributes.ts'
import type { IpFamily } from '../values/protocol.ts'

// linux/netfilter/nf_tables.h
const NFTA_META_KEY = 2
const NFTA_META_SREG = 3
const NFTA_CMP_OP = 2
const NFTA_PAYLOAD_BASE = 2
const NFTA_PAYLOAD_OFFSET = 3
const NFTA_PAYLOAD_LEN = 4
const NFTA_PAYLOAD_SREG = 5
const NFTA_BITWISE_OP = 6
const NFTA_LIMIT_TYPE = 4
const NFTA_LIMIT_FLAGS = 5
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

/** What was loaded and has to be compared next. */
type Loaded = 'value' | 'protocol' | 'port' | 'flags'

export class Conditions {
  readonly #family: IpFamily
  #loaded: Loaded | undefined
  /** The protocol that the rule was compared with. */
  #protocol = 0
  #isCompared = false
  #isExact = true

  constructor(family: IpFamily) {
    this.#family = family
  }

  /** Whether iptables prints all that were read, and nothing that was loaded is left without a comparison. */
  get isExact(): boolean {
    return this.#isExact && this.#isSettled
  }

  /** Reads the next expression that is a condition, or that iptables does not know. */
  read(name: string, data: AttributeCursor | undefined): void {
    if (!this.#isExactCondition(name, data)) this.#isExact = false
  }

  get #isSettled(): boolean {
    return this.#loaded === undefined || this.#isCompared
  }

  /** What was loaded before must have been compared. */
  #settle(): void {
    if (!this.#isSettled) this.#isExact = false
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
