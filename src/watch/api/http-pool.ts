/**
 * Requests to one server, all on one connection of HTTP/2, or over a pool of kept connections to a server that speaks only HTTP/1.1. Time
 * limits are for the connection and for the headers of the answer; the caller limits the body. Written on Node's own clients instead of
 * undici for the time to start: undici is half of all code that a start would load, and compiles its WebAssembly parser in every process.
 * @impure
 */
import { lookup, type LookupAddress, type LookupAllOptions } from 'node:dns'
import { Agent as HttpAgent, type ClientRequest, request as httpRequest } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { isIP, type LookupFunction, type Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { TlsMaterial } from './access.ts'
import { ApiError } from './api-error.ts'
import type { HttpResponse, RequestOptions } from './http-request.ts'
import { hostOf, openTunnel, portOf, proxyHeaders } from './http-tunnel.ts'
import type { Http2Connection, PingTimes } from './http2-connection.ts'
import { openHttp2 } from './http2-open.ts'

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
  /** Connections of HTTP/2 that have requests, or take some; the newest is the last. */
  readonly #connections = new Set<Http2Connection>()
  #opening: Promise<Http2Connection | undefined> | undefined
  readonly #closed = new AbortController()
  /** Until when requests use HTTP/1.1. */
  #http1UntilMs = 0
  /** A connection with TLS for the next request in HTTP/1.1. */
  #ready: TLSSocket | undefined
  #isRetired = false
  /** Requests that have no answer yet. */
  #awaiting = 0
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
    if (isTls) this.#useReady()
    if (options.http2 === false || this.#isForwarded) this.#http1UntilMs = Number.POSITIVE_INFINITY
  }

  /**
   * The answer, with any status, as soon as its headers have arrived; the caller must read or destroy its body. Rejects with
   * `api-unreachable` or `api-silent` after a time limit, with the signal's reason, or with Node's own error.
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
    if (connection === undefined) return this.#sendHttp1(options, onStart)
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
    const { server, tls, proxyUrl, connectTimeoutMs, onDead, pingTimes } = this.#options
    const { http2, socket, isSure } = await openHttp2({
      server,
      tls,
      proxy: proxyUrl === undefined ? undefined : new URL(proxyUrl),
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
    this.#ready?.destroy()
    this.#ready = socket
    socket?.once('close', () => {
      if (this.#ready === socket) this.#ready = undefined
    })
    socket?.on('error', () => undefined)
    return undefined
  }

  #sendHttp1(options: RequestOptions, onStart: (end: (error: Error) => void) => void): Promise<HttpResponse> {
    const { method, path, headers, body } = options
    const open = this.#peer.protocol === 'https:' ? httpsRequest : httpRequest
    return new Promise((resolve, reject) => {
      const request = open({
        agent: this.#agent,
        host: hostOf(this.#peer),
        port: portOf(this.#peer),
        method,
        path: this.#isForwarded ? `http://${this.host}${path}` : path,
        headers: this.#isForwarded ? { host: this.host, ...proxyHeaders(this.#peer), ...headers } : headers,
        lookup: this.#lookup,
        signal: options.signal,
      })
      const tunnel = this.#takeNewTunnel()
      // While a request has no socket, Node reports its end only when the tunnel fails, so the tunnel is ended first.
      const giveUp = (error: Error): void => {
        tunnel?.(error)
        request.destroy(error)
      }
      const connected = this.#limitConnecting(request, (error) => {
        giveUp(error)
        reject(error)
      })
      onStart((error) => {
        connected()
        giveUp(error)
      })
      request.once('response', (response) => {
        connected()
        resolve(response)
      })
      // The listener stays, because a connection may also break later; the reader of the body gets that error itself.
      request.on('error', (error) => {
        connected()
        reject(error)
      })
      request.end(body)
    })
  }

  /** Closes idle connections and keeps none from now on. Answers that are being read continue. */
  retire(): void {
    this.#isRetired = true
    for (const connection of this.#connections) connection.retire()
    this.#ready?.destroy()
    this.#agent.maxFreeSockets = 0
    for (const sockets of Object.values(this.#agent.freeSockets)) for (const socket of sockets ?? []) socket.destroy()
  }

  /** True when no request and no answer is in progress. */
  get isIdle(): boolean {
    const sockets = Object.values(this.#agent.sockets)
    const isQuiet = this.#awaiting === 0 && this.#tunnels.size === 0 && this.#opening === undefined
    const isHttp2Idle = Array.from(this.#connections).every((connection) => connection.isIdle)
    return isQuiet && isHttp2Idle && sockets.every((list) => list === undefined || list.length === 0)
  }

  /** Closes every connection, including those in use. */
  close(): void {
    this.retire()
    const error = new ApiError('api-reset', 'the connection pool was closed')
    this.#closed.abort(error)
    for (const connection of this.#connections) connection.close(error)
    this.#agent.destroy()
    for (const end of this.#tunnels) end(error)
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
          onConnected: (socket) => this.#connected(socket),
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

  /** Lets the next connection of the agent be the one on which the server has chosen HTTP/1.1. */
  #useReady(): void {
    const agent = this.#agent
    const create = agent.createConnection.bind(agent)
    agent.createConnection = (options, callback) => {
      const ready = this.#ready
      this.#ready = undefined
      return ready === undefined || ready.destroyed ? create(options, callback) : ready
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
      if (!socket.connecting) return done()
      socket.once('connect', () => this.#connected(socket))
      socket.once(this.#peer.protocol === 'https:' ? 'secureConnect' : 'connect', done)
    })
    return done
  }

  #connected({ remoteAddress, remotePort }: Socket): void {
    if (remoteAddress !== undefined && remotePort !== undefined)
      this.#options.observer?.connected?.(remoteAddress, remotePort)
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
