/**
 * One relayed connection: a client and, as soon as one answers, an endpoint. Each side is read only
 * as fast as the other one takes it, an end of one direction is passed on as such, and a reset as a
 * reset. Nothing of the client is read before an endpoint has answered, so another one can be tried.
 * @impure
 */
import { connect, type Socket } from 'node:net'
import type { Endpoint } from '../service/endpoints.ts'

/** Of both sockets of a connection. */
export const SOCKET_OPTIONS = {
  allowHalfOpen: true,
  noDelay: true,
  // Finds a peer that is gone without a word, such as an endpoint whose node lost its power.
  keepAlive: true,
  keepAliveInitialDelay: 60_000,
  /** Bytes that wait in each direction, beside one piece of 64 KiB at most that was read already. */
  highWaterMark: 16_384,
} as const

export interface RelayedConnectionOptions {
  /** Accepted, and not read yet. */
  readonly client: Socket
  /** The endpoint to try; undefined: there is none beside those that were tried. */
  readonly next: (tried: readonly Endpoint[]) => Endpoint | undefined
  /** Endpoints that are tried. */
  readonly attempts: number
  /** How long an endpoint may take to answer. */
  readonly connectMs: number
  readonly onJoined: () => void
  /** No endpoint has answered; the client is reset. */
  readonly onUnreachable: (tried: readonly Endpoint[], error: NodeJS.ErrnoException | undefined) => void
  /** Called once, when both sockets are closed. */
  readonly onClosed: () => void
}

export class RelayedConnection {
  readonly #options: RelayedConnectionOptions
  readonly #tried: Endpoint[] = []
  #upstream: Socket | undefined
  #isClosed = false

  constructor(options: RelayedConnectionOptions) {
    const { client } = options
    this.#options = options
    // What follows from an error is done when the socket has closed.
    client.on('error', () => undefined)
    client.on('close', () => this.#closed(client, this.#upstream))
    this.#connect(undefined)
  }

  /** Resets both sides at once: an end could be taken for the end of an answer. */
  close(): void {
    reset(this.#options.client)
    if (this.#upstream !== undefined) reset(this.#upstream)
  }

  #connect(lastError: NodeJS.ErrnoException | undefined): void {
    const { client, next, attempts, connectMs, onJoined, onUnreachable } = this.#options
    const endpoint = this.#tried.length < attempts ? next(this.#tried) : undefined
    if (endpoint === undefined) {
      onUnreachable(this.#tried, lastError)
      client.resetAndDestroy()
      return
    }
    this.#tried.push(endpoint)
    const upstream = connect({ host: endpoint.address, port: endpoint.port, ...SOCKET_OPTIONS })
    this.#upstream = upstream
    let isJoined = false
    let failure: NodeJS.ErrnoException | undefined
    const timer = setTimeout(() => upstream.destroy(timeout()), connectMs)
    upstream.on('error', (error) => {
      failure = error
    })
    upstream.once('connect', () => {
      clearTimeout(timer)
      isJoined = true
      onJoined()
      client.pipe(upstream)
      upstream.pipe(client)
    })
    upstream.once('close', () => {
      clearTimeout(timer)
      if (isJoined || client.destroyed) this.#closed(upstream, client)
      else this.#connect(failure)
    })
  }

  /** A socket is gone, also by its own fault; the other one follows. */
  #closed(socket: Socket, other: Socket | undefined): void {
    if (other !== undefined && !other.destroyed) {
      // After an end in both directions the other one has the last bytes still to send, and closes by itself.
      if (socket.readableEnded && socket.writableFinished) return
      if (socket.readableEnded && !other.writableFinished) other.once('finish', () => reset(other))
      else reset(other)
    }
    if (this.#isClosed || other?.closed === false) return
    this.#isClosed = true
    this.#options.onClosed()
  }
}

/**
 * One that still connects would wait for that. While its end is being sent the kernel's handle
 * cannot be reset, and Node (24.21) would never close it.
 */
function reset(socket: Socket): void {
  if (socket.connecting || (socket.writableEnded && !socket.writableFinished)) socket.destroy()
  else socket.resetAndDestroy()
}

function timeout(): NodeJS.ErrnoException {
  return Object.assign(new Error('no answer in time'), { code: 'ETIMEDOUT' })
}
