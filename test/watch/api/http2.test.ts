/**
 * Requests over HTTP/2: how it is chosen, what shares a connection, and how answers end. Over real
 * sockets on loopback.
 */
import assert from 'node:assert/strict'
import type { IncomingMessage } from 'node:http'
import { constants, type ServerHttp2Stream } from 'node:http2'
import { connect, createServer as createTcp, type Socket } from 'node:net'
import { test } from 'node:test'
import { createListener } from '../../../dev/api-server/listener.ts'
import { until } from '../../support/deadline.ts'
import {
  NEVER,
  SCHEMES,
  listen,
  echo,
  serve,
  poolFor,
  get,
  textOf,
  texts,
  tls,
  trust,
  rawServer,
  watchAnswer,
} from './http2-peers.ts'

for (const [what, scheme, secure] of SCHEMES) {
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
