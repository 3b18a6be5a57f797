/** Requests over HTTP/2: how it is chosen, what shares a connection, and how a dead server is noticed. Over real sockets on loopback. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { constants, createServer as createHttp2, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2'
import { type AddressInfo, connect, createServer as createTcp, type Server, type Socket } from 'node:net'
import { test, type TestContext } from 'node:test'
import { createListener } from '../../../dev/api-server/listener.ts'
import { ApiError } from '../../../src/watch/api/api-error.ts'
import { HttpPool, type HttpPoolOptions } from '../../../src/watch/api/http-pool.ts'
import type { HttpResponse } from '../../../src/watch/api/http-request.ts'
import { Http2Connection } from '../../../src/watch/api/http2-connection.ts'
import { issueCertificate, makeAuthority } from '../../support/certificate.ts'
import { until } from '../../support/deadline.ts'
import { openRelay } from '../../support/relay.ts'

const NEVER = new AbortController().signal

async function listen(t: TestContext, server: Server): Promise<number> {
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

interface Peer {
  readonly port: number
  readonly connections: () => number
  /** `1.1` or `2.0` of each request. */
  readonly versions: string[]
}

type Answer = (request: IncomingMessage, response: ServerResponse) => void
const echo: Answer = (request, response) => void response.end(`${request.method} ${request.url}`)

async function serve(
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

function poolFor(t: TestContext, server: string, options: Partial<HttpPoolOptions> = {}): HttpPool {
  const pool = new HttpPool({ server: new URL(server), tls: {}, connectTimeoutMs: 30_000, ...options })
  t.after(() => pool.close())
  return pool
}

const get = (pool: HttpPool, path = '/x', signal = NEVER, headersTimeoutMs = 30_000): Promise<HttpResponse> =>
  pool.request({ method: 'GET', path, headers: { 'user-agent': 'test' }, signal, headersTimeoutMs })

async function textOf(response: HttpResponse): Promise<string> {
  let text = ''
  for await (const chunk of response) text += chunk
  return text
}

const texts = (pool: HttpPool, ...paths: readonly string[]): Promise<string[]> =>
  Promise.all(paths.map(async (path) => textOf(await get(pool, path))))

const authority = makeAuthority('ca')
const tls = issueCertificate(authority, 'server', '127.0.0.1')
const trust = { tls: { ca: authority.cert } }

for (const [what, scheme, secure] of [
  ['with TLS', 'https', { tls }],
  ['without TLS', 'http', {}],
] as const) {
  test(`HttpPool sends all requests over one connection of HTTP/2 ${what}`, async (t) => {
    const peer = await serve(t, { http2: true, ...secure })
    const pool = poolFor(t, `${scheme}://127.0.0.1:${peer.port}`, trust)
    assert.deepEqual(await texts(pool, '/a', '/b?c=d', '/e'), ['GET /a', 'GET /b?c=d', 'GET /e'])
    const body = {
      method: 'POST',
      path: '/p',
      headers: {},
      body: '{}',
      signal: NEVER,
      headersTimeoutMs: 30_000,
    } as const
    assert.equal(await textOf(await pool.request(body)), 'POST /p')
    assert.deepEqual([peer.connections(), new Set(peer.versions)], [1, new Set(['2.0'])])
  })
}

test('HttpPool tells where each connection leads to, in either version of HTTP', async (t) => {
  for (const http2 of [true, false])
    for (const [scheme, secure] of [
      ['https', { tls }],
      ['http', {}],
    ] as const) {
      const peer = await serve(t, { http2, ...secure })
      const connected: string[] = []
      const observer = {
        requested: () => undefined,
        received: () => undefined,
        connected: (address: string, port: number) => connected.push(`${address}:${port}`),
      }
      const pool = poolFor(t, `${scheme}://127.0.0.1:${peer.port}`, { ...trust, observer })
      await texts(pool, '/a')
      // Without TLS a server of HTTP/1.1 shows only on a first connection that it is one.
      const place = `127.0.0.1:${peer.port}`
      assert.deepEqual(connected, scheme === 'http' && !http2 ? [place, place] : [place])
    }
})

test('HttpPool goes on in HTTP/1.1 on the connection on which a server with TLS has chosen it', async (t) => {
  const peer = await serve(t, { http2: false, tls })
  const pool = poolFor(t, `https://127.0.0.1:${peer.port}`, trust)
  assert.deepEqual(await texts(pool, '/a'), ['GET /a'])
  assert.deepEqual(await texts(pool, '/b'), ['GET /b'])
  assert.deepEqual([peer.connections(), peer.versions], [1, ['1.1', '1.1']])
})

test('HttpPool goes on in HTTP/1.1 when a server without TLS refuses the first frame, and does not try again', async (t) => {
  const peer = await serve(t, { http2: false })
  const pool = poolFor(t, `http://127.0.0.1:${peer.port}`)
  for (const path of ['/a', '/b', '/c']) assert.deepEqual(await texts(pool, path), [`GET ${path}`])
  assert.deepEqual([peer.connections(), peer.versions], [2, ['1.1', '1.1', '1.1']])
})

test('HttpPool uses HTTP/1.1 where the first frame gets no answer at all', async (t) => {
  const server = createTcp((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', (first) => {
      if (first.toString('latin1').startsWith('PRI')) socket.end()
      else socket.end('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
    })
  })
  const pool = poolFor(t, `http://127.0.0.1:${await listen(t, server)}`)
  assert.deepEqual(await texts(pool, '/a'), ['ok'])
  assert.deepEqual(await texts(pool, '/b'), ['ok'])
})

test('HttpPool speaks HTTP/2 through a tunnel of a proxy', async (t) => {
  const peer = await serve(t, { http2: true, tls })
  const proxy = createListener({ http2: false, answer: echo })
  proxy.on('connect', (_request: IncomingMessage, client: Socket, head: Buffer) => {
    const upstream = connect(peer.port, '127.0.0.1', () => {
      client.write('HTTP/1.1 200 Connection established\r\n\r\n')
      upstream.write(head)
      client.pipe(upstream).pipe(client)
    })
    upstream.on('error', () => client.destroy())
    client.on('error', () => upstream.destroy())
    client.on('close', () => upstream.destroy())
  })
  const proxyUrl = `http://127.0.0.1:${await listen(t, proxy)}`
  const pool = poolFor(t, `https://127.0.0.1:${peer.port}`, { ...trust, proxyUrl })
  assert.deepEqual(await texts(pool, '/a', '/b'), ['GET /a', 'GET /b'])
  assert.deepEqual([peer.connections(), peer.versions], [1, ['2.0', '2.0']])
})

test('HttpPool reports a refused connection and a wrong certificate, and tries again with the next request', async (t) => {
  const closed = createTcp()
  const port = await listen(t, closed)
  closed.close()
  await assert.rejects(get(poolFor(t, `http://127.0.0.1:${port}`)), { code: 'ECONNREFUSED' })
  const peer = await serve(t, { http2: true, tls })
  const wrong = poolFor(t, `https://127.0.0.1:${peer.port}`)
  for (let time = 0; time < 2; time++) await assert.rejects(get(wrong), { code: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' })
  assert.equal(peer.connections(), 2)
})

test('HttpPool gives up a handshake that does not end', async (t) => {
  const mute = createTcp((socket) => socket.resume())
  const port = await listen(t, mute)
  const pool = poolFor(t, `https://127.0.0.1:${port}`, { connectTimeoutMs: 50 })
  await assert.rejects(get(pool), { code: 'api-unreachable', message: 'no connection within 50 ms' })
  const aborted = new AbortController()
  const patient = poolFor(t, `https://127.0.0.1:${port}`)
  const request = get(patient, '/', aborted.signal)
  aborted.abort()
  await assert.rejects(request, { name: 'AbortError' })
  const late = get(patient, '/')
  patient.close()
  await assert.rejects(late, { code: 'api-reset' })
  assert.ok(patient.isIdle)
})

/** A server of HTTP/2 alone, with what it sees of its sessions. */
async function rawServer(t: TestContext, onStream: (stream: ServerHttp2Stream, path: string) => void) {
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
const watchAnswer = (stream: ServerHttp2Stream): void => {
  stream.respond({ ':status': 200 })
  stream.write('x')
}

/** A frame (RFC 9113, 4.1). */
function frame(type: number, flags: number, stream: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const header = Buffer.alloc(9)
  header.writeUIntBE(payload.length, 0, 3)
  header.writeUInt8(type, 3)
  header.writeUInt8(flags, 4)
  header.writeUInt32BE(stream, 5)
  return Buffer.concat([header, payload])
}

test('HttpPool ends an answer that the server has cancelled with an error, also where Node takes it for complete', async (t) => {
  const [DATA, HEADERS, RST_STREAM, SETTINGS] = [0, 1, 3, 4]
  const server = createTcp((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => {
      const code = Buffer.alloc(4)
      code.writeUInt32BE(constants.NGHTTP2_CANCEL)
      socket.write(Buffer.concat([frame(SETTINGS, 0, 0), frame(SETTINGS, 1, 0)]))
      socket.once('data', () => {
        // The status 200 from the static table of HPACK, END_HEADERS.
        const answer = [frame(HEADERS, 4, 1, Buffer.from([0x88])), frame(DATA, 0, 1, Buffer.from('x'))]
        socket.write(Buffer.concat([...answer, frame(RST_STREAM, 0, 1, code)]))
      })
    })
  })
  const response = await get(poolFor(t, `http://127.0.0.1:${await listen(t, server)}`))
  assert.equal(response.statusCode, 200)
  await assert.rejects(textOf(response), {
    code: 'api-reset',
    message: 'the server cancelled the answer (code 8 of HTTP/2)',
  })
})

test('HttpPool ends a request at the server when it is aborted, before and after its headers', async (t) => {
  const streams: ServerHttp2Stream[] = []
  const { port, sessions } = await rawServer(t, (stream, path) => {
    streams.push(stream)
    if (path === '/answered') watchAnswer(stream)
  })
  const pool = poolFor(t, `http://127.0.0.1:${port}`)
  for (const path of ['/silent', '/answered']) {
    const abort = new AbortController()
    const request = get(pool, path, abort.signal)
    if (path === '/answered') {
      const text = textOf(await request)
      abort.abort(new Error('enough'))
      await assert.rejects(text, { message: 'enough' })
    } else {
      await until('the request', () => streams.length === 1)
      abort.abort(new Error('enough'))
      await assert.rejects(request, { message: 'enough' })
    }
    await until('its end', () => streams.at(-1)?.rstCode === constants.NGHTTP2_CANCEL)
  }
  assert.deepEqual([sessions.length, pool.isIdle], [1, true])
})

test('HttpPool opens another connection when the server is about to end one, and reads the answers on it to their end', async (t) => {
  const streams: ServerHttp2Stream[] = []
  const { port, sessions } = await rawServer(t, (stream, path) => {
    streams.push(stream)
    watchAnswer(stream)
    if (path === '/short') stream.end()
  })
  const pool = poolFor(t, `http://127.0.0.1:${port}`)
  const watch = await get(pool, '/watch')
  const chunks = watch[Symbol.asyncIterator]()
  assert.equal(String((await chunks.next()).value), 'x')
  sessions[0]?.goaway(constants.NGHTTP2_NO_ERROR)
  await until('the notice', async () => {
    assert.equal(await textOf(await get(pool, '/short')), 'x')
    return sessions.length === 2
  })
  streams[0]?.end('y')
  assert.equal(String((await chunks.next()).value), 'y')
  assert.equal((await chunks.next()).done, true)
})

test('HttpPool that is retired answers what it has begun, and closes then', async (t) => {
  const streams: ServerHttp2Stream[] = []
  const { port, sessions } = await rawServer(t, (stream) => {
    streams.push(stream)
    watchAnswer(stream)
  })
  const pool = poolFor(t, `http://127.0.0.1:${port}`)
  const text = textOf(await get(pool))
  pool.retire()
  assert.equal(pool.isIdle, false)
  streams[0]?.end('y')
  assert.equal(await text, 'xy')
  await until('the end', () => sessions[0]?.destroyed === true && pool.isIdle)
})

for (const [what, scheme, secure] of [
  ['with TLS', 'https', { tls }],
  ['without TLS', 'http', {}],
] as const)
  test(`HttpPool gives up a connection ${what} whose server is dead behind a load balancer, once for all requests`, async (t) => {
    const watch: Answer = (request, response) => {
      response.writeHead(200)
      response.write('x')
      if (request.url === '/short') response.end()
    }
    const peer = await serve(t, { http2: true, ...secure, answer: watch })
    const balancer = await openRelay(t, () => peer.port)
    const dead: number[] = []
    const pool = poolFor(t, `${scheme}://127.0.0.1:${balancer.port}`, {
      ...trust,
      pingTimes: { silenceMs: 100, answerMs: 100 },
      onDead: (_, requests) => dead.push(requests),
    })
    const answers = await Promise.all([get(pool), get(pool), get(pool)])
    const ends = answers.map((response) => textOf(response).catch((error: unknown) => error))
    balancer.cut()
    for (const error of await Promise.all(ends)) {
      assert.ok(error instanceof ApiError && error.code === 'api-dead', String(error))
      assert.match(error.message, /^the connection is dead: nothing arrived for \d+ s, not even the answer to a ping$/)
    }
    assert.deepEqual(dead, [3])
    assert.equal(await textOf(await get(pool, '/short')), 'x')
    assert.equal(peer.connections(), 2)
  })

test('HttpPool keeps a silent connection as long as its server answers pings, and sends none beside data or without requests', async (t) => {
  const streams: ServerHttp2Stream[] = []
  const { port, sessions, pings } = await rawServer(t, (stream) => {
    streams.push(stream)
    watchAnswer(stream)
  })
  const dead: number[] = []
  const pool = poolFor(t, `http://127.0.0.1:${port}`, {
    pingTimes: { silenceMs: 200, answerMs: 20_000 },
    onDead: (_, requests) => dead.push(requests),
  })
  const abort = new AbortController()
  const watch = (await get(pool, '/', abort.signal))[Symbol.asyncIterator]()
  await watch.next()
  await until('pings', () => pings() >= 3)
  // A second watch needs no more pings.
  const beside = await get(pool)
  void textOf(beside).catch(() => undefined)
  // While data arrives there is none.
  const flow = setInterval(() => streams[0]?.write('y'), 5)
  for (let count = 0; count < 20; count++) await watch.next()
  const before = pings()
  for (let count = 0; count < 40; count++) await watch.next()
  assert.ok(pings() <= before + 1, `${pings() - before} pings`)
  clearInterval(flow)
  assert.deepEqual([sessions.length, dead], [1, []])
  // Nor when nothing is open.
  abort.abort()
  beside.destroy()
  await until('the end', () => pool.isIdle)
  await new Promise((resolve) => setTimeout(resolve, 300))
  const rest = pings()
  await new Promise((resolve) => setTimeout(resolve, 500))
  assert.equal(pings(), rest)
})

test('HttpPool keeps a connection when the process stood still beyond the time for the answer to a ping', async (t) => {
  const { port, pings } = await rawServer(t, watchAnswer)
  const dead: number[] = []
  const pool = poolFor(t, `http://127.0.0.1:${port}`, {
    pingTimes: { silenceMs: 50, answerMs: 100 },
    onDead: (_, requests) => dead.push(requests),
  })
  const watch = (await get(pool))[Symbol.asyncIterator]()
  await watch.next()
  // The server is in this process, so it stands still too, and answers afterwards.
  setTimeout(() => {
    for (const endMs = performance.now() + 1500; performance.now() < endMs; );
  }, 55)
  await until('pings after that', () => pings() >= 4)
  assert.deepEqual(dead, [])
})

test('HttpPool sends nothing more over a connection on which a request got no answer, until the server has shown that it lives', async (t) => {
  const streams: string[] = []
  const answer: Answer = (request, response) => {
    streams.push(request.url ?? '')
    if (request.url !== '/slow') response.end('x')
  }
  const peer = await serve(t, { http2: true, answer })
  const balancer = await openRelay(t, () => peer.port)
  const pool = poolFor(t, `http://127.0.0.1:${balancer.port}`)
  // A request that is slow by itself changes nothing.
  await assert.rejects(get(pool, '/slow', NEVER, 50), { code: 'api-silent' })
  await until('the answer to the ping', async () => {
    const before = peer.connections()
    await texts(pool, '/a')
    return peer.connections() === before
  })
  const other = poolFor(t, `http://127.0.0.1:${balancer.port}`)
  assert.deepEqual(await texts(other, '/a'), ['x'])
  balancer.cut()
  await assert.rejects(get(other, '/lost', NEVER, 50), { code: 'api-silent' })
  assert.deepEqual(await texts(other, '/b'), ['x'])
  assert.ok(!streams.includes('/lost'))
})

// Node emits 'connect' on a session that was destroyed meanwhile, and an error in a listener ends the process.
test('Http2Connection may be closed at any moment, and then pings nobody', async (t) => {
  const server = await serve(t, { http2: true })
  const open = async (): Promise<Http2Connection> => {
    const socket = connect(server.port, '127.0.0.1')
    await once(socket, 'connect')
    return new Http2Connection(socket, {
      origin: `http://127.0.0.1:${server.port}`,
      times: { silenceMs: 5, answerMs: 1000 },
    })
  }
  const uncaught = collectUncaught(t)
  for (let turns = 0; turns < 6; turns++) {
    const connection = await open()
    for (let turn = 0; turn < turns; turn++) await (turn % 2 === 0 ? Promise.resolve() : new Promise(setImmediate))
    connection.close()
    connection.doubt()
    await new Promise((resolve) => setTimeout(resolve, 10))
    assert.ok(connection.isClosed && !connection.isUsable)
  }
  assert.deepEqual(uncaught, [])
})

/** Collects the errors that would end the process until the test ends, instead of its own listeners. */
function collectUncaught(t: TestContext): Error[] {
  const errors: Error[] = []
  const before = process.listeners('uncaughtException')
  process.removeAllListeners('uncaughtException')
  process.on('uncaughtException', (error) => errors.push(error))
  t.after(() => {
    process.removeAllListeners('uncaughtException')
    for (const listener of before) process.on('uncaughtException', listener)
  })
  return errors
}
