/**
 * One listening socket of a health check port: opened, and tried again for as long as somebody else has the port.
 * What could break: anybody who reaches the node may connect. Headers, times and connections are bounded, and when there
 * are too many connections those that idle make room.
 */
import { createServer, type RequestListener, type Server } from 'node:http'
import type { IpFamily } from '../values/protocol.ts'
import type { HealthCheckAnswer } from './health-check-text.ts'

export interface HealthListenerOptions {
  readonly family: IpFamily
  /** An address of this node, or 0.0.0.0 or :: for all of the family. */
  readonly address: string
  readonly port: number
  /** Asked at each request. */
  readonly answer: () => HealthCheckAnswer
  /** It could not be opened, for the `attempts`th time in a row. */
  readonly onFailure: (error: NodeJS.ErrnoException, attempts: number) => void
  readonly onOpen: () => void
}

const FIRST_RETRY_MS = 500
/** kube-proxy tries again at each periodic sync, 30 s by default. */
const LAST_RETRY_MS = 30_000
/** At a time, on one socket: load balancers ask from a handful of addresses. */
const MAX_CONNECTIONS = 64
const LIMITS = {
  maxHeaderSize: 8192,
  /** For all headers of a request, and for the whole of it. */
  headersTimeout: 10_000,
  requestTimeout: 15_000,
  /** Longer than load balancers wait between two checks, so that they find their connection open. */
  keepAliveTimeout: 75_000,
  /** How often the times above are looked after. */
  connectionsCheckingInterval: 5_000,
}

export class HealthListener {
  readonly #options: HealthListenerOptions
  readonly #server: Server
  #retryTimer: NodeJS.Timeout | undefined
  #attempts = 0
  #closed = false

  constructor(options: HealthListenerOptions) {
    this.#options = options
    this.#server = createServer(LIMITS, respondWith(options.answer))
    this.#server.maxConnections = MAX_CONNECTIONS
    this.#server.on('drop', () => this.#server.closeIdleConnections())
    this.#server.on('listening', () => this.#opened())
    this.#server.on('error', (error) => this.#failed(error))
  }

  /** Starts to listen, now or when it becomes possible. */
  open(): void {
    const { family, address: host, port } = this.#options
    this.#server.listen({ host, port, ipv6Only: family === 'IPv6', exclusive: true })
  }

  /** The socket and all its connections are closed when this returns. */
  close(): void {
    this.#closed = true
    clearTimeout(this.#retryTimer)
    this.#server.close()
    this.#server.closeAllConnections()
  }

  #opened(): void {
    // It was closed while it was about to listen.
    if (this.#closed) this.#server.close()
    else {
      this.#attempts = 0
      this.#options.onOpen()
    }
  }

  #failed(error: NodeJS.ErrnoException): void {
    if (this.#closed) return
    const delayMs = Math.min(FIRST_RETRY_MS * 2 ** this.#attempts++, LAST_RETRY_MS)
    this.#options.onFailure(error, this.#attempts)
    this.#retryTimer = setTimeout(() => this.open(), delayMs)
  }
}

function respondWith(answer: () => HealthCheckAnswer): RequestListener {
  return (request, response) => {
    const { status, headers, body } = answer()
    // Whatever comes with the request is no use.
    request.resume()
    // kube-proxy says nothing of a connection that stays open; Node would.
    if (response.shouldKeepAlive) response.removeHeader('Connection')
    const length = String(Buffer.byteLength(body))
    const all = [...headers, ['Date', new Date().toUTCString()], ['Content-Length', length]]
    response.writeHead(status, all.flat())
    response.end(body)
  }
}
