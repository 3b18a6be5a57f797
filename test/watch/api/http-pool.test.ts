import assert from 'node:assert/strict'
import type { LookupAddress } from 'node:dns'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import {
  type AddressInfo,
  connect,
  createServer as createTcpServer,
  getDefaultAutoSelectFamilyAttemptTimeout,
  type Server as TcpServer,
  type Socket,
} from 'node:net'
import type { Duplex } from 'node:stream'
import { test, type TestContext } from 'node:test'
import { sharedLookup } from '../../../src/watch/api/shared-lookup.ts'
import { HttpPool, type HttpPoolOptions } from '../../../src/watch/api/http-pool.ts'
import type { HttpResponse } from '../../../src/watch/api/http-request.ts'
import { issueCertificate, makeAuthority } from '../../../dev/api-server/certificate.ts'
import { until } from '../../support/deadline.ts'

const NEVER = new AbortController().signal

async function listen(t: TestContext, server: Server | TcpServer): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    if ('closeAllConnections' in server) server.closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port // an object, because it listens on TCP
}

function poolFor(t: TestContext, server: string, options: Partial<HttpPoolOptions> = {}): HttpPool {
  const pool = new HttpPool({ server: new URL(server), tls: {}, connectTimeoutMs: 30_000, http2: false, ...options })
  t.after(() => pool.close())
  return pool
}

const get = (pool: HttpPool, path = '/x', signal = NEVER): Promise<HttpResponse> =>
  pool.request({ method: 'GET', path, headers: { 'user-agent': 'test' }, signal, headersTimeoutMs: 30_000 })

async function textOf(response: HttpResponse): Promise<string> {
  let text = ''
  for await (const chunk of response) text += chunk
  return text
}

const answer: RequestListener = (request, response) => response.end(`${request.method} ${request.url}`)

/** An HTTP proxy: it answers plain requests itself and tunnels the others. @param onRequest is called for both */
function connectProxy(onRequest: (line: string) => void = () => undefined): Server {
  const proxy = createServer((request, response) => {
    onRequest(`${request.method} ${request.url}`)
    response.end('through the proxy')
  })
  proxy.on('connect', (request: IncomingMessage, client: Duplex, head: Buffer) => {
    onRequest(`${request.method} ${request.url}`)
    const { hostname, port } = new URL(`http://${request.url}`)
    const upstream = connect(Number(port), hostname, () => {
      client.write('HTTP/1.1 200 Connection established\r\n\r\n')
      upstream.write(head)
      client.pipe(upstream).pipe(client)
    })
    upstream.on('error', () => client.destroy())
    client.on('error', () => upstream.destroy())
  })
  return proxy
}

test('HttpPool reuses its connection, and resolves with any status', async (t) => {
  const server = createServer((request, response) => {
    response.statusCode = 404
    answer(request, response)
  })
  let connections = 0
  server.on('connection', () => connections++)
  const peers: string[] = []
  const observer = {
    requested: () => undefined,
    received: () => undefined,
    connected: (address: string, port: number) => void peers.push(`${address}:${port}`),
  }
  const port = await listen(t, server)
  const pool = poolFor(t, `http://127.0.0.1:${port}`, { observer })
  for (const path of ['/a?b=c', '/d']) {
    const response = await get(pool, path)
    assert.equal(response.statusCode, 404)
    assert.equal(await textOf(response), `GET ${path}`)
  }
  assert.equal(connections, 1)
  assert.deepEqual(peers, [`127.0.0.1:${port}`])
})

test('HttpPool gives up on a server that does not answer, and on one that does not finish its handshake', async (t) => {
  const port = await listen(
    t,
    createTcpServer(() => undefined),
  )
  const silent = poolFor(t, `http://127.0.0.1:${port}`)
  await assert.rejects(silent.request({ method: 'GET', path: '/', headers: {}, signal: NEVER, headersTimeoutMs: 30 }), {
    code: 'api-silent',
    message: 'no answer within 30 ms',
  })
  const handshake = poolFor(t, `https://127.0.0.1:${port}`, { connectTimeoutMs: 30 })
  await assert.rejects(get(handshake), { code: 'api-unreachable', message: 'no connection within 30 ms' })
  const abort = new AbortController()
  const aborted = get(silent, '/', abort.signal)
  abort.abort()
  await assert.rejects(aborted, { name: 'AbortError' })
  assert.ok(silent.isIdle, 'a request that was given up keeps no connection')
})

test('HttpPool continues an answer after it was retired, and breaks it when closed', async (t) => {
  let writeSecond: () => void = () => undefined
  const server = createServer((_request, response) => {
    response.write('first')
    writeSecond = () => response.write('second')
  })
  const pool = poolFor(t, `http://127.0.0.1:${await listen(t, server)}`)
  const response = await get(pool)
  const chunks = response[Symbol.asyncIterator]()
  assert.equal(String((await chunks.next()).value), 'first')
  pool.retire()
  writeSecond()
  assert.equal(String((await chunks.next()).value), 'second')
  assert.equal(pool.isIdle, false)
  pool.close()
  await assert.rejects(chunks.next(), { code: 'ECONNRESET' })
})

test('HttpPool uses a proxy for http and for https servers', async (t) => {
  const authority = makeAuthority('ca')
  const plain = await listen(t, createServer(answer))
  const secure = await listen(t, createTlsServer(issueCertificate(authority, 'server'), answer))
  const requests: string[] = []
  const proxy = connectProxy((line) => requests.push(line))
  const proxyUrl = `http://127.0.0.1:${await listen(t, proxy)}`
  const peers: string[] = []
  const observer = {
    requested: () => undefined,
    received: () => undefined,
    connected: (address: string, port: number) => void peers.push(`http://${address}:${port}`),
  }
  const viaHttp = await get(poolFor(t, `http://127.0.0.1:${plain}`, { proxyUrl, observer }))
  assert.equal(await textOf(viaHttp), 'through the proxy')
  const tls = { ca: authority.cert }
  const viaTunnel = await get(poolFor(t, `https://127.0.0.1:${secure}`, { proxyUrl, tls, observer }))
  assert.equal(await textOf(viaTunnel), 'GET /x')
  assert.deepEqual(peers, [proxyUrl, proxyUrl], 'the proxy is what must stay reachable')
  assert.deepEqual(requests, [`GET http://127.0.0.1:${plain}/x`, `CONNECT 127.0.0.1:${secure}`])
})

test('HttpPool has no time limit for the body of an answer, with and without a proxy', async (t) => {
  const authority = makeAuthority('ca')
  const streams: ServerResponse[] = []
  const stream: RequestListener = (_request, response) => {
    streams.push(response)
    response.write('first')
  }
  const plain = `http://127.0.0.1:${await listen(t, createServer(stream))}`
  const secure = `https://127.0.0.1:${await listen(t, createTlsServer(issueCertificate(authority, 'server'), stream))}`
  const proxyUrl = `http://127.0.0.1:${await listen(t, connectProxy())}`
  t.mock.timers.enable({ apis: ['setTimeout'] })
  for (const [server, options] of [
    [plain, {}],
    [secure, {}],
    [secure, { proxyUrl }],
  ] as const) {
    const pool = poolFor(t, server, { ...options, tls: { ca: authority.cert } })
    const chunks = (await get(pool))[Symbol.asyncIterator]()
    assert.equal(String((await chunks.next()).value), 'first')
    t.mock.timers.tick(3_600_000)
    streams.at(-1)?.write('second')
    assert.equal(String((await chunks.next()).value), 'second', `${server} ${JSON.stringify(options)}`)
    pool.close()
  }
})

test('HttpPool gives up on a proxy that never answers CONNECT, and on a tunnel to a silent server', async (t) => {
  const sockets = new Set<Socket>()
  const mute = createTcpServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket)).resume()
  })
  const port = await listen(t, mute)
  for (const [server, proxyPort] of [
    ['https://127.0.0.1:1', port],
    [`https://127.0.0.1:${port}`, await listen(t, connectProxy())],
  ] as const) {
    const proxyUrl = `http://127.0.0.1:${proxyPort}`
    const impatient = poolFor(t, server, { proxyUrl, connectTimeoutMs: 30 })
    await assert.rejects(get(impatient), { code: 'api-unreachable', message: 'no connection within 30 ms' })
    const patient = poolFor(t, server, { proxyUrl, connectTimeoutMs: 600_000 })
    await assert.rejects(
      patient.request({ method: 'GET', path: '/', headers: {}, signal: NEVER, headersTimeoutMs: 30 }),
      { code: 'api-silent' },
    )
    const abort = new AbortController()
    const aborted = get(patient, '/', abort.signal)
    abort.abort()
    await assert.rejects(aborted, { name: 'AbortError' })
    const closed = patient.request({ method: 'GET', path: '/', headers: {}, signal: NEVER, headersTimeoutMs: 600_000 })
    assert.equal(patient.isIdle, false)
    patient.close()
    await assert.rejects(closed, { code: 'api-reset' })
    assert.equal(patient.isIdle, true)
    await until('no connection is left', () => sockets.size === 0)
  }
})

test('HttpPool sends credentials only to the proxy, and reports the answer of a proxy that refuses', async (t) => {
  const seen: (string | undefined)[] = []
  const proxy = createServer((request, response) => {
    seen.push(request.headers['proxy-authorization'], request.headers.authorization)
    response.end()
  })
  proxy.on('connect', (request: IncomingMessage, client: Duplex) => {
    seen.push(request.headers['proxy-authorization'], request.headers.authorization)
    client.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n')
  })
  const proxyUrl = `http://me:p%40ss@127.0.0.1:${await listen(t, proxy)}`
  const request = (server: string): Promise<HttpResponse> =>
    poolFor(t, server, { proxyUrl }).request({
      method: 'GET',
      path: '/',
      headers: { authorization: 'Bearer token' },
      signal: NEVER,
      headersTimeoutMs: 1000,
    })
  await assert.rejects(request('https://server.invalid:6443'), {
    code: 'api-unreachable',
    message: 'the proxy answered CONNECT server.invalid:6443 with 407 Proxy Authentication Required',
  })
  assert.equal((await request('http://server.invalid')).statusCode, 200)
  const basic = `Basic ${Buffer.from('me:p@ss').toString('base64')}`
  // The proxy forwards a plain http request with all its headers, so it also sees the token.
  assert.deepEqual(seen, [basic, undefined, basic, 'Bearer token'])
})

test('HttpPool resolves a name once for all requests that wait for it', async (t) => {
  const port = await listen(t, createServer(answer))
  const waiting: ((error: null, addresses: LookupAddress[]) => void)[] = []
  const lookup = sharedLookup((_name, _options, callback) => waiting.push(callback))
  assert.equal(getDefaultAutoSelectFamilyAttemptTimeout(), 3000, 'a slow address is not given up for another one')
  const pools = [1, 2].map(() => poolFor(t, `http://api.example:${port}`, { lookup }))
  const requests = pools.flatMap((pool) => [get(pool), get(pool)])
  await until('a look-up', () => waiting.length > 0)
  waiting[0]?.(null, [{ address: '127.0.0.1', family: 4 }])
  for (const response of await Promise.all(requests)) assert.equal(await textOf(response), 'GET /x')
  assert.equal(waiting.length, 1)
})

test('HttpPool resolves a name again after a failed look-up', async (t) => {
  let lookups = 0
  const lookup = sharedLookup((_name, _options, callback) => {
    lookups++
    setImmediate(() => callback(Object.assign(new Error('no such name'), { code: 'ENOTFOUND' }), []))
  })
  const pool = poolFor(t, 'https://api.example', { lookup })
  const tunnel = poolFor(t, 'https://api.example', { lookup, proxyUrl: 'http://proxy.example' })
  for (const each of [pool, pool, tunnel]) await assert.rejects(get(each), { code: 'ENOTFOUND' })
  assert.equal(lookups, 3)
})

test('HttpPool verifies the server even with NODE_TLS_REJECT_UNAUTHORIZED=0', async (t) => {
  const server = createTlsServer(issueCertificate(makeAuthority('ca'), 'server'), answer)
  const port = await listen(t, server)
  const proxyUrl = `http://127.0.0.1:${await listen(t, connectProxy())}`
  const before = process.env['NODE_TLS_REJECT_UNAUTHORIZED']
  process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0'
  t.after(() => {
    if (before === undefined) delete process.env['NODE_TLS_REJECT_UNAUTHORIZED']
    else process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = before
  })
  for (const options of [{}, { proxyUrl }]) {
    await assert.rejects(get(poolFor(t, `https://127.0.0.1:${port}`, options)), {
      code: /UNABLE_TO_VERIFY|SELF_SIGNED/,
    })
    const careless = poolFor(t, `https://127.0.0.1:${port}`, { ...options, tls: { rejectUnauthorized: false } })
    assert.equal(await textOf(await get(careless)), 'GET /x')
  }
})
