/** How a dead server is noticed over HTTP/2, and that a live one is kept. Over real sockets on loopback. */
import assert from 'node:assert/strict'
import { getEventListeners, once } from 'node:events'
import type { ServerHttp2Stream } from 'node:http2'
import { connect } from 'node:net'
import { test, type TestContext } from 'node:test'
import { ApiError } from '../../../src/watch/api/api-error.ts'
import { Http2Connection } from '../../../src/watch/api/http2-connection.ts'
import { until } from '../../support/deadline.ts'
import { openRelay } from '../../support/relay.ts'
import {
  NEVER,
  SCHEMES,
  type Answer,
  serve,
  poolFor,
  get,
  textOf,
  texts,
  trust,
  rawServer,
  watchAnswer,
} from './http2-peers.ts'

for (const [what, scheme, secure] of SCHEMES)
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

test('Http2Connection has asked whether HTTP/2 is spoken, and leaves nothing at the signal of the process', async (t) => {
  const abort = new AbortController()
  const ask = async (http2: boolean): Promise<boolean> => {
    const { port } = await serve(t, { http2 })
    const socket = connect(port, '127.0.0.1')
    await once(socket, 'connect')
    const connection = new Http2Connection(socket, { origin: `http://127.0.0.1:${port}` })
    t.after(() => connection.close())
    return connection.isSpoken(abort.signal)
  }
  assert.deepEqual([await ask(true), await ask(false)], [true, false])
  assert.deepEqual(getEventListeners(abort.signal, 'abort'), [])
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

// Node writes a warning to standard error for a timer of a negative time.
test('Http2Connection may wait until the very moment at which a silence is long enough', async (t) => {
  const server = await serve(t, { http2: true })
  const socket = connect(server.port, '127.0.0.1')
  await once(socket, 'connect')
  const connection = new Http2Connection(socket, {
    origin: `http://127.0.0.1:${server.port}`,
    times: { silenceMs: 5, answerMs: 60_000 },
  })
  t.after(() => connection.close())
  const warnings: Error[] = []
  const onWarning = (warning: Error): void => void warnings.push(warning)
  process.on('warning', onWarning)
  t.after(() => process.off('warning', onWarning))
  // Each look at the clock takes two milliseconds, so the silence ends between two looks.
  let nowMs = 0
  t.mock.method(performance, 'now', () => (nowMs += 2))
  const get = { method: 'GET', path: '/', headers: {}, signal: NEVER, headersTimeoutMs: 60_000 } as const
  const answered = connection.request(get, () => undefined)
  const response = await answered
  for await (const chunk of response) void chunk
  await new Promise((resolve) => setTimeout(resolve, 50))
  assert.deepEqual(warnings, [])
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
