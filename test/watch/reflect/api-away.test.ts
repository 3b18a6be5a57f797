/** The API server is away for a long time: how often it is asked, and that nothing grows meanwhile. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { ApiServer } from '../../../dev/api-server/server.ts'
import { ApiError } from '../../../src/watch/api/api-error.ts'
import { selectionOf } from '../../../src/watch/objects/selection.ts'
import { openApiSource } from '../../../src/watch/reflect/api-source.ts'
import { Reflector } from '../../../src/watch/reflect/reflector.ts'
import type { ObjectSink } from '../../../src/watch/source.ts'
import { until } from '../../support/deadline.ts'
import { recordingLog } from '../../support/recording-log.ts'

const NOWHERE: ObjectSink = { apply: () => undefined, listed: () => undefined, problems: () => undefined }
const MINUTE_MS = 60_000

/** How the server is away. */
const AWAY: readonly (readonly [what: string, error: ApiError])[] = [
  ['refuses connections', new ApiError('api-unreachable', 'connect ECONNREFUSED')],
  ['lets packets get lost', new ApiError('api-silent', 'nothing came')],
  ['answers 401', new ApiError('api-status', '401 Unauthorized', { status: 401 })],
  ['answers 503', new ApiError('api-status', '503', { status: 503 })],
  ['knows no streaming lists', new ApiError('api-status', '400', { status: 400 })],
]

for (const [what, error] of AWAY)
  test(`Reflector asks an API server that ${what} at most every 30 s in the end`, async () => {
    let nowMs = 0
    const asked: number[] = []
    const fail = (): never => {
      asked.push(nowMs)
      throw error
    }
    const { promise: over, resolve: end } = Promise.withResolvers<void>()
    const reflector = new Reflector({
      kind: 'services',
      selection: selectionOf('services', 'node0'),
      client: {
        list: async () => fail(),
        watch: async function* () {
          yield* []
          fail()
        },
        invalidateCredentials: () => undefined,
      },
      sink: NOWHERE,
      now: () => nowMs,
      random: () => 0.5,
      wait: async (milliseconds, signal) => {
        nowMs += milliseconds
        if (nowMs < 10 * MINUTE_MS) return
        end()
        await once(signal, 'abort')
      },
      onFailure: () => undefined,
      onHealthy: () => undefined,
    })
    reflector.start()
    await over
    await reflector.close()
    assert.ok(asked.length <= 27, `${asked.length} requests in ten minutes`)
    const late = asked.filter((atMs) => atMs > 2 * MINUTE_MS)
    const gaps = late.slice(1).map((atMs, index) => atMs - (late[index] ?? 0))
    assert.ok(gaps.length > 10 && gaps.every((gap) => gap >= 30_000), gaps.join())
  })

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

test('openApiSource does not grow while the API server is away', async () => {
  // A port that nobody has.
  const server = new ApiServer()
  const url = await server.listen()
  await server.close()
  const log = recordingLog(0)
  let requests = 0
  const access = {
    access: async () => {
      requests++
      return { server: url, headers: {}, tls: {} }
    },
    invalidate: () => undefined,
  }
  const times = { backoffFirstMs: 1, backoffMaxMs: 1 }
  const source = openApiSource({ access, nodeName: 'node0', sink: NOWHERE, log, times })
  const usedAfter = async (count: number): Promise<number> => {
    await until(`${count} requests`, () => requests >= count, 60_000)
    collect()
    return process.memoryUsage().heapUsed
  }
  const before = await usedAfter(500)
  const after = await usedAfter(3500)
  await source.close()
  // An error and its stack are some kilobytes: to keep each would be tens of megabytes.
  assert.ok(after - before < 3_000_000, `${after - before} bytes more after 3,000 requests`)
  // Once for each kind, however often it was tried.
  assert.equal(log.lines.length, 3)
})
