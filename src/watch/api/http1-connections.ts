/**
 * The connections of HTTP/1.1 to one server: an agent of Node that keeps them, directly or through
 * a proxy, with a time limit for each new one. Its pool (http-pool.ts) decides which requests use
 * them.
 * @impure
 */
import { Agent as HttpAgent, type ClientRequest, request as httpRequest } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { isIP, type LookupFunction, type Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { TlsMaterial } from './access.ts'
import { ApiError } from './api-error.ts'
import type { HttpResponse, RequestOptions } from './http-request.ts'
import { hostOf, openTunnel, portOf, proxyHeaders } from './http-tunnel.ts'

export interface Http1Options {
  readonly server: URL
  /** Host and port of the server. */
  readonly host: string
  readonly tls: TlsMaterial
  /** http or https. */
  readonly proxy: URL | undefined
  readonly lookup: LookupFunction
  readonly keepAliveMs: number
  /** Longest wait for a connection, including its TLS handshake, in milliseconds. */
  readonly connectTimeoutMs: number
  /** Connected to the server, or to the proxy in front of it. */
  readonly onConnected: (socket: Socket) => void
}

type TunnelDone = (error: Error | null, socket?: TLSSocket) => void

export class Http1Connections {
  readonly #options: Http1Options
  readonly #agent: HttpAgent
  /** Where requests connect to: the server, or the proxy of a plain http server. */
  readonly #peer: URL
  /** The server is plain http behind a proxy, which takes whole URLs in the request line. */
  readonly isForwarded: boolean
  /** Tunnels that are being opened, as the functions that abort them. */
  readonly #tunnels = new Set<(error: Error) => void>()
  /** The tunnel that the last call of `createConnection` started. */
  #newTunnel: ((error: Error) => void) | undefined
  /** A connection with TLS for the next request. */
  #ready: TLSSocket | undefined

  constructor(options: Http1Options) {
    this.#options = options
    const { server, tls, proxy, keepAliveMs } = options
    const isTls = server.protocol === 'https:'
    this.isForwarded = !isTls && proxy !== undefined
    this.#peer = isTls ? server : (proxy ?? server)
    const shared = { keepAlive: true, keepAliveMsecs: keepAliveMs }
    if (this.#peer.protocol === 'http:') this.#agent = new HttpAgent(shared)
    else this.#agent = new HttpsAgent({ ...shared, rejectUnauthorized: true, ...(isTls ? tls : {}) })
    if (isTls && proxy !== undefined) this.#tunnelThrough(proxy)
    if (isTls) this.#useReady()
  }

  /** The answer as soon as its headers have arrived. @param onStart gets the function that ends the request */
  request(options: RequestOptions, onStart: (end: (error: Error) => void) => void): Promise<HttpResponse> {
    const { method, path, headers, body } = options
    const open = this.#peer.protocol === 'https:' ? httpsRequest : httpRequest
    return new Promise((resolve, reject) => {
      const request = open({
        agent: this.#agent,
        host: hostOf(this.#peer),
        port: portOf(this.#peer),
        method,
        path: this.isForwarded ? `http://${this.#options.host}${path}` : path,
        headers: this.isForwarded ? { host: this.#options.host, ...proxyHeaders(this.#peer), ...headers } : headers,
        lookup: this.#options.lookup,
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

  /** The next request uses this connection, on which the server has chosen HTTP/1.1. Undefined: a new one. */
  offer(socket: TLSSocket | undefined): void {
    this.#ready?.destroy()
    this.#ready = socket
    socket?.once('close', () => {
      if (this.#ready === socket) this.#ready = undefined
    })
    socket?.on('error', () => undefined)
  }

  /** Closes idle connections and keeps none from now on. Answers that are being read continue. */
  retire(): void {
    this.#ready?.destroy()
    this.#agent.maxFreeSockets = 0
    for (const sockets of Object.values(this.#agent.freeSockets)) for (const socket of sockets ?? []) socket.destroy()
  }

  /** True when no connection is in use or being opened. */
  get isIdle(): boolean {
    const sockets = Object.values(this.#agent.sockets)
    return this.#tunnels.size === 0 && sockets.every((list) => list === undefined || list.length === 0)
  }

  /** Closes every connection, including those in use. */
  close(error: Error): void {
    this.retire()
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
          target: this.#options.host,
          tls: { host, ...servername, rejectUnauthorized: true, ...tls, ALPNProtocols: ['http/1.1'] },
          lookup: this.#options.lookup,
          keepAliveMs: this.#options.keepAliveMs,
          onConnected: (socket) => this.#options.onConnected(socket),
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
   * A socket that is already connected is ready for the request: a kept one, or a tunnel, whose
   * handshake is finished.
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
      socket.once('connect', () => this.#options.onConnected(socket))
      socket.once(this.#peer.protocol === 'https:' ? 'secureConnect' : 'connect', done)
    })
    return done
  }
}
