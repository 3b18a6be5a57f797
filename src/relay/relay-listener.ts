/**
 * The socket at which clients of one relayed port connect. It retries while another program
 * occupies the port. Its connections outlive it.
 * @impure
 */
import { createServer, type Server, type Socket } from 'node:net'
import { backoffMs } from '../values/backoff.ts'
import { SOCKET_OPTIONS } from './relayed-connection.ts'

export interface RelayListenerOptions {
  /** A loopback address. */
  readonly address: string
  readonly port: number
  /** The socket is paused. */
  readonly onConnection: (client: Socket) => void
  readonly onOpen: () => void
  /** Called when the port could not be opened. */
  readonly onFailure: (error: NodeJS.ErrnoException) => void
}

/** As health check ports. */
const RETRY_MS = { firstMs: 500, maxMs: 30_000 }

export class RelayListener {
  readonly #options: RelayListenerOptions
  readonly #server: Server
  #retryTimer: NodeJS.Timeout | undefined
  #failures = 0
  #isClosed = false

  constructor(options: RelayListenerOptions) {
    this.#options = options
    this.#server = createServer({ ...SOCKET_OPTIONS, pauseOnConnect: true }, options.onConnection)
    this.#server.on('listening', () => this.#opened())
    this.#server.on('error', (error) => this.#failed(error))
  }

  /** Starts listening, or retries until that is possible. */
  open(): void {
    const { address: host, port } = this.#options
    this.#server.listen({ host, port, ipv6Only: true, exclusive: true })
  }

  /** Closes the socket before it returns. */
  close(): void {
    this.#isClosed = true
    clearTimeout(this.#retryTimer)
    this.#server.close()
  }

  #opened(): void {
    // close() was called before the socket was open.
    if (this.#isClosed) this.#server.close()
    else {
      this.#failures = 0
      this.#options.onOpen()
    }
  }

  #failed(error: NodeJS.ErrnoException): void {
    // A connection that could not be accepted leaves the socket as it is.
    if (this.#isClosed || this.#server.listening) return
    this.#retryTimer = setTimeout(() => this.open(), backoffMs(RETRY_MS, ++this.#failures))
    this.#options.onFailure(error)
  }
}
