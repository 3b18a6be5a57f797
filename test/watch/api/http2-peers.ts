/** Servers of either version of HTTP on loopback, and what the tests of a pool ask them. */
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer as createHttp2, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2'
import type { AddressInfo, Server, Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { createListener } from '../../../dev/api-server/listener.ts'
import { HttpPool, type HttpPoolOptions } from '../../../src/watch/api/http-pool.ts'
import type { HttpResponse } from '../../../src/watch/api/http-request.ts'
import { issueCertificate, makeAuthority } from '../../../dev/api-server/certificate.ts'

export const NEVER = new AbortController().signal

export async function listen(t: TestContext, server: Server): Promise<number> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket)).on('error', () => undefined)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return (server.address() as AddressInfo).port // it listens on TCP
}

export interface Peer {
  readonly port: number
  readonly connections: () => number
  /** `1.1` or `2.0` of each request. */
  readonly versions: string[]
}

export type Answer = (request: IncomingMessage, response: ServerResponse) => void
export const echo: Answer = (request, response) => void response.end(`${request.method} ${request.url}`)

export async function serve(
  t: TestContext,
  options: {
    readonly http2: boolean
    readonly tls?: { readonly cert: string; readonly key: string }
    readonly answer?: Answer
  },
): Promise<Peer> {
  const { answer = echo, ...rest } = options
  const versions: string[] = []
  let connections = 0
  const server = createListener({
    ...rest,
    answer: (request, response) => {
      versions.push(request.httpVersion)
      answer(request, response)
    },
  })
  server.on('connection', () => connections++)
  return { port: await listen(t, server), connections: () => connections, versions }
}

export function poolFor(t: TestContext, server: string, options: Partial<HttpPoolOptions> = {}): HttpPool {
  const pool = new HttpPool({ server: new URL(server), tls: {}, connectTimeoutMs: 30_000, ...options })
  t.after(() => pool.close())
  return pool
}

export const get = (pool: HttpPool, path = '/x', signal = NEVER, headersTimeoutMs = 30_000): Promise<HttpResponse> =>
  pool.request({ method: 'GET', path, headers: { 'user-agent': 'test' }, signal, headersTimeoutMs })

export async function textOf(response: HttpResponse): Promise<string> {
  let text = ''
  for await (const chunk of response) text += chunk
  return text
}

export const texts = (pool: HttpPool, ...paths: readonly string[]): Promise<string[]> =>
  Promise.all(paths.map(async (path) => textOf(await get(pool, path))))

const authority = makeAuthority('ca')
export const tls = issueCertificate(authority, 'server', '127.0.0.1')
export const trust = { tls: { ca: authority.cert } }

/** A server of HTTP/2 alone, with what it sees of its sessions. */
export async function rawServer(t: TestContext, onStream: (stream: ServerHttp2Stream, path: string) => void) {
  const sessions: ServerHttp2Session[] = []
  let pings = 0
  const server = createHttp2()
  server.on('session', (session) => {
    sessions.push(session)
    session.on('ping', () => pings++).on('error', () => undefined)
  })
  server.on('stream', (stream, headers) => {
    stream.on('error', () => undefined)
    onStream(stream, String(headers[':path']))
  })
  return { port: await listen(t, server), sessions, pings: () => pings }
}

/** Answers with headers and one byte, and stays open. */
export const watchAnswer = (stream: ServerHttp2Stream): void => {
  stream.respond({ ':status': 200 })
  stream.write('x')
}

/** Rows of tests: how a client comes to a server that speaks HTTP/2. */
export const SCHEMES = [
  ['with TLS', 'https', { tls }],
  ['without TLS', 'http', {}],
] as const
