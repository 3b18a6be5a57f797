/**
 * A TLS connection to a server through a proxy: CONNECT (RFC 9110 section 9.3.6), then the
 * handshake inside the tunnel. Written here because no timeout and no abort ends a tunnel of Node's
 * own agent when the proxy never answers.
 * @impure
 */
import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import type { LookupFunction, Socket } from 'node:net'
import { connect, type ConnectionOptions, type TLSSocket } from 'node:tls'
import { ApiError } from './api-error.ts'

export interface TunnelOptions {
  /** http or https; its user and password are sent as Basic credentials. */
  readonly proxy: URL
  /** The `host:port` that the proxy connects to. */
  readonly target: string
  /** For the handshake with the server, including its host. The proxy sees none of it. */
  readonly tls: ConnectionOptions
  readonly lookup: LookupFunction
  readonly keepAliveMs: number
  /** The proxy has answered over this connection. */
  readonly onConnected?: (socket: Socket) => void
}

/**
 * Opens a tunnel and calls `done` once. The returned function aborts it while it is not open, with
 * the error for `done`.
 */
export function openTunnel(
  options: TunnelOptions,
  done: (error: Error | null, socket?: TLSSocket) => void,
): (error: Error) => void {
  const { proxy, target, tls, lookup, keepAliveMs, onConnected } = options
  let isDone = false
  const finish = (error: Error | null, socket?: TLSSocket): void => {
    if (isDone) return
    isDone = true
    done(error, socket)
  }
  const fail = (error: Error): void => finish(error)
  let secure: TLSSocket | undefined
  const open = proxy.protocol === 'https:' ? httpsRequest : httpRequest
  const request = open({
    method: 'CONNECT',
    agent: false,
    host: hostOf(proxy),
    port: portOf(proxy),
    path: target,
    headers: { host: target, connection: 'keep-alive', ...proxyHeaders(proxy) },
    lookup,
    // Overrides NODE_TLS_REJECT_UNAUTHORIZED; plain http ignores it.
    rejectUnauthorized: true,
  })
  request.on('error', fail)
  request.once('connect', (response, socket) => {
    onConnected?.(socket as Socket) // Node's type is that of any stream
    if (response.statusCode !== 200) {
      socket.destroy()
      const answer = `${response.statusCode} ${response.statusMessage}`
      fail(new ApiError('api-unreachable', `the proxy answered CONNECT ${target} with ${answer}`))
      return
    }
    socket.setKeepAlive(true, keepAliveMs)
    const started = connect({ ...tls, socket })
    secure = started
    started.once('error', fail)
    started.once('secureConnect', () => {
      started.off('error', fail)
      finish(null, started)
    })
  })
  request.end()
  return (error) => {
    if (isDone) return
    fail(error)
    if (secure === undefined) request.destroy()
    else secure.destroy()
  }
}

/** The host of a URL without the brackets of an IPv6 address, as sockets take it. */
export function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[|\]$/g, '')
}

export function portOf({ port, protocol }: URL): number {
  if (port !== '') return Number(port)
  return protocol === 'https:' ? 443 : 80
}

/** The header with the user and password of a proxy's URL; no header when the URL has neither. */
export function proxyHeaders({ username, password }: URL): Readonly<Record<string, string>> {
  if (username === '' && password === '') return {}
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return { 'proxy-authorization': `Basic ${Buffer.from(credentials).toString('base64')}` }
}
