/**
 * A model of a virtual server for the tests of outlier detection: clients that repeat their first
 * packet as TCP does, real servers that answer, are slow or dead, loss and delay, the round robin of
 * the kernel with weights and connection limits, and the copies that the kernel's estimator makes.
 */
import type { Counters } from '../../src/ipvs/outlier-evidence.ts'
import { Outliers } from '../../src/ipvs/outliers.ts'
import type { RealServer } from '../../src/ipvs/types.ts'
import { makeRealServer, makeVirtualServer } from '../support/virtual-servers.ts'

const STEP_MS = 10
const COPY_STEPS = 200
/** TCP repeats the first packet this long after it was sent first. */
const REPEATS_MS = [0, 1000, 3000, 7000, 15_000, 31_000]
/** The kernel remembers a connection for this long after its end; shorter than Linux, so that as many end as begin. */
const CLOSING_MS = 10_000
/** And one without an answer. */
const UNANSWERED_MS = 60_000
/** What is longer than this is not modelled. */
const HORIZON_MS = 80_000

export interface ModelOptions {
  readonly servers: number
  /** New connections a second to all of them; a function of the time for bursts. */
  readonly rate: number | ((atMs: number) => number)
  readonly random: () => number
  readonly delayMs?: number
  /** In each direction. */
  readonly loss?: number
  /** Until the first byte after the handshake; and packets that follow. */
  readonly thinkMs?: number
  readonly answers?: number
  /** Clients repeat no first packet after so long. */
  readonly givesUpMs?: number
  readonly protocol?: 'tcp' | 'udp'
  readonly readMs?: number
  /** When a real server is dead: it answers nothing from then on. */
  readonly dead?: (server: number, atMs: number) => boolean
}

export const MODEL_KEY = '10.96.0.1:80/tcp'

export class EstimatorModel {
  readonly outliers = new Outliers()
  readonly servers: readonly RealServer[]
  nowMs = 0
  /** Connections so far; the last one of each server, and when each answered last. */
  connections = 0
  readonly lastConnectionMs: number[]
  readonly lastAnswerMs: number[]
  readonly #options: Required<ModelOptions>
  readonly #steps: Record<'in' | 'out' | 'active' | 'total', Map<number, number>>[]
  readonly #live: { connections: number; packetsIn: number; packetsOut: number; active: number; open: number }[]
  /** Connections, closing ones too, and whether the kernel counts the server as overloaded. */
  readonly #totals: { total: number; isOverloaded: boolean }[]
  readonly #copies: Omit<Counters, 'bytesIn' | 'bytesOut'>[]
  readonly #phases: readonly number[]
  #kernel: readonly RealServer[]
  #next = 0
  #due = 0

  constructor(options: ModelOptions) {
    const defaults = {
      delayMs: 1,
      loss: 0,
      thinkMs: 0,
      answers: 2,
      protocol: 'tcp',
      readMs: 250,
      dead: () => false,
      givesUpMs: 99_000,
    }
    this.#options = { ...defaults, ...options } as Required<ModelOptions> // the defaults are of its types
    const indices = Array.from({ length: options.servers }, (_, index) => index)
    this.servers = indices.map((index) => makeRealServer(`10.244.0.${100 + index}`))
    this.#kernel = this.servers
    this.#live = indices.map(() => ({ connections: 0, packetsIn: 0, packetsOut: 0, active: 0, open: 0 }))
    this.#totals = indices.map(() => ({ total: 0, isOverloaded: false }))
    this.#copies = indices.map(() => ({ connections: 0, packetsIn: 0, packetsOut: 0, active: 0, open: 0 }))
    this.#steps = indices.map(() => ({ in: new Map(), out: new Map(), active: new Map(), total: new Map() }))
    this.#phases = indices.map(() => Math.floor(options.random() * COPY_STEPS))
    this.lastConnectionMs = indices.map(() => 0)
    this.lastAnswerMs = indices.map(() => 0)
    this.render()
  }

  get virtualServer() {
    return { ...makeVirtualServer('10.96.0.1', this.servers), protocol: this.#options.protocol }
  }

  render(): void {
    const before = this.#kernel
    this.#kernel = this.outliers.render(MODEL_KEY, this.virtualServer, 'demo/web').realServers
    // __ip_vs_update_dest of Linux 7.2
    for (const [server, { upperThreshold: limit }] of this.#kernel.entries()) {
      const totals = this.#totalOf(server)
      if (limit !== before[server]?.upperThreshold) totals.isOverloaded = limit !== 0 && totals.total >= limit
    }
  }

  /** The kernel's weights, by server. */
  get weights(): readonly number[] {
    return this.#kernel.map(({ weight }) => weight)
  }

  /** Connections that a server has got. */
  connectionsOf(server: number): number {
    return this.#liveOf(server).connections
  }

  /** Runs until then. @param each after each read */
  run(untilMs: number, each: () => void = () => undefined): void {
    for (; this.nowMs < untilMs; this.nowMs += STEP_MS) {
      const step = this.nowMs / STEP_MS
      this.#pass(step)
      const { rate, readMs } = this.#options
      this.#due += ((typeof rate === 'number' ? rate : rate(this.nowMs)) * STEP_MS) / 1000
      while (this.#due > 0) {
        // Poisson arrivals.
        this.#due += Math.log(1 - this.#options.random())
        this.#connect()
      }
      for (const [server, phase] of this.#phases.entries())
        if (step % COPY_STEPS === phase) this.#copies[server] = { ...this.#liveOf(server) }
      if (this.nowMs % readMs !== 0) continue
      const read = new Map(
        this.servers.map(({ address, port }, server) => [`${address}:${port}`, this.#readOf(server)]),
      )
      if (this.outliers.observe(MODEL_KEY, read, this.nowMs)) this.render()
      each()
    }
  }

  #liveOf(server: number) {
    const live = this.#live[server]
    if (live === undefined) throw new Error(`no server ${server}`)
    return live
  }

  #totalOf(server: number) {
    const totals = this.#totals[server]
    if (totals === undefined) throw new Error(`no server ${server}`)
    return totals
  }

  #readOf(server: number): Counters {
    const copy = this.#copies[server]
    if (copy === undefined) throw new Error(`no server ${server}`)
    // IPVS counts no connection of UDP as active.
    const active = this.#options.protocol === 'udp' ? 0 : this.#liveOf(server).active
    return { ...copy, ...bytesOf(copy), active, open: this.#totalOf(server).total }
  }

  #pass(step: number): void {
    for (const [server, { in: packetsIn, out, active, total }] of this.#steps.entries()) {
      const live = this.#liveOf(server)
      live.packetsIn += taken(packetsIn, step)
      const sent = taken(out, step)
      live.packetsOut += sent
      live.active += taken(active, step)
      const ended = taken(total, step)
      const totals = this.#totalOf(server)
      totals.total += ended
      // ip_vs_unbind_dest
      const limit = this.#kernel[server]?.upperThreshold ?? 0
      if (ended < 0 && totals.total * 4 < limit * 3) totals.isOverloaded = false
      if (sent > 0) this.lastAnswerMs[server] = this.nowMs
    }
  }

  /** As ip_vs_rr chooses: the next with a weight, unless it is overloaded. */
  #connect(): void {
    for (let tries = 0; tries < this.servers.length; tries++) {
      const server = this.#next++ % this.servers.length
      const { weight = 0, upperThreshold = 0 } = this.#kernel[server] ?? {}
      const totals = this.#totalOf(server)
      if (weight === 0 || totals.isOverloaded) continue
      // ip_vs_bind_dest
      totals.total++
      totals.isOverloaded = upperThreshold !== 0 && totals.total >= upperThreshold
      this.#open(server)
      return
    }
  }

  #open(server: number): void {
    const { random, delayMs, loss, thinkMs, answers, protocol, dead, givesUpMs } = this.#options
    this.connections++
    this.lastConnectionMs[server] = this.nowMs
    const live = this.#liveOf(server)
    live.connections++
    live.active++
    for (const sentMs of protocol === 'udp' ? [0] : REPEATS_MS) {
      if (sentMs >= givesUpMs) break
      this.#later(server, 'in', sentMs, 1)
      const answerMs = sentMs + delayMs
      const isLost = random() < loss || random() < loss
      if (isLost || dead(server, this.nowMs + answerMs)) continue
      this.#later(server, 'out', answerMs, 1)
      if (protocol === 'udp') return this.#close(server, answerMs)
      // The acknowledgement and the request; the answers follow.
      this.#later(server, 'in', answerMs, 2)
      for (let packet = 0; packet < answers; packet++) {
        const atMs = answerMs + delayMs + thinkMs
        if (dead(server, this.nowMs + atMs)) return this.#close(server, UNANSWERED_MS)
        this.#later(server, 'out', atMs, 1)
        this.#later(server, 'in', atMs, 1)
      }
      return this.#close(server, answerMs + delayMs + thinkMs)
    }
    this.#close(server, UNANSWERED_MS)
  }

  #close(server: number, inMs: number): void {
    this.#later(server, 'active', inMs, -1)
    this.#later(server, 'total', inMs + CLOSING_MS, -1)
  }

  #later(server: number, what: 'in' | 'out' | 'active' | 'total', inMs: number, number: number): void {
    if (inMs > HORIZON_MS) return
    const steps = this.#steps[server]?.[what]
    const step = Math.ceil((this.nowMs + inMs) / STEP_MS)
    if (inMs === 0) {
      const live = this.#liveOf(server)
      if (what === 'in') live.packetsIn += number
      return
    }
    steps?.set(step, (steps.get(step) ?? 0) + number)
  }
}

/** All packets are as long as a first one. */
function bytesOf({ packetsIn, packetsOut }: Pick<Counters, 'packetsIn' | 'packetsOut'>) {
  return { bytesIn: packetsIn * 60, bytesOut: packetsOut * 60 }
}

function taken(steps: Map<number, number>, step: number): number {
  const number = steps.get(step) ?? 0
  steps.delete(step)
  return number
}

/** Random numbers that are the same in each run. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
