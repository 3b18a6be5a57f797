/**
 * Requests over one pool of kept connections to one server, with limits for the connection and for the answer's
 * headers; what comes after them is the caller's to watch.
 * What could break: a request that is given up must give up its connection too, and an answer that is being read must
 * outlive the pool's retirement.
 */
import { Agent as HttpAgent, type ClientRequest, type IncomingMessage, request as httpRequest } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { Socket } from 'node:net'
import { ApiError } from './api-error.ts'
import type { TlsMaterial } from './kube-config.ts'

/** Hears of requests, for whoever counts them. `host` is the server's, with its port. */
export interface RequestObserver {
  /** The headers of an answer came, or nothing did (`status` undefined). @param bodyBytes of the request */
  requested(method: string, host: string, status: number | undefined, durationMs: number, bodyBytes: number): void
  /** A whole answer was read. */
  received(method: string, host: string, bodyBytes: number): void
}

export interface HttpPoolOptions {
  /** http or https; its path counts for nothing here. */
  readonly server: URL
  readonly tls: TlsMaterial
  /** http or https URL of a proxy; absent: none, whatever the environment says. */
  readonly proxyUrl?: string
  /** Longest wait for a connection, its TLS handshake included, in milliseconds. */
  readonly connectTimeoutMs: number
  readonly observer?: RequestObserver | undefined
}

export interface RequestOptions {
  readonly method: 'GET' | 'POST' | 'PATCH'
  /** Path and query. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  readonly signal: AbortSignal
  /** Longest wait for the answer's headers, the connection included, in milliseconds. */
  readonly headersTimeoutMs: number
}

/** As client-go: below the idle timeout of common load balancers. */
const TCP_KEEP_ALIVE_MS = 30_000

export class HttpPool {
  readonly #options: HttpPoolOptions
  readonly #agent: HttpAgent
  readonly #isTls: boolean
  /** Host and port of the server. */
  readonly host: string

  constructor(options: HttpPoolOptions) {
    this.#options = options
    const { server, tls, proxyUrl } = options
    this.#isTls = server.protocol === 'https:'
    this.host = `${server.hostname}:${server.port || (this.#isTls ? 443 : 80)}`
    const shared = {
      keepAlive: true,
      keepAliveMsecs: TCP_KEEP_ALIVE_MS,
      ...(proxyUrl === undefined ? {} : { proxyEnv: { HTTP_PROXY: proxyUrl, HTTPS_PROXY: proxyUrl } }),
    }
    this.#agent = this.#isTls ? new HttpsAgent({ ...shared, ...tls }) : new HttpAgent(shared)
  }

  /**
   * The answer, whatever its status, as soon as its headers are there; its body must be read or destroyed. Rejects with
   * `api-unreachable` or `api-silent` when a limit is passed, with the signal's reason, or with Node's own error.
   */
  request({ method, path, headers, body, signal, headersTimeoutMs }: RequestOptions): Promise<IncomingMessage> {
    const { hostname, port } = this.#options.server
    const startedMs = performance.now()
    let isOver = false
    const over = (status: number | undefined): void => {
      // A connection may also break after the answer, and giving a request up is nothing the server did.
      if (isOver || signal.aborted) return
      isOver = true
      const bodyBytes = body === undefined ? 0 : Buffer.byteLength(body)
      this.#options.observer?.requested(method, this.host, status, performance.now() - startedMs, bodyBytes)
    }
    const open = this.#isTls ? httpsRequest : httpRequest
    return new Promise((resolve, reject) => {
      signal.throwIfAborted()
      const request = open({
        agent: this.#agent,
        // The URL of an IPv6 address has brackets, its socket has none.
        host: hostname.replace(/^\[|\]$/g, ''),
        port: port === '' ? (this.#isTls ? 443 : 80) : Number(port),
        method,
        path,
        headers,
        signal,
      })
      const late = setTimeout(() => {
        request.destroy(new ApiError('api-silent', `no answer within ${headersTimeoutMs} ms`))
      }, headersTimeoutMs)
      request.once('socket', (socket) => this.#limitConnecting(request, socket))
      request.once('response', (response) => {
        clearTimeout(late)
        over(response.statusCode)
        resolve(response)
      })
      // Stays, because a connection may break later as well; the answer's reader hears of that itself.
      request.on('error', (error) => {
        clearTimeout(late)
        over(undefined)
        reject(error)
      })
      request.end(body)
    })
  }

  /** No connection is kept from now on; answers that are being read go on. */
  retire(): void {
    this.#agent.maxFreeSockets = 0
    for (const sockets of Object.values(this.#agent.freeSockets)) for (const socket of sockets ?? []) socket.destroy()
  }

  /** No request and no answer is under way. */
  get isIdle(): boolean {
    return Object.keys(this.#agent.sockets).length === 0
  }

  /** Breaks every connection. */
  close(): void {
    this.retire()
    this.#agent.destroy()
  }

  #limitConnecting(request: ClientRequest, socket: Socket): void {
    if (request.reusedSocket) return
    const { connectTimeoutMs } = this.#options
    const late = setTimeout(() => {
      request.destroy(new ApiError('api-unreachable', `no connection within ${connectTimeoutMs} ms`))
    }, connectTimeoutMs)
    const done = (): void => clearTimeout(late)
    socket.once(this.#isTls ? 'secureConnect' : 'connect', done)
    socket.once('close', done)
  }
}
