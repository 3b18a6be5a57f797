/**
 * The open connections of a listener, and who makes room when there are too many of them.
 * What could break: anybody who reaches the node may open connections and do nothing with them; a probe that comes after
 * them must be let in, so the one that has been of no use for longest goes, and never the newest.
 */
import type { Socket } from 'node:net'

export interface ConnectionLimits {
  /** At a time on one listener: probes and load balancers ask from a handful of addresses. */
  readonly connections: number
  /** Requests of one connection that may wait for their answers. No client of ours sends ahead. */
  readonly pipelined: number
}

export class HttpConnections {
  readonly #limits: ConnectionLimits
  /** Unanswered requests by connection; the connection that was answered last is the last one. */
  readonly #open = new Map<Socket, number>()

  constructor(limits: ConnectionLimits) {
    this.#limits = limits
  }

  /** A connection has come. One that is idle goes when there is no room, else this one. */
  add(socket: Socket): void {
    if (this.#open.size >= this.#limits.connections) {
      const victim = this.#idle()
      if (victim !== undefined) this.#open.delete(victim)
      ;(victim ?? socket).destroy()
      if (victim === undefined) return
    }
    this.#open.set(socket, 0)
    socket.once('close', () => this.#open.delete(socket))
  }

  /** A request has come; false (and the connection is gone) when too many wait already. */
  asked(socket: Socket): boolean {
    const waiting = this.#open.get(socket) ?? 0
    if (waiting >= this.#limits.pipelined) {
      socket.destroy()
      return false
    }
    this.#open.set(socket, waiting + 1)
    return true
  }

  answered(socket: Socket): void {
    const waiting = this.#open.get(socket)
    if (waiting === undefined) return
    this.#open.delete(socket)
    this.#open.set(socket, waiting - 1)
  }

  #idle(): Socket | undefined {
    for (const [socket, waiting] of this.#open) if (waiting === 0) return socket
    return undefined
  }
}
