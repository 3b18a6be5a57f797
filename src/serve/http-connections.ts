/**
 * The open connections of a listener, and which of them makes room when there are too many.
 * Anybody who reaches the node may open connections and do nothing with them. A probe that arrives after them must be let in,
 * and one that has just arrived must not be ended by those that follow: so the client that holds the most connections loses
 * the one that has been of no use for longest.
 */
import type { Socket } from 'node:net'
import { parseAddress, writeAddress } from '../values/address.ts'

export interface ConnectionLimits {
  /** At a time on one listener: probes and load balancers ask from a handful of addresses. */
  readonly connections: number
  /** Requests of one connection that may wait for their answers. No client of ours sends ahead. */
  readonly pipelined: number
}

interface Connection {
  readonly client: string
  /** Requests without an answer. */
  waiting: number
}

/** What is used of a socket. */
interface RemoteSocket {
  readonly remoteAddress?: string | undefined
  destroy(): unknown
  once(event: 'close', listener: () => void): unknown
}

export class HttpConnections<S extends RemoteSocket = Socket> {
  readonly #limits: ConnectionLimits
  /** The connection that was answered last is the last one. */
  readonly #open = new Map<S, Connection>()
  /** Open connections of each client. */
  readonly #held = new Map<string, number>()

  constructor(limits: ConnectionLimits) {
    this.#limits = limits
  }

  /** A connection has arrived. An idle one is ended when there is no room, else this one. */
  add(socket: S): void {
    const client = clientOf(socket.remoteAddress)
    if (this.#open.size >= this.#limits.connections) {
      const victim = this.#idle(client)
      if (victim !== undefined) this.#remove(victim)
      ;(victim ?? socket).destroy()
      if (victim === undefined) return
    }
    this.#open.set(socket, { client, waiting: 0 })
    this.#held.set(client, this.#count(client) + 1)
    socket.once('close', () => this.#remove(socket))
  }

  /** A request has arrived; false when too many wait already, and the connection is ended then, or was before. */
  asked(socket: S): boolean {
    const connection = this.#open.get(socket)
    if (connection === undefined) return false
    if (connection.waiting >= this.#limits.pipelined) {
      socket.destroy()
      return false
    }
    connection.waiting++
    return true
  }

  answered(socket: S): void {
    const connection = this.#open.get(socket)
    if (connection === undefined) return
    connection.waiting--
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

  /** Of the clients with an idle connection the one with the most connections loses its oldest idle one; the newcomer counts as open. */
  #idle(newcomer: string): S | undefined {
    let victim: S | undefined
    let most = 0
    for (const [socket, { client, waiting }] of this.#open) {
      if (waiting > 0) continue
      const held = this.#count(client) + (client === newcomer ? 1 : 0)
      if (held <= most) continue
      most = held
      victim = socket
    }
    return victim
  }
}

const bytes = new Uint8Array(16)

/** Who shares a client's connections: an IPv4 address, or the 64 bits of IPv6 that one machine usually has to itself. */
function clientOf(remoteAddress: string | undefined): string {
  const [text = ''] = (remoteAddress ?? '').split('%')
  const address = parseAddress(text.replace(/^::ffff:(?=\d+\.)/, ''))
  if (address === undefined || !address.includes(':')) return address ?? ''
  writeAddress(address, bytes, 0)
  return Buffer.from(bytes.subarray(0, 8)).toString('hex')
}
