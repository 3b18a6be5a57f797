/** A reflector of Services against the API server of the tests, with short times. */
import { test, type TestContext } from 'node:test'
import { ApiServer, type ApiServerOptions, type SeenRequest } from '../../../dev/api-server/server.ts'
import type { Json } from '../../../dev/api-server/store.ts'
import { JSON_WIRE, PROTOBUF_WIRE, type Wire } from '../../../dev/api-server/wire.ts'
import { ApiClient } from '../../../src/watch/api/api-client.ts'
import { selectionOf } from '../../../src/watch/objects/selection.ts'
import { Reflector } from '../../../src/watch/reflect/reflector.ts'
import type { ReflectorTimes } from '../../../src/watch/reflect/reflector-times.ts'
import { until } from '../../support/deadline.ts'
import { service as serviceManifest } from '../../support/manifests.ts'
import { type RecordingSink, recordingSink } from '../recording-sink.ts'

export interface Fixture {
  readonly server: ApiServer
  /** The encoding of the server's answers. */
  readonly wire: Wire
  readonly sink: RecordingSink
  /** `code` or `code status`, with `!` in front when the stream had been healthy. */
  readonly failures: string[]
  readonly waits: number[]
  /** Number of received events, including bookmarks. */
  events(): number
  start(): void
  close(): Promise<void>
  /** Waits until the sink has exactly these Services. */
  has(...names: readonly string[]): Promise<void>
  /**
   * The requests so far: `list`, `list+continue`, `list whole`, `watch` (from a version) or
   * `stream` (streaming list).
   */
  requests(): string[]
}

/** A Service demo/NAME. Its port `marker` distinguishes versions of it. */
export function service(name: string, marker = 80, metadata: Json = {}): Json {
  return serviceManifest(name, { clusterIP: '10.96.0.10', ports: [{ port: marker }] }, { metadata })
}

/** Settings that differ from the defaults of the fixture. */
interface Setting extends ReflectorTimes {
  /** The longest wait for the headers of an answer, in milliseconds; default 30,000. */
  readonly headersTimeoutMs?: number
  /** Replaces the wait before the next request. */
  readonly wait?: (milliseconds: number, signal: AbortSignal) => Promise<void>
}

type Open = (setting?: Setting, options?: ApiServerOptions) => Promise<Fixture>

/** A test that runs twice, with protobuf over HTTP/2 and with JSON over HTTP/1.1. */
export function inBothEncodings(name: string, run: (open: Open, t: TestContext) => Promise<void>): void {
  for (const wire of [PROTOBUF_WIRE, JSON_WIRE])
    test(`${name} (${wire.contentType})`, (t) =>
      run((setting, options) => reflectorFixture(t, wire, setting, { http2: wire === PROTOBUF_WIRE, ...options }), t))
}

async function reflectorFixture(
  t: TestContext,
  wire: Wire,
  { wait, headersTimeoutMs = 30_000, ...times }: Setting = {},
  options: ApiServerOptions = {},
): Promise<Fixture> {
  const server = new ApiServer({ bookmarkMs: 50, ...options })
  const url = await server.listen()
  const client = new ApiClient({
    access: { access: async () => ({ server: url, headers: {}, tls: {} }), invalidate: () => {} },
    userAgent: 'kube-ipvs/test',
    contentType: wire.contentType,
    headersTimeoutMs,
  })
  const sink = recordingSink()
  const failures: string[] = []
  const waits: number[] = []
  let eventCount = 0
  const counted: Pick<ApiClient, 'list' | 'watch' | 'invalidateCredentials'> = {
    list: (...args) => client.list(...args),
    invalidateCredentials: () => client.invalidateCredentials(),
    async *watch(...args) {
      for await (const events of client.watch(...args)) {
        eventCount += events.length
        yield events
      }
    },
  }
  const reflector = new Reflector({
    kind: 'services',
    selection: selectionOf('services', 'node0'),
    client: counted,
    sink,
    now: () => performance.now(),
    random: () => 0,
    ...(wait === undefined ? {} : { wait }),
    times: { backoffFirstMs: 10, backoffMaxMs: 80, healthyMs: 10_000, ...times },
    onFailure(error, retryMs, healthy) {
      const status = 'status' in error && error.status !== 0 ? ` ${String(error.status)}` : ''
      failures.push(`${healthy ? '!' : ''}${error.code}${status}`)
      waits.push(retryMs)
    },
    onHealthy: () => {},
  })
  t.after(async () => {
    await reflector.close()
    await client.close()
    await server.close()
  })
  return {
    server,
    wire,
    sink,
    failures,
    waits,
    events: () => eventCount,
    start: () => reflector.start(),
    close: () => reflector.close(),
    async has(...names) {
      const wanted = names
        .map((name) => `services demo/${name}`)
        .toSorted()
        .join()
      await until(`services ${names.join()}`, () => [...sink.state.keys()].toSorted().join() === wanted)
    },
    requests: () => server.requests.map(verbOf),
  }
}

function verbOf({ verb, query }: SeenRequest): string {
  if (verb === 'list') return query.has('continue') ? 'list+continue' : query.has('limit') ? 'list' : 'list whole'
  return query.has('sendInitialEvents') ? 'stream' : 'watch'
}
