/**
 * What the counters of one real server say about whether it answers. The kernel copies them every
 * two seconds (its estimator), for each real server at another moment; only the number of open
 * connections is exact. So silence is known when a copy shows it, and not before.
 */
import type { Protocol } from '../values/protocol.ts'

/** Counters of a real server at one read. */
export interface Counters {
  /** Connections, packets from clients and packets to clients so far, as of the last copy. */
  readonly connections: number
  readonly packetsIn: number
  readonly packetsOut: number
  readonly bytesIn: number
  readonly bytesOut: number
  /** Connections that are established or being established, at this moment (kernel 4.8; before, only the former). */
  readonly active: number
  /** The same with those that are closing. */
  readonly open: number
}

/**
 * Evidence that is enough. Of 100 connections to a healthy real server 4 get no answer to their
 * first packet where 2 % are lost in each direction, and of those 4 % none to the next one: so many
 * points have a chance of 0.04^5, one in ten million.
 */
export const ENOUGH = 5
/**
 * A connection without an answer is worth one point at each of these ages in milliseconds: TCP
 * repeats its first packet after 1, 3, 7, 15 and 31 s, and the answer may take 300 ms.
 */
const AGES_MS = [1300, 3300, 7300, 15_300, 31_300, 63_300]
/** UDP repeats nothing by itself, and its answers may be slow: ages count this part of it. */
const UDP_AGE = 1 / 3
/** Copies with connections and answers, one after the other, before the silence of UDP says anything. */
const UDP_COPIES = 3
/** The kernel's estimator never copies sooner than this after the copy before. */
const COPY_MS = 1900
/** And always within this time, where it runs at all. */
export const LONGEST_COPY_MS = 2500
/** Connections of a copy from which a share of answers is compared, and copies that it is compared with. */
const [COMPARED, COMPARED_COPIES] = [10, 4]
/** Packets out for each connection in the last copies that are remembered. */
const REMEMBERED = 8
/** Fewer answers than this part of the fewest before are too few. */
const SHORT = 0.7
const SIGMAS = 2.5
/** A copy that is made so long after the end of all answers has too few. */
const FULL_MS = 800
/** Groups of connections without an answer that are told apart. */
const MAX_GROUPS = 8

/** The first packet of TCP is not longer, IP header included. */
const FIRST_BYTES = 80
/** What an ICMP error has beyond the packet that it quotes: its own header and that of IPv4 or IPv6. */
const QUOTE_BYTES = [28, 48]

/** Connections that a copy showed first at this time. */
interface Group {
  readonly atMs: number
  readonly connections: number
}

export class Evidence {
  #last: Counters | undefined
  #readMs = Number.NEGATIVE_INFINITY
  /** The last copy was not made before. */
  #copyFromMs = Number.NEGATIVE_INFINITY
  #activeAtCopy = 0
  /** When the exact count showed first that a connection had arrived since the last copy. */
  #roseAtMs: number | undefined
  /** Connections since the last answer. */
  #waiting: Group[] = []
  #answerMs: number | undefined
  #answerFromMs = Number.NEGATIVE_INFINITY
  #answeredCopies = 0
  #ratios: number[] = []
  #isShort = false
  #isFull = false
  #isSilent = false
  /** The mean size of packets in of the last copy that had some. */
  #sizeIn = 0

  /** Takes a read. Returns whether the kernel has made a copy since the read before. */
  observe(counters: Counters, nowMs: number, protocol: Protocol = 'tcp'): boolean {
    const before = this.#last
    this.#last = counters
    const readMs = this.#readMs
    this.#readMs = nowMs
    if (before === undefined || isReset(before, counters)) {
      this.#begin(counters)
      return false
    }
    const connections = counters.connections - before.connections
    const packetsIn = counters.packetsIn - before.packetsIn
    const sent = counters.packetsOut - before.packetsOut
    if (connections === 0 && packetsIn === 0 && sent === 0) {
      if (counters.active > this.#activeAtCopy) this.#roseAtMs ??= nowMs
      return false
    }
    if (packetsIn > 0) this.#sizeIn = (counters.bytesIn - before.bytesIn) / packetsIn
    const areErrors = protocol === 'tcp' && this.#areErrors(sent, counters.bytesOut - before.bytesOut)
    const packetsOut = areErrors ? 0 : sent
    const fromMs = this.#copyFromMs
    this.#copyFromMs = Math.min(nowMs, Math.max(readMs, fromMs + COPY_MS))
    this.#isShort = this.#hasFewAnswers(connections, packetsOut)
    if (packetsOut > 0) this.#answered(connections, fromMs, nowMs)
    else {
      this.#isSilent = this.#showsSilence(connections, packetsIn)
      this.#wait(connections, nowMs)
    }
    this.#isFull = !this.#isShort && connections >= COMPARED && this.#ratios.length >= COMPARED_COPIES
    if (!this.#isShort && connections >= COMPARED)
      this.#ratios = [packetsOut / connections, ...this.#ratios].slice(0, REMEMBERED)
    this.#activeAtCopy = counters.active
    this.#roseAtMs = undefined
    return true
  }

  /** The exact numbers of the last read. */
  get exact(): Pick<Counters, 'active' | 'open'> {
    return this.#last ?? { active: 0, open: 0 }
  }

  /** When a read showed the last answer; undefined: none has. */
  get answerMs(): number | undefined {
    return this.#answerMs
  }

  /**
   * It has certainly answered until then: when a network is cut off, the last copy of each real
   * server still has the answers of before, but not as many as ever.
   */
  get answeredUntilMs(): number {
    return this.#isFull ? Math.max(this.#answerFromMs, this.#copyFromMs - FULL_MS) : this.#answerFromMs
  }

  /** Since when it may have been silent; infinite where no connection waits and it has never answered. */
  get mayBeSilentSinceMs(): number {
    const { silentSinceMs = Number.POSITIVE_INFINITY, answerMs = Number.NEGATIVE_INFINITY } = this
    return silentSinceMs - answerMs <= LONGEST_COPY_MS + COPY_MS ? answerMs : silentSinceMs
  }

  /** When a read showed the first connection without an answer since the last one; undefined: there is none. */
  get silentSinceMs(): number | undefined {
    return this.#waiting[0]?.atMs
  }

  /** Connections without an answer since the last one. */
  get unanswered(): number {
    return this.#waiting.reduce((sum, { connections }) => sum + connections, 0)
  }

  /** The last copy has far fewer answers for its connections than those before. */
  get isShort(): boolean {
    return this.#isShort
  }

  /** How sure it is that the real server does not answer: from ENOUGH on, sure enough. */
  points(protocol: Protocol, nowMs: number): number {
    if (this.#waiting.length === 0 || protocol === 'sctp') return 0
    if (protocol === 'udp' && this.#answeredCopies < UDP_COPIES) return 0
    if (this.#isSilent && protocol === 'tcp') return ENOUGH
    return this.#waiting.reduce(
      (sum, { atMs, connections }) => sum + connections * this.#pointsOfAge(this.#ageMs(atMs, nowMs), protocol),
      0,
    )
  }

  /** The least time for which the oldest connection without an answer has none; 0: there is no such connection. */
  silenceMs(nowMs: number): number {
    const [first] = this.#waiting
    return first === undefined ? 0 : Math.max(0, this.#ageMs(first.atMs, nowMs))
  }

  /** Connections so far do not count any more. */
  forgive(): void {
    this.#waiting = []
    this.#isSilent = false
    this.#isShort = false
  }

  #begin({ active }: Counters): void {
    this.forgive()
    this.#activeAtCopy = active
    this.#roseAtMs = undefined
    this.#ratios = []
    this.#answeredCopies = 0
  }

  #answered(connections: number, fromMs: number, nowMs: number): void {
    this.#waiting = []
    this.#isSilent = false
    this.#answerMs = nowMs
    this.#answerFromMs = fromMs
    if (connections > 0) this.#answeredCopies = Math.min(UDP_COPIES, this.#answeredCopies + 1)
  }

  #wait(connections: number, nowMs: number): void {
    if (connections === 0) return
    const last = this.#waiting.at(-1)
    // The time of the later ones: they are not taken to be older than they are.
    if (last !== undefined && this.#waiting.length >= MAX_GROUPS)
      this.#waiting[this.#waiting.length - 1] = { atMs: nowMs, connections: last.connections + connections }
    else this.#waiting.push({ atMs: nowMs, connections })
  }

  /**
   * Whether one copy without an answer is enough: several connections, as many packets beyond their
   * first ones (TCP repeats them), and a connection that the exact count showed long before the
   * copy. All of them together do not happen in a burst just before a copy.
   */
  #showsSilence(connections: number, packetsIn: number): boolean {
    const [firstMs = Number.POSITIVE_INFINITY] = AGES_MS
    const roseAtMs = this.#roseAtMs ?? Number.POSITIVE_INFINITY
    return connections >= ENOUGH && packetsIn - connections >= ENOUGH && this.#copyFromMs - roseAtMs >= firstMs - 100
  }

  /**
   * Whether the packets out are ICMP errors that quote first packets: where a host is gone, this
   * node or a router says so, and IPVS counts that as packets of the real server.
   */
  #areErrors(packetsOut: number, bytesOut: number): boolean {
    const size = this.#sizeIn
    return size > 0 && size <= FIRST_BYTES && QUOTE_BYTES.some((more) => bytesOut === packetsOut * (size + more))
  }

  #hasFewAnswers(connections: number, packetsOut: number): boolean {
    if (connections < COMPARED || this.#ratios.length < COMPARED_COPIES) return false
    const answered = packetsOut / Math.max(1, Math.min(...this.#ratios))
    return answered < SHORT * connections && connections - answered >= SIGMAS * Math.sqrt(connections)
  }

  #ageMs(sinceMs: number, nowMs: number): number {
    return Math.max(this.#copyFromMs, nowMs - LONGEST_COPY_MS) - sinceMs
  }

  #pointsOfAge(ageMs: number, protocol: Protocol): number {
    const counted = protocol === 'udp' ? ageMs * UDP_AGE : ageMs
    return AGES_MS.filter((one) => counted >= one).length
  }
}

/** IPVS counts no connection of UDP as active. */
export function exactly(counters: Counters, protocol: Protocol): Counters {
  return protocol === 'udp' ? { ...counters, active: counters.open } : counters
}

/** The counters were set to 0 (`ipvsadm -Z`), or the real server was removed and added again. */
function isReset(before: Counters, after: Counters): boolean {
  return (
    after.connections < before.connections || after.packetsIn < before.packetsIn || after.packetsOut < before.packetsOut
  )
}
