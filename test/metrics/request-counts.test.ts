/** RequestCounts on requests over real HTTP. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test, type TestContext } from 'node:test'
import { RequestCounts } from '../../src/metrics/request-counts.ts'
import { ApiClient } from '../../src/watch/api/api-client.ts'

const NEVER = new AbortController().signal
const JSON_TYPE = { 'content-type': 'application/json' }
const LIST = '{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}'

interface Counted {
  readonly requests: number
  readonly results: Readonly<Record<string, number>>
  readonly requestBytes: number
  readonly responses: number
  readonly responseBytes: number
}

async function open(t: TestContext, answer: RequestListener) {
  const server = createServer(answer)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}` // it listens on TCP
  const observer = new RequestCounts()
  const access = {
    access: async () => ({ server: `http://${host}/base`, headers: {}, tls: {} }),
    invalidate: () => undefined,
  }
  const client = new ApiClient({ access, userAgent: 'test', contentType: 'application/json', observer })
  t.after(async () => {
    await client.close()
    server.closeAllConnections()
    server.close()
  })
  const counted = (): Record<string, Counted> =>
    Object.fromEntries(
      Array.from(observer.endpoints, ({ host: of, method, seconds, results, requestBytes, responseBytes }) => {
        assert.equal(of, host)
        return [
          method,
          {
            requests: seconds.count,
            results: Object.fromEntries(results),
            requestBytes: requestBytes.sum,
            responses: responseBytes.count,
            responseBytes: responseBytes.sum,
          },
        ]
      }),
    )
  return { client, counted }
}

test('RequestCounts counts lists, writes, refused requests and requests without an answer', async (t) => {
  let asked = 0
  const { client, counted } = await open(t, (request, response) => {
    request.resume()
    asked++
    if (asked === 3) response.writeHead(503, JSON_TYPE).end('{}')
    else if (asked === 4) request.socket.destroy()
    else response.writeHead(request.method === 'POST' ? 201 : 200, JSON_TYPE).end(LIST)
  })
  await client.list('/api/v1/services', {}, NEVER)
  await client.write('POST', '/api/v1/events', { contentType: 'application/json', body: '{"ü":1}' }, NEVER)
  await assert.rejects(client.list('/api/v1/services', {}, NEVER))
  await assert.rejects(client.list('/api/v1/services', {}, NEVER))
  const bytes = Buffer.byteLength(LIST)
  assert.deepEqual(counted(), {
    GET: {
      requests: 3,
      results: { '200': 1, '503': 1, '<error>': 1 },
      requestBytes: 0,
      responses: 1,
      responseBytes: bytes,
    },
    POST: { requests: 1, results: { '201': 1 }, requestBytes: 8, responses: 1, responseBytes: bytes },
  })
})

test('RequestCounts counts a watch when its headers arrive, and no aborted request', async (t) => {
  let breakOff: () => void = () => undefined
  const { client, counted } = await open(t, (request, response) => {
    // The path /hang gets no answer; watches get one event and break.
    if (request.url?.endsWith('hang') === true) return
    response.writeHead(200, JSON_TYPE)
    response.write('{"type":"BOOKMARK","object":{}}\n')
    breakOff = () => request.socket.destroy()
  })
  const watch = async (): Promise<void> => {
    for await (const events of client.watch('/api/v1/services', {}, { signal: NEVER, inactivityMs: () => 60_000 }))
      if (events.length > 0) breakOff()
  }
  await assert.rejects(watch(), { code: 'api-reset' })
  await assert.rejects(watch(), { code: 'api-reset' })
  await assert.rejects(client.list('/hang', {}, AbortSignal.timeout(50)))
  assert.deepEqual(counted(), {
    GET: { requests: 2, results: { '200': 2 }, requestBytes: 0, responses: 0, responseBytes: 0 },
  })
})
