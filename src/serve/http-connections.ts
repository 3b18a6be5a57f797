/**
 * The open connections of a listener, and which one is closed when there are too many. Any client
 * that reaches the node can open connections and leave them idle. A probe must still get one, and
 * must not lose it to the connections that follow. Therefore the client with the most connections
 * loses the one that has been idle for longest.
 */
import type { Socket } from 'node:net'
import { parseAddress, writeAddress } from '../values/address.ts'

export interface ConnectionLimits {
  /** Maximum number of open connections of one listener; probes and load balancers have a handful of addresses. */
  readonly connections: number
  /** Maximum number of unanswered requests of one connection. Known clients send one at a time. */
  readonly pipelined: number
}

interface Connection {
  readonly client: string
  /** Number of unanswered requests. */
  pending: number
}

/** The part of a socket that is used here. */
interface RemoteSocket {
  readonly remoteAddress?: string | undefined
  destroy(): unknown
  once(event: 'close', listener: () => void): unknown
}

export class HttpConnections<S extends RemoteSocket = Socket> {
  readonly #limits: ConnectionLimits
  /** In the order of the last answer. */
  readonly #open = new Map<S, Connection>()
  /** Number of open connections by client. */
  readonly #held = new Map<string, number>()

  constructor(limits: ConnectionLimits) {
    this.#limits = limits
  }

  /** Adds a new connection. If there are too many, closes an idle one, or the new one if none is idle. */
  add(socket: S): void {
    const client = clientOf(socket.remoteAddress)
    if (this.#open.size >= this.#limits.connections) {
      const victim = this.#idle(client)
      if (victim !== undefined) this.#remove(victim)
      ;(victim ?? socket).destroy()
      if (victim === undefined) return
    }
    this.#open.set(socket, { client, pending: 0 })
    this.#held.set(client, this.#count(client) + 1)
    socket.once('close', () => this.#remove(socket))
  }

  /**
   * Counts a request. Returns false if the connection is closed, or has too many unanswered
   * requests and is closed now.
   */
  beginRequest(socket: S): boolean {
    const connection = this.#open.get(socket)
    if (connection === undefined) return false
    if (connection.pending >= this.#limits.pipelined) {
      socket.destroy()
      return false
    }
    connection.pending++
    return true
  }

  /** Counts the answer to a request. */
  endRequest(socket: S): void {
    const connection = this.#open.get(socket)
    if (connection === undefined) return
    connection.pending--
    this.#open.delete(socket)
    this.#open.set(socket, connection)
  }

  #count(client: string): number {
    return this.#held.get(client) ?? 0
  }

  #remove(socket: S): void {
    const connection = this.#open.get(socket)
    if (connection === undefined) return
    this.#open.delete(socket)
    const left = this.#count(connection.client) - 1
    if (left > 0) this.#held.set(connection.client, left)
    else this.#held.delete(connection.client)
  }

  /** The oldest idle connection of the client that has the most connections, that of the new connection included. */
  #idle(newcomer: string): S | undefined {
    let victim: S | undefined
    let most = 0
    for (const [socket, { client, pending }] of this.#open) {
      if (pending > 0) continue
      const held = this.#count(client) + (client === newcomer ? 1 : 0)
      if (held <= most) continue
      most = held
      victim = socket
    }
    return victim
  }
}

const bytes = new Uint8Array(16)

/**
 * The client of an address: the IPv4 address, or the first 64 bits of IPv6, which one machine
 * usually has to itself.
 */
function clientOf(remoteAddress: string | undefined): string {
  const [text = ''] = (remoteAddress ?? '').split('%')
  const address = parseAddress(text.replace(/^::ffff:(?=\d+\.)/, ''))
  if (address === undefined || !address.includes(':')) return address ?? ''
  writeAddress(address, bytes, 0)
  return Buffer.from(bytes.subarray(0, 8)).toString('hex')
}
