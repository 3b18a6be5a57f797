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
 * Evidence that is enough. Of 100 first packets to a healthy real server 4 get no answer where 2 %
 * are lost in each direction: so many points have a chance of 0.04^6, four in a billion.
 */
export const ENOUGH = 6
/** Evidence that is enough for a limit, which harms nobody who answers; and for one soon after another was wrong. */
const [DOUBTFUL, VERY_DOUBTFUL] = [2, 4]
/**
 * A connection without an answer is worth one point at each of these ages in milliseconds: TCP
 * repeats its first packet after 1, 3, 7, 15 and 31 s, and the answer may take 800 ms. All of them
 * together are not worth more points than packets came: a client that gives up repeats nothing.
 */
const AGES_MS = [800, 1800, 3800, 7800, 15_800, 31_800, 63_800]
/** UDP repeats nothing by itself, and its answers may be slow. */
const UDP_AGES_MS = [3900, 9900, 21_900, 45_900, 93_900]
/** Copies with connections and answers, one after the other, before the silence of UDP says anything. */
const UDP_COPIES = 3
/** The kernel's estimator never copies sooner than this after the copy before. */
const COPY_MS = 1900
/** And always within this time, where it runs at all. */
export const LONGEST_COPY_MS = 2500
/** Connections of a copy from which a share of answers is compared, and copies that it is compared with. */
const [COMPARED, COMPARED_COPIES] = [6, 4]
/** Packets out for each connection in the last copies that are remembered. */
const REMEMBERED = 8
/** Fewer answers than this part of the fewest before are too few. */
const SHORT = 0.7
const SIGMAS = 2
/** A copy that is made so long after the end of all answers has too few. */
const FULL_MS = 800
/** A copy without an answer is enough with so many connections and repeated packets, the first so long before it. */
const [SILENT, SILENT_MS] = [5, 1200]
/** Groups of connections without an answer that are told apart. */
const MAX_GROUPS = 16

/** The first packet of TCP is not longer, IP header included. */
const FIRST_BYTES = 80
/** What an ICMP error has beyond the packet that it quotes: its own header and that of IPv4 or IPv6. */
const QUOTE_BYTES = [28, 48]

/** Connections that had arrived at this time. */
interface Group {
  readonly atMs: number
  readonly connections: number
}

export class Evidence {
  #last: Counters | undefined
  #readMs = Number.NEGATIVE_INFINITY
  /** The last copy was not made before. */
  #copyFromMs = Number.NEGATIVE_INFINITY
  #active = 0
  /** Connections that the exact count has shown since the last copy. */
  #arrived: Group[] = []
  /** Connections since the last answer, and packets from clients since. */
  #waiting: Group[] = []
  #waitingPackets = 0
  #askedMs = Number.NEGATIVE_INFINITY
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
    // As many arrived at least: those that ended meanwhile are not in it.
    const risen = counters.active - this.#active
    this.#active = counters.active
    if (connections === 0 && packetsIn === 0 && sent === 0) {
      if (risen > 0) put(this.#arrived, { atMs: nowMs, connections: risen })
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
      this.#wait(connections, packetsIn, nowMs)
    }
    // What is more than the copy has arrived after it.
    const later = sum(this.#arrived) + Math.max(0, risen) - connections
    this.#arrived = later > 0 ? [{ atMs: nowMs, connections: later }] : []
    this.#isFull = !this.#isShort && connections >= COMPARED && this.#ratios.length >= COMPARED_COPIES
    if (!this.#isShort && connections >= COMPARED)
      this.#ratios = [packetsOut / connections, ...this.#ratios].slice(0, REMEMBERED)
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

  /** When a copy showed the last packet from clients without an answer to any. */
  get askedMs(): number {
    return this.#askedMs
  }

  /** Connections without an answer since the last one. */
  get unanswered(): number {
    return sum(this.#waiting)
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
    let points = 0
    for (const { atMs, connections } of this.#waiting)
      points += connections * pointsOfAge(this.#ageMs(atMs, nowMs), protocol)
    return Math.min(points, this.#waitingPackets)
  }

  /** Whether a connection limit should stop new connections until it is clear: only of TCP. */
  isDoubtful(protocol: Protocol, nowMs: number, wasWrong = false): boolean {
    return protocol === 'tcp' && this.points(protocol, nowMs) >= (wasWrong ? VERY_DOUBTFUL : DOUBTFUL)
  }

  /** The least time for which the oldest connection without an answer has none; 0: there is no such connection. */
  silenceMs(nowMs: number): number {
    const [first] = this.#waiting
    return first === undefined ? 0 : Math.max(0, this.#ageMs(first.atMs, nowMs))
  }

  /** Connections so far do not count any more. */
  forgive(): void {
    this.#waiting = []
    this.#waitingPackets = 0
    this.#isSilent = false
    this.#isShort = false
  }

  #begin({ active }: Counters): void {
    this.forgive()
    this.#active = active
    this.#arrived = []
    this.#ratios = []
    this.#answeredCopies = 0
  }

  #answered(connections: number, fromMs: number, nowMs: number): void {
    this.#waiting = []
    this.#waitingPackets = 0
    this.#isSilent = false
    this.#answerMs = nowMs
    this.#answerFromMs = fromMs
    if (connections > 0) this.#answeredCopies = Math.min(UDP_COPIES, this.#answeredCopies + 1)
  }

  /** The exact count says when some of the connections had arrived; the others may have come just before the copy. */
  #wait(connections: number, packetsIn: number, nowMs: number): void {
    this.#waitingPackets += packetsIn
    this.#askedMs = nowMs
    let left = connections
    for (const group of this.#arrived) {
      const dated = Math.min(left, group.connections)
      if (dated > 0) put(this.#waiting, { atMs: group.atMs, connections: dated })
      left -= dated
    }
    if (left > 0) put(this.#waiting, { atMs: nowMs, connections: left })
  }

  /**
   * Whether one copy without an answer is enough: several connections, as many packets beyond their
   * first ones (TCP repeats them), and a connection that the exact count showed long before the
   * copy. All of them together do not happen in a burst just before a copy.
   */
  #showsSilence(connections: number, packetsIn: number): boolean {
    const { atMs: roseAtMs } = this.#arrived[0] ?? { atMs: Number.POSITIVE_INFINITY }
    return connections >= SILENT && packetsIn - connections >= SILENT && this.#copyFromMs - roseAtMs >= SILENT_MS
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
}

function pointsOfAge(ageMs: number, protocol: Protocol): number {
  return (protocol === 'udp' ? UDP_AGES_MS : AGES_MS).filter((one) => ageMs >= one).length
}

function sum(groups: readonly Group[]): number {
  return groups.reduce((total, { connections }) => total + connections, 0)
}

/** Adds a group; one that is too many gets the time of the later one, so that none is taken to be older than it is. */
function put(groups: Group[], group: Group): void {
  const last = groups.at(-1)
  if (last !== undefined && groups.length >= MAX_GROUPS)
    groups[groups.length - 1] = { atMs: group.atMs, connections: last.connections + group.connections }
  else groups.push(group)
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
