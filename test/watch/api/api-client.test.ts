/** The requested encoding and the one of the answer, over real HTTP. */
import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { makeService } from '../../../dev/api-server/generate.ts'
import { ApiServer } from '../../../dev/api-server/server.ts'
import { statusJson } from '../../../dev/api-server/status.ts'
import { JSON_WIRE, PROTOBUF_WIRE } from '../../../dev/api-server/wire.ts'
import { ApiClient, type ApiClientOptions } from '../../../src/watch/api/api-client.ts'
import { encodingOf } from '../../../src/watch/api/encodings.ts'
import { parse } from '../objects/parse.ts'

const PATH = '/api/v1/services'
const BOTH = 'application/vnd.kubernetes.protobuf,application/json'
const JSON_ONLY = 'application/json'

interface Opened {
  readonly server: ApiServer
  readonly client: ApiClient
  list(): ReturnType<ApiClient['list']>
  /** Accept headers of the requests so far. */
  accepted(): (string | undefined)[]
}

async function open(t: TestContext, options: Partial<ApiClientOptions> = {}): Promise<Opened> {
  const server = new ApiServer()
  const url = await server.listen()
  server.store.put('services', makeService(7))
  const access = { access: async () => ({ server: url, headers: {}, tls: {} }), invalidate: () => {} }
  const client = new ApiClient({ access, userAgent: 'test', ...options })
  t.after(async () => {
    await client.close()
    await server.close()
  })
  return {
    server,
    client,
    list: () => client.list(PATH, {}, AbortSignal.timeout(10_000)),
    accepted: () => server.requests.map(({ headers }) => headers.accept),
  }
}

const expected = parse('services', makeService(7)).value

describe('ApiClient', () => {
  for (const [what, options, accept, wire] of [
    ['requests protobuf by default', {}, BOTH, PROTOBUF_WIRE],
    ['requests protobuf when that is configured', { contentType: PROTOBUF_WIRE.contentType }, BOTH, PROTOBUF_WIRE],
    ['requests only JSON when that is configured', { contentType: JSON_ONLY }, JSON_ONLY, JSON_WIRE],
    ['requests the configured acceptContentTypes', { acceptContentTypes: JSON_ONLY }, JSON_ONLY, JSON_WIRE],
  ] as const)
    it(what, async (t) => {
      const { server, list, accepted } = await open(t, options)
      const { items, resourceVersion } = await list()
      assert.deepEqual(
        items.map((item) => parse('services', item).value),
        [expected],
      )
      assert.equal(resourceVersion, String(server.store.version))
      assert.deepEqual(accepted(), [accept])
      assert.equal(server.requests[0]?.wire, wire)
    })

  it('reads JSON when the server has no other encoding', async (t) => {
    const { server, list, client } = await open(t)
    server.speaksProtobuf = false
    const { items } = await list()
    assert.deepEqual(
      items.map((item) => parse('services', item).value),
      [expected],
    )
    const signal = AbortSignal.timeout(10_000)
    const query = { watch: 'true', sendInitialEvents: 'true', resourceVersionMatch: 'NotOlderThan' }
    const events: unknown[] = []
    for await (const some of client.watch(PATH, query, { signal, inactivityMs: () => 5000 })) {
      events.push(...some)
      if (events.length === 2) break
    }
    assert.deepEqual(
      events.map((event) => (event as { type: unknown }).type),
      ['ADDED', 'BOOKMARK'],
    )
    assert.deepEqual(
      server.requests.map(({ wire }) => wire),
      [JSON_WIRE, JSON_WIRE],
    )
  })

  it('requests only JSON after the first 406', async (t) => {
    const { server, list, accepted } = await open(t)
    server.inject({ action: { kind: 'status', status: 406 } })
    assert.equal((await list()).items.length, 1)
    await list()
    assert.deepEqual(accepted(), [BOTH, JSON_ONLY, JSON_ONLY])
  })

  it('reports a 406 to a request for JSON', async (t) => {
    const { server, list, accepted } = await open(t)
    server.inject({ action: { kind: 'status', status: 406 }, times: 5 })
    await assert.rejects(list(), { code: 'api-status', status: 406 })
    await assert.rejects(list(), { code: 'api-status', status: 406 })
    assert.deepEqual(accepted(), [BOTH, JSON_ONLY, JSON_ONLY])
  })

  it('reads a Status in protobuf and in JSON, and the HTTP status of any other body', async (t) => {
    const { server, list } = await open(t)
    const protobuf = { 'content-type': PROTOBUF_WIRE.contentType }
    for (const [action, message] of [
      [{}, '503 InternalError: injected fault'],
      [{ body: statusJson(503, 'Told', 'in JSON') }, '503 Told: in JSON'],
      [{ body: '<html>', headers: { 'content-type': 'text/html' } }, '503'],
      [{ body: '<html>', headers: protobuf }, '503'],
      [{ body: 'k8s\0\x0a', headers: protobuf }, '503'],
    ] as const) {
      server.inject({ action: { kind: 'status', status: 503, ...action } })
      await assert.rejects(list(), { code: 'api-status', status: 503, message })
    }
  })

  it('refuses a list that does not match its content type', async (t) => {
    const { server, list } = await open(t)
    for (const [type, body] of [
      [PROTOBUF_WIRE.contentType, '{"kind":"ServiceList","items":[]}'],
      [JSON_ONLY, 'k8s\0'],
    ] as const) {
      server.inject({ action: { kind: 'status', status: 200, headers: { 'content-type': type }, body } })
      await assert.rejects(list(), { code: 'api-bad-response' })
    }
  })

  it('reads a large list in protobuf', async (t) => {
    const { server, list } = await open(t)
    for (let index = 0; index < 2000; index++) server.store.put('services', makeService(index))
    const { items } = await list()
    assert.equal(items.length, 2000)
    const json = [...server.store.objects.services.values()].map((object) =>
      encodingOf('').parse(Buffer.from(object.json), ''),
    )
    assert.deepEqual(
      items.map((item) => parse('services', item)),
      json.map((item) => parse('services', item)),
    )
  })
})
