/**
 * Requests over one pool of kept connections to one server, with limits for the connection and for the headers of the
 * answer; what the answer brings after them is the caller's to watch.
 * A request that is given up must give up its connection too, and an answer that is being read must outlive the pool's
 * retirement.
 */
import { Agent as HttpAgent, type ClientRequest, type IncomingMessage, request as httpRequest } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { ApiError } from './api-error.ts'
import { sharedLookup } from './host-lookup.ts'
import { hostOf, openTunnel, portOf, proxyHeaders } from './http-tunnel.ts'
import type { TlsMaterial } from './tls-material.ts'

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
  /** Where names of hosts are looked up; pools that are one client's share it. */
  readonly lookup?: LookupFunction
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

type TunnelDone = (error: Error | null, socket?: TLSSocket) => void

export class HttpPool {
  readonly #options: HttpPoolOptions
  readonly #agent: HttpAgent
  readonly #lookup: LookupFunction
  /** What requests connect to: the server itself, for plain http the proxy if there is one. */
  readonly #peer: URL
  /** The server is http and there is a proxy, which wants whole URLs. */
  readonly #isForwarded: boolean
  /** Tunnels that are not open yet, with what ends them. */
  readonly #tunnels = new Set<(error: Error) => void>()
  /** The tunnel that the last call of `createConnection` began. */
  #newTunnel: ((error: Error) => void) | undefined
  /** Host and port of the server. */
  readonly host: string

  constructor(options: HttpPoolOptions) {
    this.#options = options
    this.#lookup = options.lookup ?? sharedLookup()
    const { server, tls } = options
    const proxy = options.proxyUrl === undefined ? undefined : new URL(options.proxyUrl)
    const isTls = server.protocol === 'https:'
    this.host = `${server.hostname}:${portOf(server)}`
    this.#isForwarded = !isTls && proxy !== undefined
    this.#peer = isTls ? server : (proxy ?? server)
    const shared = { keepAlive: true, keepAliveMsecs: TCP_KEEP_ALIVE_MS }
    if (this.#peer.protocol === 'http:') this.#agent = new HttpAgent(shared)
    else this.#agent = new HttpsAgent({ ...shared, rejectUnauthorized: true, ...(isTls ? tls : {}) })
    if (isTls && proxy !== undefined) this.#tunnelThrough(proxy)
  }

  /**
   * The answer, whatever its status, as soon as its headers are there; its body must be read or destroyed. Rejects with
   * `api-unreachable` or `api-silent` when a limit is passed, with the signal's reason, or with Node's own error.
   */
  request(options: RequestOptions): Promise<IncomingMessage> {
    const { method, path, headers, body, signal, headersTimeoutMs } = options
    const startedMs = performance.now()
    let isOver = false
    const over = (status: number | undefined): void => {
      // A connection may also break after the answer, and giving a request up is nothing the server did.
      if (isOver || signal.aborted) return
      isOver = true
      const bodyBytes = body === undefined ? 0 : Buffer.byteLength(body)
      this.#options.observer?.requested(method, this.host, status, performance.now() - startedMs, bodyBytes)
    }
    const open = this.#peer.protocol === 'https:' ? httpsRequest : httpRequest
    return new Promise((resolve, reject) => {
      signal.throwIfAborted()
      const request = open({
        agent: this.#agent,
        host: hostOf(this.#peer),
        port: portOf(this.#peer),
        method,
        path: this.#isForwarded ? `http://${this.host}${path}` : path,
        headers: this.#isForwarded ? { host: this.host, ...proxyHeaders(this.#peer), ...headers } : headers,
        lookup: this.#lookup,
        signal,
      })
      const tunnel = this.#takeNewTunnel()
      // While there is no socket, Node's request hears of its end only from the tunnel.
      const giveUp = (error: Error): void => {
        tunnel?.(error)
        request.destroy(error)
      }
      const onAbort = (): void => tunnel?.(signal.reason)
      const late = setTimeout(
        () => giveUp(new ApiError('api-silent', `no answer within ${headersTimeoutMs} ms`)),
        headersTimeoutMs,
      )
      const connected = this.#limitConnecting(request, giveUp)
      const settle = (): void => {
        clearTimeout(late)
        connected()
        signal.removeEventListener('abort', onAbort)
      }
      signal.addEventListener('abort', onAbort, { once: true })
      request.once('response', (response) => {
        settle()
        over(response.statusCode)
        resolve(response)
      })
      // Stays, because a connection may break later as well; the answer's reader hears of that itself.
      request.on('error', (error) => {
        settle()
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
    const sockets = Object.values(this.#agent.sockets)
    return this.#tunnels.size === 0 && sockets.every((list) => list === undefined || list.length === 0)
  }

  /** Breaks every connection. */
  close(): void {
    this.retire()
    this.#agent.destroy()
    for (const end of this.#tunnels) end(new ApiError('api-reset', 'the connection pool was closed'))
  }

  /** Makes the agent's connections tunnels through this proxy. */
  #tunnelThrough(proxy: URL): void {
    const { server, tls } = this.#options
    const host = hostOf(server)
    const servername = isIP(host) === 0 ? { servername: host } : {}
    this.#agent.createConnection = (_options, callback) => {
      const end = openTunnel(
        {
          proxy,
          target: this.host,
          tls: { host, ...servername, rejectUnauthorized: true, ...tls, ALPNProtocols: ['http/1.1'] },
          lookup: this.#lookup,
          keepAliveMs: TCP_KEEP_ALIVE_MS,
        },
        (error, socket) => {
          this.#tunnels.delete(end)
          ;(callback as TunnelDone | undefined)?.(error, socket) // without a socket where there is an error, as Node calls it
        },
      )
      this.#tunnels.add(end)
      this.#newTunnel = end
      return undefined
    }
  }

  #takeNewTunnel(): ((error: Error) => void) | undefined {
    const tunnel = this.#newTunnel
    this.#newTunnel = undefined
    return tunnel
  }

  /**
   * Gives a request up that gets no connection in time; the caller says with the returned function when it has one.
   * A socket that Node hands over connected is ready: a kept one, or a tunnel, whose handshake is over.
   */
  #limitConnecting(request: ClientRequest, giveUp: (error: Error) => void): () => void {
    const { connectTimeoutMs } = this.#options
    const late = setTimeout(
      () => giveUp(new ApiError('api-unreachable', `no connection within ${connectTimeoutMs} ms`)),
      connectTimeoutMs,
    )
    const done = (): void => clearTimeout(late)
    request.once('socket', (socket) => {
      if (socket.connecting) socket.once(this.#peer.protocol === 'https:' ? 'secureConnect' : 'connect', done)
      else done()
    })
    return done
  }
}
