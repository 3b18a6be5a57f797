/**
 * A TLS connection to a server through a proxy: CONNECT (RFC 9110 section 9.3.6), then the handshake inside the tunnel.
 * Node's own agent can do this too, but nothing ends a tunnel of its that a proxy never answers: no limit and no abort.
 */
import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import type { LookupFunction } from 'node:net'
import { connect, type ConnectionOptions, type TLSSocket } from 'node:tls'
import { ApiError } from './api-error.ts'

export interface TunnelOptions {
  /** http or https; its user and password are sent as Basic credentials. */
  readonly proxy: URL
  /** The `host:port` that the proxy connects to. */
  readonly target: string
  /** For the handshake with the server, its host included. The proxy sees none of it. */
  readonly tls: ConnectionOptions
  readonly lookup: LookupFunction
  readonly keepAliveMs: number
}

/** Opens a tunnel. `done` is called once. Returns what ends it as long as it is not open, with the error for `done`. */
export function openTunnel(
  options: TunnelOptions,
  done: (error: Error | null, socket?: TLSSocket) => void,
): (error: Error) => void {
  const { proxy, target, tls, lookup, keepAliveMs } = options
  let isDone = false
  const finish = (error: Error | null, socket?: TLSSocket): void => {
    if (isDone) return
    isDone = true
    done(error, socket)
  }
  const failed = (error: Error): void => finish(error)
  let secure: TLSSocket | undefined
  const open = proxy.protocol === 'https:' ? httpsRequest : httpRequest
  const asking = open({
    method: 'CONNECT',
    agent: false,
    host: hostOf(proxy),
    port: portOf(proxy),
    path: target,
    headers: { host: target, connection: 'keep-alive', ...proxyHeaders(proxy) },
    lookup,
    // Whatever the environment says; plain http ignores it.
    rejectUnauthorized: true,
  })
  asking.on('error', failed)
  asking.once('connect', (response, socket) => {
    if (response.statusCode !== 200) {
      socket.destroy()
      const answer = `${response.statusCode} ${response.statusMessage}`
      failed(new ApiError('api-unreachable', `the proxy answered CONNECT ${target} with ${answer}`))
      return
    }
    socket.setKeepAlive(true, keepAliveMs)
    const started = connect({ ...tls, socket })
    secure = started
    started.once('error', failed)
    started.once('secureConnect', () => {
      started.off('error', failed)
      finish(null, started)
    })
  })
  asking.end()
  return (error) => {
    if (isDone) return
    failed(error)
    if (secure === undefined) asking.destroy()
    else secure.destroy()
  }
}

/** The host of a URL as sockets take it: the URL of an IPv6 address has brackets. */
export function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[|\]$/g, '')
}

export function portOf({ port, protocol }: URL): number {
  if (port !== '') return Number(port)
  return protocol === 'https:' ? 443 : 80
}

/** The header that a proxy wants of somebody who has to log in. */
export function proxyHeaders({ username, password }: URL): Readonly<Record<string, string>> {
  if (username === '' && password === '') return {}
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return { 'proxy-authorization': `Basic ${Buffer.from(credentials).toString('base64')}` }
}
