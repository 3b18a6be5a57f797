import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type AddressInfo, connect, createServer as createTcpServer, type Server as TcpServer } from 'node:net'
import { test, type TestContext } from 'node:test'
import { HttpPool, type HttpPoolOptions } from '../../src/watch/http-pool.ts'
import { issueCertificate, makeAuthority } from '../api-server/certificate.ts'

const NEVER = new AbortController().signal

async function listen(t: TestContext, server: Server | TcpServer): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    if ('closeAllConnections' in server) server.closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port // it listens on TCP
}

function poolFor(t: TestContext, server: string, options: Partial<HttpPoolOptions> = {}): HttpPool {
  const pool = new HttpPool({ server: new URL(server), tls: {}, connectTimeoutMs: 30_000, ...options })
  t.after(() => pool.close())
  return pool
}

const get = (pool: HttpPool, path = '/x', signal = NEVER): Promise<IncomingMessage> =>
  pool.request({ method: 'GET', path, headers: { 'user-agent': 'test' }, signal, headersTimeoutMs: 30_000 })

async function textOf(response: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of response) text += chunk
  return text
}

const answer: RequestListener = (request, response) => response.end(`${request.method} ${request.url}`)

test('HttpPool asks again on the same connection, and any status is an answer', async (t) => {
  const server = createServer((request, response) => {
    response.statusCode = 404
    answer(request, response)
  })
  let connections = 0
  server.on('connection', () => connections++)
  const pool = poolFor(t, `http://127.0.0.1:${await listen(t, server)}`)
  for (const path of ['/a?b=c', '/d']) {
    const response = await get(pool, path)
    assert.equal(response.statusCode, 404)
    assert.equal(await textOf(response), `GET ${path}`)
  }
  assert.equal(connections, 1)
})

test('HttpPool gives up on a server that says nothing, and on one that does not finish its handshake', async (t) => {
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
  const asked = get(silent, '/', abort.signal)
  abort.abort()
  await assert.rejects(asked, { name: 'AbortError' })
  assert.ok(silent.isIdle, 'what was given up keeps no connection')
})

test('HttpPool lets an answer go on after it was retired, and breaks it when closed', async (t) => {
  let goOn: () => void = () => undefined
  const server = createServer((_request, response) => {
    response.write('first')
    goOn = () => response.write('second')
  })
  const pool = poolFor(t, `http://127.0.0.1:${await listen(t, server)}`)
  const response = await get(pool)
  const chunks = response[Symbol.asyncIterator]()
  assert.equal(String((await chunks.next()).value), 'first')
  pool.retire()
  goOn()
  assert.equal(String((await chunks.next()).value), 'second')
  assert.equal(pool.isIdle, false)
  pool.close()
  await assert.rejects(chunks.next(), { code: 'ECONNRESET' })
})

test('HttpPool goes through a proxy for http and for https servers', async (t) => {
  const authority = makeAuthority('ca')
  const plain = await listen(t, createServer(answer))
  const secure = await listen(t, createTlsServer(issueCertificate(authority, 'server'), answer))
  const asked: string[] = []
  const proxy = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`)
    response.end('through the proxy')
  })
  proxy.on('connect', (request, client, head) => {
    asked.push(`${request.method} ${request.url}`)
    const upstream = connect(secure, '127.0.0.1', () => {
      client.write('HTTP/1.1 200 Connection established\r\n\r\n')
      upstream.write(head)
      client.pipe(upstream).pipe(client)
    })
    upstream.on('error', () => client.destroy())
    client.on('error', () => upstream.destroy())
  })
  const proxyUrl = `http://127.0.0.1:${await listen(t, proxy)}`
  const viaHttp = await get(poolFor(t, `http://127.0.0.1:${plain}`, { proxyUrl }))
  assert.equal(await textOf(viaHttp), 'through the proxy')
  const viaTunnel = await get(poolFor(t, `https://127.0.0.1:${secure}`, { proxyUrl, tls: { ca: authority.cert } }))
  assert.equal(await textOf(viaTunnel), 'GET /x')
  assert.deepEqual(asked, [`GET http://127.0.0.1:${plain}/x`, `CONNECT 127.0.0.1:${secure}`])
})
