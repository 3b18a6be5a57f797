/**
 * Slow, excessive, half-open and hostile clients on every port of the program, and the behaviour of
 * the listener itself. The limits are shorter than the default ones, so that the tests are fast; no
 * test measures a time.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Server } from 'node:net'
import { after, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { healthResponder, metricsResponder } from '../../src/daemon/servers.ts'
import { defaultConfiguration } from '../support/configuration.ts'
import { formatHealthCheck } from '../../src/serve/health-answers.ts'
import { type HttpAnswer, type Responder, textAnswer } from '../../src/serve/http-answer.ts'
import { HttpListener, type HttpListenerOptions } from '../../src/serve/http-listener.ts'
import { silentLog } from '../../src/values/log.ts'
import { until } from '../support/deadline.ts'
import { ask, freePort, isWhole, listen, listens, TcpClient } from '../support/tcp-client.ts'

const closers: (() => void)[] = []
// Not after each test: some run at the same time.
after(() => {
  for (const close of closers) close()
})

const GET = 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n'
/** Only idle time is short: a slow machine must not run into the limits for a request that the test has yet to send. */
const KEEP_ALIVE = { keepAliveMs: 400 }
const SHORT = { headersMs: 200, requestMs: 300, checkMs: 50, silenceMs: 300, keepAliveMs: 400 }

async function open(answer: Responder, more: Partial<HttpListenerOptions> = {}): Promise<number> {
  const listener = new HttpListener({
    address: '127.0.0.1',
    port: 0,
    answer,
    onFailure: (error) => assert.fail(error),
    retryMs: () => 50,
    ...more,
  })
  closers.push(() => listener.close())
  listener.open()
  await until('a port', () => listener.port !== undefined)
  return listener.port ?? 0
}

async function client(port: number): Promise<TcpClient> {
  const opened = await TcpClient.open(port)
  closers.push(() => opened.socket.destroy())
  return opened
}

const configuration = defaultConfiguration('ipvs')
const options = {
  configuration: () => ({ ...configuration, enableProfiling: true }),
  mode: () => configuration.mode,
  health: {
    state: { nodeEligible: true, families: new Map([['IPv4', { lastUpdatedMs: 0, healthy: true }] as const]) },
  },
  metrics: () => ({
    text: async () => 'a 1\n'.repeat(10_000),
    slis: async () => '',
    probes: { answered: () => undefined, checked: () => undefined, resetChecks: () => undefined },
  }),
  flags: () => ({}),
  setVerbosity: () => undefined,
  log: silentLog,
}
const check = { family: 'IPv4', port: 1, namespace: 'demo', name: 'web', localEndpoints: 1 } as const

/** Every kind of port of the program. */
const PORTS: Readonly<Record<string, Responder>> = {
  'health port': healthResponder(options),
  'metrics port': metricsResponder(options),
  'health check port of a Service': () => formatHealthCheck(check, true),
}

const post = (headers: string, body = ''): string => `POST /healthz HTTP/1.1\r\nHost: x\r\n${headers}\r\n\r\n${body}`

/** Invalid and ambiguous requests, with the status of the answer. */
const REFUSED: readonly (readonly [what: string, bytes: string, status: number])[] = [
  ['no HTTP', 'hello\r\n\r\n', 400],
  ['TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 400],
  ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
  ['HTTP/0.9', 'GET /healthz\r\n\r\n', 400],
  ['no Host', 'GET /healthz HTTP/1.1\r\n\r\n', 400],
  ['an unknown method', 'SMUGGLE /healthz HTTP/1.1\r\nHost: x\r\n\r\n', 400],
  ['length and chunks', post('Content-Length: 4\r\nTransfer-Encoding: chunked', '0\r\n\r\n'), 400],
  ['chunks and length', post('Transfer-Encoding: chunked\r\nContent-Length: 4', '0\r\n\r\n'), 400],
  ['two lengths', post('Content-Length: 4\r\nContent-Length: 5', 'abcde'), 400],
  ['a length with a sign', post('Content-Length: +4', 'abcd'), 400],
  ['a length below zero', post('Content-Length: -1'), 400],
  ['a length that overflows', post('Content-Length: 99999999999999999999'), 400],
  ['chunks not last', post('Transfer-Encoding: chunked, identity', '0\r\n\r\n'), 400],
  ['chunks with a tab', post('Transfer-Encoding:\tchunked\r\nContent-Length: 3', '0\r\n\r\n'), 400],
  ['a chunk without a size', post('Transfer-Encoding: chunked', 'x\r\n\r\n'), 200],
  ['a chunk size that overflows', post('Transfer-Encoding: chunked', 'fffffffffffffffff\r\n'), 200],
  ['bare line feeds', 'GET /healthz HTTP/1.1\nHost: x\n\n', 400],
  ['a bare carriage return', 'GET /healthz HTTP/1.1\r\nHost: x\rX: y\r\n\r\n', 400],
  ['a space before the colon', 'GET /healthz HTTP/1.1\r\nHost : x\r\n\r\n', 400],
  ['a folded header', 'GET /healthz HTTP/1.1\r\nHost: x\r\nX: y\r\n z\r\n\r\n', 400],
  ['a zero byte in a header', 'GET /healthz HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n', 400],
  ['a long header', `GET /healthz HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
  ['a header of a megabyte', `GET /healthz HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(2 ** 20)}\r\n\r\n`, 431],
  ['many headers', `GET /healthz HTTP/1.1\r\nHost: x\r\n${'X: y\r\n'.repeat(5_000)}\r\n`, 431],
  ['a long path', `GET /${'x'.repeat(1_000_000)} HTTP/1.1\r\nHost: x\r\n\r\n`, 431],
  ['an unknown expectation', 'GET /healthz HTTP/1.1\r\nHost: x\r\nExpect: tea\r\n\r\n', 417],
]

// Concurrent, because these tests mostly wait for limits.
for (const [name, answer] of Object.entries(PORTS))
  describe(`the ${name}`, { concurrency: true }, () => {
    it('refuses invalid requests and keeps serving', async () => {
      const port = await open(answer, { limits: KEEP_ALIVE })
      const refuse = async ([what, bytes, status]: (typeof REFUSED)[number]): Promise<void> => {
        const hostile = await client(port)
        hostile.socket.write(bytes, 'latin1')
        await hostile.closed
        // If the connection is reset while the client still sends, the answer may be lost.
        assert.ok(hostile.statuses.length <= 1, `${what}: ${hostile.text}`)
        if (bytes.length < 100_000) assert.deepEqual(hostile.statuses, [status], `${what}: ${hostile.text}`)
      }
      await Promise.all(REFUSED.map(refuse))
      assert.match(await ask(port, GET), /^HTTP\/1.1 200 /)
    })

    it('does not answer a request that is hidden in the body of another request', async () => {
      const port = await open(answer)
      const hostile = await client(port)
      const inner = 'GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n'
      hostile.socket.write(post(`Content-Length: ${inner.length}`, inner))
      await until('a whole answer', () => isWhole(hostile.text, false))
      hostile.socket.write(`${GET.slice(0, -2)}Connection: close\r\n\r\n`)
      await hostile.closed
      assert.equal(hostile.statuses.length, 2)
    })

    it('closes connections on which no complete request arrives', async () => {
      const port = await open(answer, { limits: SHORT })
      const [silent, half, drip, body] = await Promise.all([client(port), client(port), client(port), client(port)])
      half.socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\n')
      body.socket.write(post('Content-Length: 100', 'ab'))
      const dripping = setInterval(() => drip.socket.writable && drip.socket.write('G'), 20)
      closers.push(() => clearInterval(dripping))
      await Promise.all([silent.closed, half.closed, drip.closed, body.closed])
      assert.match(await ask(port, GET), /^HTTP\/1.1 200 /)
    })

    it('closes idle and half-closed connections', async () => {
      const port = await open(answer, { limits: KEEP_ALIVE })
      const [idle, ended] = await Promise.all([client(port), client(port)])
      idle.socket.write(GET)
      ended.socket.end(GET)
      await Promise.all([idle.closed, ended.closed])
      assert.deepEqual([idle.statuses, ended.statuses], [[200], [200]])
    })

    it('accepts a probe while other clients hold all connections', async () => {
      const port = await open(answer, { limits: { connections: 8 } })
      const hostile = await Promise.all(Array.from({ length: 40 }, () => client(port)))
      for (const { socket } of hostile) socket.write('GET /healthz HTTP/1.1\r\nX: ')
      for (let probe = 0; probe < 20; probe++) assert.match(await ask(port, GET), /^HTTP\/1.1 200 /)
      await until('32 ended connections', () => hostile.filter(({ socket }) => socket.destroyed).length >= 32)
    })

    it('ignores bodies, and closes the connection of a body that is too long', async () => {
      const port = await open(answer)
      const small = await client(port)
      small.socket.write(post('Transfer-Encoding: chunked', '3\r\nabc\r\n0\r\n\r\n') + GET)
      await until('two answers', () => small.statuses.length === 2)
      const announced = await client(port)
      announced.socket.write(post(`Content-Length: ${2 ** 40}`))
      await announced.closed
      assert.deepEqual(announced.statuses, [200])
      assert.match(announced.text, /^Connection: close\r$/m)
      const endless = await client(port)
      endless.socket.write(post('Transfer-Encoding: chunked'))
      const chunk = `4000\r\n${'x'.repeat(0x4000)}\r\n`
      const pouring = setInterval(() => endless.socket.writable && endless.socket.write(chunk), 1)
      closers.push(() => clearInterval(pouring))
      await endless.closed
      const asking = await client(port)
      asking.socket.write(post('Content-Length: 5\r\nExpect: 100-continue'))
      await asking.closed
      assert.deepEqual(asking.statuses, [200])
    })

    it('answers pipelined requests in their order, and accepts HTTP/1.0', async () => {
      const port = await open(answer)
      const ahead = await client(port)
      ahead.socket.write(GET + GET + 'GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
      await ahead.closed
      assert.deepEqual(ahead.statuses, [200, 200, 200])
      const old = await client(port)
      old.socket.write('GET /healthz HTTP/1.0\r\n\r\n')
      await old.closed
      assert.deepEqual(old.statuses, [200])
    })
  })

describe('HttpListener', () => {
  it('closes the connection of a client that does not read', async () => {
    const port = await open(() => textAnswer('x'.repeat(20_000_000)), { limits: SHORT })
    const deaf = await client(port)
    deaf.socket.pause()
    deaf.socket.write(GET)
    await until('no connection', async () => (await connectionsOf(port)) === 0)
  })

  it('limits the pending requests of one connection', async () => {
    let making = 0
    const never = new Promise<HttpAnswer>(() => undefined)
    const port = await open(() => {
      making++
      return never
    })
    const greedy = await client(port)
    greedy.socket.write(GET.repeat(1000))
    await greedy.closed
    assert.equal(making, 4)
  })

  it('waits for a slow answer, and aborts its signal when the client disconnects', async () => {
    const asked: AbortSignal[] = []
    const port = await open(
      async ({ signal, path }) => {
        asked.push(signal)
        // A real wait, because this answer has to take longer than every limit.
        if (path === '/short') await sleep(2 * Math.max(...Object.values(SHORT)))
        else await once(signal, 'abort')
        return textAnswer('done')
      },
      { limits: SHORT },
    )
    assert.match(await ask(port, GET.replace('/healthz', '/short')), /done$/)
    const leaving = await client(port)
    leaving.socket.write(GET)
    await until('the second request', () => asked.length === 2)
    assert.equal(asked[1]?.aborted, false)
    leaving.socket.destroy()
    await until('the client is gone', () => asked[1]?.aborted === true)
  })

  it('answers 500 if the responder throws', async () => {
    const errors: unknown[] = []
    const onError = (error: unknown): unknown => errors.push(error)
    const failure = new Error('broken')
    for (const answer of [
      () => {
        throw failure
      },
      () => Promise.reject(failure),
    ])
      assert.match(await ask(await open(answer, { onError }), GET), /^HTTP\/1.1 500 Internal Server Error\r\n/)
    assert.deepEqual(errors, [failure, failure])
  })

  it('bothFamilies does not change a single address', async () => {
    // 0.0.0.0 and :: are not tested here, because tests must not listen outside the loopback device.
    // Another program may have the same port of the other address, so what arrives here is counted.
    let asked = 0
    const answer = () => {
      asked++
      return textAnswer('x')
    }
    const only4 = await open(answer, { address: '127.0.0.1', bothFamilies: true })
    const only6 = await open(answer, { address: '::1', bothFamilies: true })
    for (const [port, host] of [
      [only4, '::1'],
      [only6, '127.0.0.1'],
    ] as const)
      await ask(port, GET, host).catch(() => undefined)
    assert.equal(asked, 0)
    await ask(only6, GET, '::1')
    assert.equal(asked, 1)
  })

  it('retries an occupied port until it is closed', async () => {
    const port = await freePort()
    const squatter = await listen(port, '127.0.0.1')
    closers.push(() => squatter.close())
    const attempts: number[] = []
    let opened = 0
    const listener = new HttpListener({
      address: '127.0.0.1',
      port,
      answer: () => textAnswer('x'),
      onOpen: () => opened++,
      onFailure: (error, attempt) => {
        assert.equal(error.code, 'EADDRINUSE')
        attempts.push(attempt)
      },
      retryMs: () => 20,
    })
    closers.push(() => listener.close())
    listener.open()
    await until('three attempts', () => attempts.length >= 3)
    assert.deepEqual(attempts.slice(0, 3), [1, 2, 3])
    squatter.close()
    await until('an open port', () => opened === 1)
    listener.close()
    assert.equal(await listens(port), false)
  })
})

/** Number of established connections to this port, as the kernel lists them. */
async function connectionsOf(port: number): Promise<number> {
  const { readFile } = await import('node:fs/promises')
  const hex = port.toString(16).toUpperCase().padStart(4, '0')
  const lines = (await readFile('/proc/net/tcp', 'utf8')).split('\n')
  return lines.filter((line) => new RegExp(`^\\s*\\d+: [0-9A-F]{8}:${hex} [0-9A-F]{8}:[0-9A-F]{4} 01`).test(line))
    .length
}

it('goes on when the kernel cannot make a connection', async (t) => {
  const servers: Server[] = []
  const listenAs = Server.prototype.listen
  t.mock.method(Server.prototype, 'listen', function (this: Server, ...where: Parameters<typeof listenAs>) {
    servers.push(this)
    return listenAs.apply(this, where)
  })
  const port = await open(() => textAnswer('fine'))
  // As Node reports a failed accept(2); `open` fails the test when the listener takes it for its own failure.
  for (const server of servers) server.emit('error', Object.assign(new Error('accept ENFILE'), { code: 'ENFILE' }))
  assert.equal(servers.length, 1)
  await sleep(100)
  assert.match(await ask(port, GET), /fine/)
})
