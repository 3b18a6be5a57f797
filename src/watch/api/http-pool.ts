/**
 * Requests to one server, all on one connection of HTTP/2, or over a pool of kept connections to a
 * server that speaks only HTTP/1.1. Time limits are for the connection and for the headers of the
 * answer; the caller limits the body. Written on Node's own clients instead of undici for the time
 * to start: undici is half of all code that a start would load, and compiles its WebAssembly parser
 * in every process.
 * @impure
 */
import type { LookupFunction, Socket } from 'node:net'
import type { TlsMaterial } from './access.ts'
import { ApiError } from './api-error.ts'
import type { HttpResponse, RequestOptions } from './http-request.ts'
import { portOf } from './http-tunnel.ts'
import { Http1Connections } from './http1-connections.ts'
import type { Http2Connection, PingTimes } from './http2-connection.ts'
import { openHttp2 } from './http2-open.ts'
import { sharedLookup } from './shared-lookup.ts'

/** Is notified of requests, for metrics. `host` is the server's, with its port. */
export interface RequestObserver {
  /** The headers of the answer arrived, or the request failed (`status` undefined). @param bodyBytes of the request */
  requested(method: string, host: string, status: number | undefined, durationMs: number, bodyBytes: number): void
  /** A connection was made to the server, or to the proxy in front of it. @param address the peer of the socket */
  connected?(address: string, port: number): void
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
  /** Whether HTTP/2 may be used. Default true. */
  readonly http2?: boolean | undefined
  /** A connection was given up because its server is dead. @param requests those that failed with it */
  readonly onDead?: ((silentMs: number, requests: number) => void) | undefined
  /** Tests shorten them. */
  readonly pingTimes?: Partial<PingTimes> | undefined
}

/** The value of client-go: shorter than the idle timeout of common load balancers. */
const TCP_KEEP_ALIVE_MS = 30_000
/** A server that does not speak HTTP/2 is asked again after this time: another one may be behind the same address. */
const HTTP1_MS = 600_000

export class HttpPool {
  readonly #options: HttpPoolOptions
  readonly #lookup: LookupFunction
  readonly #proxy: URL | undefined
  readonly #http1: Http1Connections
  /** Connections of HTTP/2 that have requests, or take some; the newest is the last. */
  readonly #connections = new Set<Http2Connection>()
  #opening: Promise<Http2Connection | undefined> | undefined
  readonly #closed = new AbortController()
  /** Until when requests use HTTP/1.1. */
  #http1UntilMs = 0
  #isRetired = false
  /** Requests that have no answer yet. */
  #awaiting = 0
  /** Host and port of the server. */
  readonly host: string

  constructor(options: HttpPoolOptions) {
    this.#options = options
    this.#lookup = options.lookup ?? sharedLookup()
    const { server, tls, proxyUrl, connectTimeoutMs } = options
    this.#proxy = proxyUrl === undefined ? undefined : new URL(proxyUrl)
    this.host = `${server.hostname}:${portOf(server)}`
    this.#http1 = new Http1Connections({
      server,
      host: this.host,
      tls,
      proxy: this.#proxy,
      lookup: this.#lookup,
      keepAliveMs: TCP_KEEP_ALIVE_MS,
      connectTimeoutMs,
      onConnected: (socket) => this.#connected(socket),
    })
    if (options.http2 === false || this.#http1.isForwarded) this.#http1UntilMs = Number.POSITIVE_INFINITY
  }

  /**
   * The answer, with any status, as soon as its headers have arrived; the caller must read or
   * destroy its body. Rejects with `api-unreachable` or `api-silent` after a time limit, with the
   * signal's reason, or with Node's own error.
   */
  request(options: RequestOptions): Promise<HttpResponse> {
    const { method, body, signal, headersTimeoutMs } = options
    const startedMs = performance.now()
    const report = (status: number | undefined): void => {
      // An abort is not counted, because the server did not cause it.
      if (signal.aborted) return
      const bodyBytes = body === undefined ? 0 : Buffer.byteLength(body)
      this.#options.observer?.requested(method, this.host, status, performance.now() - startedMs, bodyBytes)
    }
    return new Promise((resolve, reject) => {
      signal.throwIfAborted()
      let giveUp: ((error: Error) => void) | undefined
      let failure: Error | undefined
      let isSettled = false
      this.#awaiting++
      const settle = (): void => {
        if (isSettled) return
        isSettled = true
        this.#awaiting--
        clearTimeout(late)
        signal.removeEventListener('abort', onAbort)
      }
      const fail = (error: Error): void => {
        if (failure !== undefined) return
        failure = error
        settle()
        giveUp?.(error)
        report(undefined)
        reject(error)
      }
      const onAbort = (): void => fail(signal.reason)
      const late = setTimeout(
        () => fail(new ApiError('api-silent', `no answer within ${headersTimeoutMs} ms`)),
        headersTimeoutMs,
      )
      signal.addEventListener('abort', onAbort, { once: true })
      const onStart = (end: (error: Error) => void): void => {
        giveUp = end
        if (failure !== undefined) end(failure)
      }
      this.#send(options, onStart).then((response) => {
        settle()
        if (failure !== undefined) response.destroy()
        else report(response.statusCode)
        resolve(response)
      }, fail)
    })
  }

  /** @param onStart gets the function that ends the request */
  async #send(options: RequestOptions, onStart: (end: (error: Error) => void) => void): Promise<HttpResponse> {
    const connection = await this.#connection()
    options.signal.throwIfAborted()
    this.#closed.signal.throwIfAborted()
    if (connection === undefined) return this.#http1.request(options, onStart)
    return connection.request(options, (end) =>
      onStart((error) => {
        end(error)
        if (error instanceof ApiError && error.code === 'api-silent') connection.doubt()
      }),
    )
  }

  /** The connection for a new request; undefined for HTTP/1.1. Requests that wait for one share it. */
  async #connection(): Promise<Http2Connection | undefined> {
    if (performance.now() < this.#http1UntilMs) return undefined
    let usable: Http2Connection | undefined
    for (const connection of this.#connections) {
      if (connection.isClosed) this.#connections.delete(connection)
      else if (!connection.isUsable) continue
      else if (usable === undefined) usable = connection
      // It took the place of the other one, which was in doubt for a while.
      else connection.retire()
    }
    if (usable !== undefined) return usable
    this.#opening ??= this.#open().finally(() => {
      this.#opening = undefined
    })
    return this.#opening
  }

  async #open(): Promise<Http2Connection | undefined> {
    const { server, tls, connectTimeoutMs, onDead, pingTimes } = this.#options
    const { http2, socket, isSure } = await openHttp2({
      server,
      tls,
      proxy: this.#proxy,
      lookup: this.#lookup,
      keepAliveMs: TCP_KEEP_ALIVE_MS,
      timeoutMs: connectTimeoutMs,
      onConnected: (connected) => this.#connected(connected),
      onDead,
      pingTimes,
      signal: this.#closed.signal,
    })
    if (http2 !== undefined) {
      // Requests that waited for it are sent before it closes.
      if (this.#isRetired) setImmediate(() => http2.retire())
      this.#connections.add(http2)
      return http2
    }
    if (isSure === true) this.#http1UntilMs = performance.now() + HTTP1_MS
    this.#http1.offer(socket)
    return undefined
  }

  /** Closes idle connections and keeps none from now on. Answers that are being read continue. */
  retire(): void {
    this.#isRetired = true
    for (const connection of this.#connections) connection.retire()
    this.#http1.retire()
  }

  /** True when no request and no answer is in progress. */
  get isIdle(): boolean {
    const isHttp2Idle = Array.from(this.#connections).every((connection) => connection.isIdle)
    return this.#awaiting === 0 && this.#opening === undefined && isHttp2Idle && this.#http1.isIdle
  }

  /** Closes every connection, including those in use. */
  close(): void {
    this.retire()
    const error = new ApiError('api-reset', 'the connection pool was closed')
    this.#closed.abort(error)
    for (const connection of this.#connections) connection.close(error)
    this.#http1.close(error)
  }

  #connected({ remoteAddress, remotePort }: Socket): void {
    if (remoteAddress !== undefined && remotePort !== undefined)
      this.#options.observer?.connected?.(remoteAddress, remotePort)
  }
}
