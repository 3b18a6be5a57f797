/**
 * All relayed ports of this node with their connections, and the limits that they share: anybody on
 * the node may connect, and Services may have thousands of node ports. A port that another program
 * occupies is retried and does not affect the others.
 * @impure
 */
import { setImmediate } from 'node:timers'
import type { Endpoint } from '../service/endpoints.ts'
import type { Clock } from '../values/clock.ts'
import type { Problem } from '../values/errors.ts'
import { type Log, ObjectName } from '../values/log.ts'
import { IP_FAMILIES, type IpFamily } from '../values/protocol.ts'
import { formatEndpoint } from '../values/address.ts'
import { LOOPBACK_ADDRESS } from '../values/well-known.ts'
import type { RelayCounts } from './relay-counts.ts'
import { RelayPort, type RelayPortOwner } from './relay-port.ts'
import type { RelayChange, RelayedPort, RelayKey } from './wanted-relays.ts'

/** What is told; the next proxy of the process takes the place of the one before. */
export interface RelaysListener {
  /**
   * Called once when a socket (`127.0.0.1:30080`) cannot be opened, and with undefined once it is
   * open or not wanted any more. Attempts continue in between.
   */
  readonly onProblem: (socket: string, problem: Problem | undefined) => void
  /** Called when the limit of sockets leaves ports out, and when there is none left out any more. */
  readonly onLeftOut: (areLeftOut: boolean, limit: number) => void
}

export interface RelayLimits {
  /** Sockets that listen: the default range of node ports has 2,768 numbers, in two families. */
  readonly listeners: number
  /** Connections at one time: of the node, and of one port, so that no port takes all. */
  readonly connections: number
  readonly connectionsOfPort: number
  /** Endpoints that a connection tries, and how long each may take to answer (kube-proxy: one, 5 s). */
  readonly attempts: number
  readonly connectMs: number
}

const LIMITS: RelayLimits = {
  listeners: 6000,
  connections: 500,
  connectionsOfPort: 250,
  attempts: 3,
  connectMs: 5000,
}
/** Parts of the files that the process may have open which relays may take: the API server and the health port need some. */
const LISTENER_SHARE = 1 / 2
const CONNECTION_SHARE = 1 / 8
/** Sockets that are opened in one turn of the event loop; each takes some 50 µs. */
const OPENED_AT_ONCE = 32
/** Time between two lines about refused connections. */
const LOG_PERIOD_MS = 60_000

/** What a relayed port does, and why it does not listen. */
export interface RelayState {
  /** `127.0.0.1:30080` */
  readonly socket: string
  /** `namespace/name` of the Service. */
  readonly owner: string
  /**
   * It listens; it has no endpoint that may get a connection; the node has no such loopback address;
   * it cannot be opened and is tried again; the limit of sockets is reached; it will be opened now.
   */
  readonly state: 'open' | 'no-endpoint' | 'no-address' | 'failing' | 'left-out' | 'waiting'
  /** Why it is failing; '' otherwise. */
  readonly because: string
  readonly endpoints: readonly Endpoint[]
}

export interface RelaysOptions extends RelaysListener {
  readonly nodeName: string
  /** Files that the process may have open. */
  readonly openFiles: number
  /** Whether the daemon itself listens at the port. */
  readonly isReserved: (port: number) => boolean
  readonly log: Log
  readonly now: Clock
  /** Default: Math.random. */
  readonly random?: () => number
  /** Other limits than the default ones, for tests. */
  readonly limits?: Partial<RelayLimits>
}

export class Relays {
  readonly #log: Log
  readonly #now: Clock
  readonly #limits: RelayLimits
  readonly #owner: RelayPortOwner
  #listener: RelaysListener
  #families: readonly IpFamily[] = IP_FAMILIES
  readonly #wanted = new Map<RelayKey, RelayedPort>()
  readonly #ports = new Map<RelayKey, RelayPort>()
  /** Wanted keys that have no socket yet, the first first. */
  readonly #waiting = new Set<RelayKey>()
  readonly #problems = new Map<string, Problem>()
  readonly #counts = { connections: 0, relayed: 0, overLimit: 0, unreachable: 0, foreign: 0 }
  #opening: NodeJS.Immediate | undefined
  #areLeftOut = false
  #loggedMs = Number.NEGATIVE_INFINITY

  constructor(options: RelaysOptions) {
    const { nodeName, openFiles, isReserved, log, now, random = Math.random, limits } = options
    const all = { ...LIMITS, ...limits }
    this.#log = log
    this.#now = now
    this.#listener = options
    this.#limits = {
      ...all,
      listeners: Math.min(all.listeners, Math.floor(openFiles * LISTENER_SHARE)),
      connections: Math.min(all.connections, Math.floor(openFiles * CONNECTION_SHARE)),
    }
    this.#owner = {
      nodeName,
      isReserved,
      log,
      now,
      random,
      limits: this.#limits,
      mayConnect: () => this.#counts.connections < this.#limits.connections,
      counts: this.#counts,
      onOverLimit: (port) => this.#logLimit(port),
      onProblem: (socket, problem) => this.#report(socket, problem),
    }
  }

  get counts(): RelayCounts {
    const failing = this.#problems.size
    let listening = 0
    for (const port of this.#ports.values()) if (port.isOpen) listening++
    return { listening, failing, leftOut: this.#areLeftOut ? this.#waiting.size : 0, ...this.#counts }
  }

  /** The ports of a Service, or those with this number. */
  *states(of: { readonly owner: string } | { readonly port: number }): Generator<RelayState, void, void> {
    for (const [key, wanted] of this.#wanted) {
      const owner = `${wanted.namespace}/${wanted.name}`
      if ('owner' in of ? of.owner !== owner : of.port !== wanted.port) continue
      const socket = formatEndpoint(LOOPBACK_ADDRESS[wanted.family], wanted.port)
      const because = this.#problems.get(socket)?.message ?? ''
      yield { socket, owner, state: this.#stateOf(key, wanted, because), because, endpoints: wanted.endpoints }
    }
  }

  #stateOf(key: RelayKey, { family, endpoints }: RelayedPort, because: string): RelayState['state'] {
    if (!this.#families.includes(family)) return 'no-address'
    if (endpoints.length === 0) return 'no-endpoint'
    if (this.#ports.get(key)?.isOpen === true) return 'open'
    if (because !== '') return 'failing'
    return this.#areLeftOut ? 'left-out' : 'waiting'
  }

  /**
   * Another proxy of this process takes the place of the one before, and these are all the ports
   * that it wants. Those that both want stay open with their connections.
   */
  takeOver(listener: RelaysListener, ports: readonly RelayChange[]): void {
    const wanted = new Set(ports.flatMap(({ key, port }) => (port === undefined ? [] : [key])))
    const gone = Array.from(this.#wanted.keys()).filter((key) => !wanted.has(key))
    this.update(gone.map((key) => ({ key, port: undefined })))
    this.#listener = listener
    for (const [socket, problem] of this.#problems) listener.onProblem(socket, problem)
    if (this.#areLeftOut) listener.onLeftOut(true, this.#limits.listeners)
    this.update(ports)
  }

  /** Sets the families whose loopback address this node has; in others nothing is opened. */
  useFamilies(families: readonly IpFamily[]): void {
    if (IP_FAMILIES.every((family) => families.includes(family) === this.#families.includes(family))) return
    this.#families = families
    this.update(Array.from(this.#wanted, ([key, port]) => ({ key, port })))
  }

  /** Opens and closes ports, and changes their endpoints. */
  update(changes: readonly RelayChange[]): void {
    for (const { key, port } of changes) {
      if (port === undefined) this.#wanted.delete(key)
      else this.#wanted.set(key, port)
      this.#apply(key, port)
    }
    this.#openSoon()
  }

  /** Closes everything before it returns. */
  close(): void {
    this.update(Array.from(this.#wanted.keys(), (key) => ({ key, port: undefined })))
    clearImmediate(this.#opening)
    this.#opening = undefined
  }

  #apply(key: RelayKey, wanted: RelayedPort | undefined): void {
    const isPossible = wanted !== undefined && this.#families.includes(wanted.family)
    const port = this.#ports.get(key)
    this.#waiting.delete(key)
    if (port !== undefined && isPossible) port.update(wanted)
    else if (port !== undefined) {
      port.close()
      this.#ports.delete(key)
    }
    // A port without endpoints keeps its connections, and nobody listens.
    if (isPossible && wanted.endpoints.length > 0 && port?.isListening !== true) this.#waiting.add(key)
  }

  #openSoon(): void {
    if (this.#opening === undefined && this.#waiting.size > 0) this.#opening = setImmediate(() => this.#open())
    else if (this.#waiting.size === 0) this.#reportLeftOut(false)
  }

  #open(): void {
    this.#opening = undefined
    let left = this.#limits.listeners
    for (const port of this.#ports.values()) if (port.isListening) left--
    let opened = 0
    for (const key of this.#waiting) {
      if (opened === OPENED_AT_ONCE || opened >= left) break
      opened++
      this.#waiting.delete(key)
      const wanted = this.#wanted.get(key)
      if (wanted === undefined) continue
      const port = this.#ports.get(key) ?? new RelayPort(wanted, this.#owner)
      this.#ports.set(key, port)
      port.open()
    }
    if (this.#waiting.size > 0 && opened === 0) this.#reportLeftOut(true)
    else this.#openSoon()
  }

  #reportLeftOut(areLeftOut: boolean): void {
    if (this.#areLeftOut === areLeftOut) return
    this.#areLeftOut = areLeftOut
    this.#listener.onLeftOut(areLeftOut, this.#limits.listeners)
  }

  #report(socket: string, problem: Problem | undefined): void {
    if (this.#problems.has(socket) === (problem !== undefined)) return
    if (problem === undefined) this.#problems.delete(socket)
    else this.#problems.set(socket, problem)
    this.#listener.onProblem(socket, problem)
  }

  #logLimit({ namespace, name, port }: RelayedPort): void {
    if (this.#now() - this.#loggedMs < LOG_PERIOD_MS) return
    this.#loggedMs = this.#now()
    const { connections, overLimit } = this.#counts
    this.#log.warn('Connections to node ports at 127.0.0.1 and ::1 are refused, because there are too many', {
      service: new ObjectName(namespace, name),
      port,
      connections,
      refused: overLimit,
    })
  }
}
