/**
 * Opens a connection to a server that may speak HTTP/2: with TLS the handshake tells (ALPN),
 * without TLS the server's first frame does.
 * @impure
 */
import { connect as connectTcp, isIP, type LookupFunction, type Socket } from 'node:net'
import { connect as connectTls, type ConnectionOptions, type TLSSocket } from 'node:tls'
import type { TlsMaterial } from './access.ts'
import { ApiError } from './api-error.ts'
import type { Http2Connection, PingTimes } from './http2-connection.ts'
import { hostOf, openTunnel, portOf } from './http-tunnel.ts'

export interface OpenOptions {
  readonly server: URL
  readonly tls: TlsMaterial
  /** http or https; only for a server with TLS. */
  readonly proxy: URL | undefined
  readonly lookup: LookupFunction
  readonly keepAliveMs: number
  /** Longest wait for a connection, including its TLS handshake, in milliseconds. */
  readonly timeoutMs: number
  /** Connected to the server, or to the proxy, which has answered. */
  readonly onConnected: (socket: Socket) => void
  readonly onDead?: ((silentMs: number, requests: number) => void) | undefined
  readonly pingTimes?: Partial<PingTimes> | undefined
  readonly signal: AbortSignal
}

export interface Opened {
  readonly http2?: Http2Connection
  /** Without HTTP/2: a connection with TLS, on which HTTP/1.1 can go on. */
  readonly socket?: TLSSocket
  /** Without HTTP/2: the server has said that it does not speak it. */
  readonly isSure?: boolean
}

/**
 * A server without TLS that does not speak HTTP/2 refuses its first bytes. One that says nothing is
 * asked in HTTP/1.1 after this time.
 */
const FIRST_FRAME_MS = 2000

/** Rejects with `api-unreachable` after the time limit, with the signal's reason, or with Node's own error. */
export async function openHttp2(options: OpenOptions): Promise<Opened> {
  const { server, signal, timeoutMs } = options
  const limit = new AbortController()
  const late = setTimeout(
    () => limit.abort(new ApiError('api-unreachable', `no connection within ${timeoutMs} ms`)),
    timeoutMs,
  )
  try {
    const either = AbortSignal.any([signal, limit.signal])
    return server.protocol === 'https:' ? await openSecure(options, either) : await openPlain(options, either)
  } finally {
    clearTimeout(late)
  }
}

async function openSecure(options: OpenOptions, signal: AbortSignal): Promise<Opened> {
  const socket = await secureSocket(options, signal)
  return socket.alpnProtocol === 'h2' ? { http2: await connectionOn(socket, options) } : { socket, isSure: true }
}

async function openPlain(options: OpenOptions, signal: AbortSignal): Promise<Opened> {
  const { server, lookup, keepAliveMs, onConnected } = options
  const socket = connectTcp({
    host: hostOf(server),
    port: portOf(server),
    lookup,
    keepAlive: true,
    keepAliveInitialDelay: keepAliveMs,
  })
  socket.once('connect', () => onConnected(socket))
  await untilOpen(socket, 'connect', signal)
  const http2 = await connectionOn(socket, options)
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(), FIRST_FRAME_MS)
  try {
    const isSpoken = await http2.isSpoken(AbortSignal.any([signal, late.signal]))
    if (isSpoken) return { http2 }
    http2.close()
    return { isSure: true }
  } catch (error) {
    http2.close()
    // Some servers close a connection that they do not understand without a word.
    if (late.signal.aborted || (error instanceof ApiError && error.code === 'api-reset')) return { isSure: false }
    throw error
  } finally {
    clearTimeout(timer)
  }
}

/** The code of HTTP/2 is loaded while the handshake waits for the server, or not at all. */
async function connectionOn(socket: Socket, { server, onDead, pingTimes }: OpenOptions): Promise<Http2Connection> {
  const { Http2Connection } = await import('./http2-connection.ts')
  return new Http2Connection(socket, { origin: server.origin, onDead, times: pingTimes })
}

async function secureSocket(options: OpenOptions, signal: AbortSignal): Promise<TLSSocket> {
  const { server, tls, proxy, lookup, keepAliveMs, onConnected } = options
  const host = hostOf(server)
  const secure: ConnectionOptions = {
    host,
    ...(isIP(host) === 0 ? { servername: host } : {}),
    rejectUnauthorized: true,
    ...tls,
    ALPNProtocols: ['h2', 'http/1.1'],
  }
  if (proxy === undefined) {
    const socket = connectTls({ ...secure, port: portOf(server), lookup })
    socket.setKeepAlive(true, keepAliveMs)
    socket.once('connect', () => onConnected(socket))
    await untilOpen(socket, 'secureConnect', signal)
    return socket
  }
  signal.throwIfAborted()
  return new Promise((resolve, reject) => {
    const target = `${server.hostname}:${portOf(server)}`
    const end = openTunnel({ proxy, target, tls: secure, lookup, keepAliveMs, onConnected }, (error, socket) => {
      signal.removeEventListener('abort', onAbort)
      if (socket === undefined) reject(error ?? new ApiError('api-reset', 'the tunnel was closed'))
      else resolve(socket)
    })
    const onAbort = (): void => end(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
  })
}

/** Rejects with the error of the socket, or with the reason of the signal after it has closed the socket. */
function untilOpen(socket: Socket, event: 'connect' | 'secureConnect', signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => void socket.destroy(signal.reason)
    const settle = (): void => {
      signal.removeEventListener('abort', onAbort)
      socket.off(event, onOpen)
      socket.off('error', onError)
    }
    const onOpen = (): void => {
      settle()
      resolve()
    }
    const onError = (error: Error): void => {
      settle()
      reject(error)
    }
    socket.once(event, onOpen)
    socket.once('error', onError)
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
  })
}
