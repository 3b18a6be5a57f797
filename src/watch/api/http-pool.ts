/**
 * Requests over one pool of kept connections to one server, with time limits for the connection and for the headers of the
 * answer; the caller limits the body. Written on Node's own client instead of undici for the time to start: undici is half of
 * all code that a start would load, and its WebAssembly parser is compiled again in every process.
 * @impure
 */
import { lookup, type LookupAddress, type LookupAllOptions } from 'node:dns'
import { Agent as HttpAgent, type ClientRequest, type IncomingMessage, request as httpRequest } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { TlsMaterial } from './access.ts'
import { ApiError } from './api-error.ts'
import { hostOf, openTunnel, portOf, proxyHeaders } from './http-tunnel.ts'

/** Is notified of requests, for metrics. `host` is the server's, with its port. */
export interface RequestObserver {
  /** The headers of the answer arrived, or the request failed (`status` undefined). @param bodyBytes of the request */
  requested(method: string, host: string, status: number | undefined, durationMs: number, bodyBytes: number): void
  /** The whole answer was read. */
  received(method: string, host: string, bodyBytes: number): void
}

export interface HttpPoolOptions {
  /** http or https; its path is ignored. */
  readonly server: URL
  readonly tls: TlsMaterial
  /** http or https URL of a proxy. Absent: no proxy, even when HTTPS_PROXY is set. */
  readonly proxyUrl?: string
  /** Longest wait for a connection, including its TLS handshake, in milliseconds. */
  readonly connectTimeoutMs: number
  /** Resolves host names; all pools of a client share one. */
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
  /** Longest wait for the headers of the answer, including the connection, in milliseconds. */
  readonly headersTimeoutMs: number
}

/** The value of client-go: shorter than the idle timeout of common load balancers. */
const TCP_KEEP_ALIVE_MS = 30_000

type TunnelDone = (error: Error | null, socket?: TLSSocket) => void

export class HttpPool {
  readonly #options: HttpPoolOptions
  readonly #agent: HttpAgent
  readonly #lookup: LookupFunction
  /** Where requests connect to: the server, or the proxy of a plain http server. */
  readonly #peer: URL
  /** The server is plain http behind a proxy, which takes whole URLs in the request line. */
  readonly #isForwarded: boolean
  /** Tunnels that are being opened, as the functions that abort them. */
  readonly #tunnels = new Set<(error: Error) => void>()
  /** The tunnel that the last call of `createConnection` started. */
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
   * The answer, with any status, as soon as its headers have arrived; the caller must read or destroy its body. Rejects with
   * `api-unreachable` or `api-silent` after a time limit, with the signal's reason, or with Node's own error.
   */
  request(options: RequestOptions): Promise<IncomingMessage> {
    const { method, path, headers, body, signal, headersTimeoutMs } = options
    const startedMs = performance.now()
    let isReported = false
    const report = (status: number | undefined): void => {
      // An error after the answer is not counted, and neither is an abort, which the server did not cause.
      if (isReported || signal.aborted) return
      isReported = true
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
      // While a request has no socket, Node reports its end only when the tunnel fails, so the tunnel is ended first.
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
        report(response.statusCode)
        resolve(response)
      })
      // The listener stays, because a connection may also break later; the reader of the body gets that error itself.
      request.on('error', (error) => {
        settle()
        report(undefined)
        reject(error)
      })
      request.end(body)
    })
  }

  /** Closes idle connections and keeps none from now on. Answers that are being read continue. */
  retire(): void {
    this.#agent.maxFreeSockets = 0
    for (const sockets of Object.values(this.#agent.freeSockets)) for (const socket of sockets ?? []) socket.destroy()
  }

  /** True when no request and no answer is in progress. */
  get isIdle(): boolean {
    const sockets = Object.values(this.#agent.sockets)
    return this.#tunnels.size === 0 && sockets.every((list) => list === undefined || list.length === 0)
  }

  /** Closes every connection, including those in use. */
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
          ;(callback as TunnelDone | undefined)?.(error, socket) // Node's type requires a socket even with an error
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
   * Calls `giveUp` when the request gets no connection in time. The returned function cancels that.
   * A socket that is already connected is ready for the request: a kept one, or a tunnel, whose handshake is finished.
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

type FoundAddresses = (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void
type LookupAll = (hostname: string, options: LookupAllOptions, callback: FoundAddresses) => void

/**
 * A look-up function for sockets, through getaddrinfo, which respects /etc/hosts and nsswitch.conf. A look-up that hangs blocks
 * one of the four threads of libuv, which also read files; so requests for the same name share the look-up in progress.
 * @param lookupAll resolves a name; tests replace it
 */
export function sharedLookup(lookupAll: LookupAll = lookup): LookupFunction {
  const waiting = new Map<string, FoundAddresses[]>()
  return (hostname, options, callback) => {
    const answer: FoundAddresses = (error, addresses) => {
      const [first] = addresses
      if (error !== null || first === undefined) callback(error ?? new Error(`${hostname} has no address`), '')
      else if (options.all === true) callback(null, addresses)
      else callback(null, first.address, first.family)
    }
    const key = JSON.stringify([hostname, options.family, options.hints, options.order])
    const others = waiting.get(key)
    if (others !== undefined) {
      others.push(answer)
      return
    }
    const all = [answer]
    waiting.set(key, all)
    lookupAll(hostname, { ...options, all: true }, (error, addresses = []) => {
      waiting.delete(key)
      for (const each of all) each(error, addresses)
    })
  }
}
