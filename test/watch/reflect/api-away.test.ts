/**
 * A long outage of the API server: the request rate, and the memory of the process.
 * @alone The memory of the process is measured.
 */
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

const IGNORING_SINK: ObjectSink = { apply: () => undefined, listed: () => undefined, problems: () => undefined }
const MINUTE_MS = 60_000

/** Kinds of outages. */
const OUTAGES: readonly (readonly [what: string, error: ApiError])[] = [
  ['refuses connections', new ApiError('api-unreachable', 'connect ECONNREFUSED')],
  ['drops packets', new ApiError('api-silent', 'no answer')],
  ['answers 401', new ApiError('api-status', '401 Unauthorized', { status: 401 })],
  ['answers 503', new ApiError('api-status', '503', { status: 503 })],
  ['refuses streaming lists', new ApiError('api-status', '400', { status: 400 })],
]

for (const [what, error] of OUTAGES)
  test(`Reflector waits 30 to 60 s between requests to an API server that ${what}, after two minutes`, async () => {
    let nowMs = 0
    const requestedMs: number[] = []
    const fail = (): never => {
      requestedMs.push(nowMs)
      throw error
    }
    const { promise: finished, resolve: finish } = Promise.withResolvers<void>()
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
      sink: IGNORING_SINK,
      now: () => nowMs,
      // In turn the shortest and the longest wait.
      random: () => 0.9 * (requestedMs.length % 2),
      wait: async (milliseconds, signal) => {
        nowMs += milliseconds
        if (nowMs < 10 * MINUTE_MS) return
        finish()
        await once(signal, 'abort')
      },
      onFailure: () => undefined,
      onHealthy: () => undefined,
    })
    reflector.start()
    await finished
    await reflector.close()
    assert.ok(requestedMs.length <= 27, `${requestedMs.length} requests in ten minutes`)
    const late = requestedMs.filter((atMs) => atMs > 2 * MINUTE_MS)
    const gaps = late.slice(1).map((atMs, index) => atMs - (late[index] ?? 0))
    assert.ok(gaps.length > 8 && gaps.every((gap) => gap >= 30_000 && gap <= 60_000), gaps.join())
    assert.ok(new Set(gaps).size > 1, 'waits without jitter')
  })

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

test('openApiSource uses no more memory during an outage of the API server', async () => {
  // The port of a closed server refuses connections. Other tests listen at 127.0.0.1, so none gets this one.
  const server = new ApiServer()
  const url = await server.listen(0, '127.0.0.9')
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
  const source = openApiSource({ access, nodeName: 'node0', version: '1.2.3', sink: IGNORING_SINK, log, times })
  const usedAfter = async (count: number): Promise<number> => {
    await until(`${count} requests`, () => requests >= count, 60_000)
    collect()
    return process.memoryUsage().heapUsed
  }
  const before = await usedAfter(1000)
  const after = await usedAfter(4000)
  await source.close()
  // 3,000 errors with their causes and stacks take about 9 MB, and what the engine keeps for itself
  // changes by up to 3 MB.
  assert.ok(after - before < 5_000_000, `${after - before} bytes more after 3,000 requests`)
  // One line for each kind, for any number of requests.
  assert.equal(log.lines.length, 3)
})
