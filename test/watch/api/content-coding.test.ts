/** Compressed answers: gzip members cut anywhere, ends in the wrong place, and what expands too far. */
import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { deflateSync, gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { makeService } from '../../../dev/api-server/generate.ts'
import { ApiServer } from '../../../dev/api-server/server.ts'
import { statusJson } from '../../../dev/api-server/status.ts'
import { ApiClient } from '../../../src/watch/api/api-client.ts'
import { ApiError } from '../../../src/watch/api/api-error.ts'
import { decoded } from '../../../src/watch/api/content-coding.ts'
import type { HttpResponse } from '../../../src/watch/api/http-request.ts'
import { readBody } from '../../../src/watch/api/response-body.ts'
import { until } from '../../support/deadline.ts'

const PATH = '/api/v1/services'
const STREAMING = { watch: 'true', sendInitialEvents: 'true', resourceVersionMatch: 'NotOlderThan' }

interface Sent extends HttpResponse {
  readonly isDestroyed: () => boolean
}

/** An answer whose body is these chunks; an error among them breaks it off. */
function answer(coding: string | undefined, chunks: Iterable<Buffer | Error> | AsyncIterable<Buffer | Error>): Sent {
  let isDestroyed = false
  return {
    statusCode: 200,
    headers: coding === undefined ? {} : { 'content-encoding': coding },
    isDestroyed: () => isDestroyed,
    destroy: () => (isDestroyed = true),
    async *[Symbol.asyncIterator]() {
      for await (const chunk of chunks) {
        if (chunk instanceof Error) throw chunk
        yield chunk
      }
    },
  }
}

const bodyOf = (response: HttpResponse, maxBytes = 1 << 20): Promise<Buffer> =>
  readBody(decoded(response), maxBytes, 10_000)

/** The pieces of a text that is cut after these numbers of bytes, again and again. */
function cut(bytes: Buffer, lengths: readonly number[]): Buffer[] {
  const pieces: Buffer[] = []
  for (let from = 0, index = 0; from < bytes.length; index++) {
    const length = lengths[index % lengths.length] ?? bytes.length
    pieces.push(bytes.subarray(from, from + length))
    from += length
  }
  return pieces
}

describe('decoded', () => {
  it('leaves an answer alone that is not compressed', () => {
    for (const coding of [undefined, 'identity', '']) {
      const response = answer(coding, [])
      assert.equal(decoded(response), response)
    }
  })

  it('refuses a coding that no request accepts, and ends the answer', () => {
    for (const coding of ['br', 'deflate', 'gzip, gzip']) {
      const response = answer(coding, [deflateSync('x')])
      assert.throws(() => decoded(response), { code: 'api-bad-response' })
      assert.ok(response.isDestroyed())
    }
  })

  it('reads any number of members, however they are cut', () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(fc.string({ maxLength: 200 }), { minLength: 1, maxLength: 6 }),
        fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 5 }),
        async (texts, lengths) => {
          const members = Buffer.concat(texts.map((text) => gzipSync(text)))
          assert.equal(String(await bodyOf(answer('gzip', cut(members, lengths)))), texts.join(''))
        },
      ),
      { numRuns: 50 },
    ))

  it('hands out each member as soon as it has arrived', async () => {
    const handed: string[] = []
    async function* members(): AsyncGenerator<Buffer> {
      for (const text of ['one', 'two', 'three']) {
        yield gzipSync(text)
        await until(text, () => handed.at(-1) === text)
      }
    }
    for await (const chunk of decoded(answer('gzip', members()))) handed.push(String(chunk))
    assert.deepEqual(handed, ['one', 'two', 'three'])
  })

  it('has no body where none was sent, as a watch that ends before its first event', async () => {
    assert.equal((await bodyOf(answer('gzip', []))).length, 0)
  })

  it('says what is wrong with a body', async () => {
    const whole = gzipSync('a text that is long enough to be cut')
    const broken = Buffer.from(whole)
    broken.fill(0xff, 12, 20)
    const reset = new ApiError('api-reset', 'the server cancelled the answer')
    for (const [chunks, code] of [
      [[whole.subarray(0, whole.length - 4)], 'api-reset'],
      [[whole.subarray(0, 5)], 'api-reset'],
      [[broken], 'api-bad-response'],
      [[Buffer.from('{"kind":"ServiceList"}')], 'api-bad-response'],
      [[whole, reset], 'api-reset'],
    ] as const)
      await assert.rejects(bodyOf(answer('gzip', chunks)), { code })
  })

  it('counts what it has decompressed, and stops there', async () => {
    const response = answer('gzip', [gzipSync(Buffer.alloc(32 << 20))])
    await assert.rejects(bodyOf(response, 100_000), { code: 'api-body-too-large' })
    assert.ok(response.isDestroyed())
  })

  it('tells a reader that comes late the same, and throws it at nobody else', async () => {
    for (const [chunks, code] of [
      [[], undefined],
      [[gzipSync('a text that is long enough to be cut').subarray(0, 20)], 'api-reset'],
    ] as const) {
      const iterator = decoded(answer('gzip', chunks))[Symbol.asyncIterator]()
      await sleep(50)
      const read = async (): Promise<void> => {
        while ((await iterator.next()).done !== true);
      }
      if (code === undefined) await read()
      else await assert.rejects(read(), { code })
    }
    decoded(answer('gzip', [])).destroy(new Error('nobody reads it'))
    await sleep(50)
  })

  it('hands out what arrived before the answer broke off', async () => {
    const reset = new ApiError('api-reset', 'the server cancelled the answer')
    const iterator = decoded(answer('gzip', [gzipSync('first'), reset]))[Symbol.asyncIterator]()
    await sleep(50)
    assert.equal(String((await iterator.next()).value), 'first')
    await assert.rejects(iterator.next(), reset)
  })

  it('ends an answer that stays open behind its last member, or after something that is not gzip', async () => {
    for (const [last, isWrong] of [
      [Buffer.concat([gzipSync('first'), Buffer.alloc(10)]), false],
      [Buffer.from('{"kind":"ServiceList"}'), true],
    ] as const) {
      async function* open(): AsyncGenerator<Buffer> {
        yield last
        await new Promise(() => undefined)
      }
      const response = answer('gzip', open())
      if (isWrong) await assert.rejects(bodyOf(response), { code: 'api-bad-response' })
      else assert.equal(String(await bodyOf(response)), 'first')
      assert.ok(response.isDestroyed())
    }
  })

  it('gives its reader the error with which it is destroyed', async () => {
    const response = decoded(answer('gzip', [gzipSync('first')]))
    const chunks = response[Symbol.asyncIterator]()
    assert.equal(String((await chunks.next()).value), 'first')
    response.destroy(new ApiError('api-silent', 'nothing in time'))
    await assert.rejects(chunks.next(), { code: 'api-silent' })
  })
})

interface Opened {
  readonly server: ApiServer
  readonly client: ApiClient
}

async function open(t: TestContext, http2: boolean, disableCompression = false): Promise<Opened> {
  const server = new ApiServer({ http2 })
  server.compresses = true
  const url = await server.listen()
  for (let index = 0; index < 500; index++) server.store.put('services', makeService(index))
  const access = {
    access: async () => ({ server: url, headers: {}, tls: {}, disableCompression }),
    invalidate: () => undefined,
  }
  const client = new ApiClient({ access, userAgent: 'test', contentType: 'application/json', http2 })
  t.after(async () => {
    await client.close()
    await server.close()
  })
  return { server, client }
}

const signal = (): AbortSignal => AbortSignal.timeout(20_000)
const nameOf = (event: unknown): unknown => (event as { object: { metadata: { name: unknown } } }).object.metadata.name
/** Resolves at the regular end of a streaming list. */
async function readWatch(client: ApiClient, inactivityMs = 15_000): Promise<void> {
  for await (const _ of client.watch(PATH, STREAMING, { signal: signal(), inactivityMs: () => inactivityMs }));
}

for (const http2 of [true, false])
  describe(`ApiClient and a server that compresses, over HTTP/${http2 ? 2 : 1.1}`, () => {
    it('gets a list in a tenth of the bytes, and the same one', async (t) => {
      const { server, client } = await open(t, http2)
      const before = server.bytesSent
      const { items } = await client.list(PATH, {}, signal())
      const packed = server.bytesSent - before
      const plain = await open(t, http2, true)
      const others = (await plain.client.list(PATH, {}, signal())).items
      assert.deepEqual(items, others)
      assert.ok(packed * 10 < plain.server.bytesSent, `${packed} and ${plain.server.bytesSent} bytes`)
      assert.deepEqual(
        [server, plain.server].map(({ requests }) => requests[0]?.headers['accept-encoding']),
        ['gzip', undefined],
      )
    })

    it('gets a streaming list, each later event at once, and a regular end', async (t) => {
      const { server, client } = await open(t, http2)
      const names: unknown[] = []
      let count = 0
      for await (const events of client.watch(PATH, STREAMING, { signal: signal(), inactivityMs: () => 15_000 })) {
        count += events.length
        names.push(...events.map(nameOf))
        if (count === 501) server.store.put('services', makeService(1000))
        if (count === 502) server.store.put('services', makeService(1001))
        if (count === 503) server.endWatches()
      }
      assert.equal(count, 503)
      assert.deepEqual(names.slice(-2), ['service-1000', 'service-1001'])
    })

    it('notices a compressed watch that is cut', async (t) => {
      const { server, client } = await open(t, http2)
      server.inject({ verb: 'watch', action: { kind: 'cut', afterBytes: 500 } })
      await assert.rejects(readWatch(client), { code: 'api-reset' })
    })

    it('notices a compressed watch that ends in the middle of a member', async (t) => {
      const { server, client } = await open(t, http2)
      server.inject({ verb: 'watch', action: { kind: 'end', afterBytes: 500 } })
      await assert.rejects(readWatch(client), { code: 'api-reset' })
    })

    it('ends a compressed watch that is silent', async (t) => {
      const { client } = await open(t, http2)
      await assert.rejects(readWatch(client, 300), { code: 'api-silent' })
    })

    it('asks for no compressed answer to a write', async (t) => {
      const { server, client } = await open(t, http2)
      const content = { contentType: 'application/json', body: '{}' }
      await client
        .write('POST', '/apis/events.k8s.io/v1/namespaces/demo/events', content, signal())
        .catch(() => undefined)
      assert.deepEqual(
        server.requests.map(({ verb, headers }) => [verb, headers['accept-encoding']]),
        [['create', undefined]],
      )
    })

    it('reads a compressed refusal up to its limit, and of any other coding the status', async (t) => {
      const { server, client } = await open(t, http2)
      const long = statusJson(503, 'Told', 'x'.repeat(100_000))
      for (const [coding, body, message] of [
        ['gzip', gzipSync(statusJson(503, 'Told', 'in JSON')), '503 Told: in JSON'],
        ['gzip', gzipSync(long), '503'],
        ['gzip', Buffer.from('<html>'), '503'],
        ['br', Buffer.from('<html>'), '503'],
      ] as const) {
        server.inject({ action: { kind: 'status', status: 503, headers: { 'content-encoding': coding }, body } })
        await assert.rejects(client.list(PATH, {}, signal()), { code: 'api-status', status: 503, message })
      }
    })
  })
