import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { CodedError } from '../../../src/values/errors.ts'
import { ApiError } from '../../../src/watch/api/api-error.ts'
import { Reflector } from '../../../src/watch/reflect/reflector.ts'
import { selectionOf } from '../../../src/watch/objects/selection.ts'
import { type WatchEnd, WatchEnds } from '../../../src/watch/reflect/watch-end.ts'
import { until } from '../../support/deadline.ts'
import { service } from '../../support/manifests.ts'
import { recordingSink } from '../recording-sink.ts'

const reset = new ApiError('api-reset', 'aborted')
const expired = new ApiError('api-status', '410', { status: 410 })

test('WatchEnds demands a wait after a failure and after a very short watch without events', () => {
  const rows: readonly (readonly [what: string, end: WatchEnd, isHealthy: boolean])[] = [
    ['an end without error after a minute', { failure: undefined, livedMs: 60_000, progressed: false }, true],
    ['an end without error after a second', { failure: undefined, livedMs: 1000, progressed: false }, true],
    ['an end without error at once', { failure: undefined, livedMs: 999, progressed: false }, false],
    ['an end without error at once, after an event', { failure: undefined, livedMs: 1, progressed: true }, true],
    ['a connection cut after a second', { failure: reset, livedMs: 1000, progressed: false }, true],
    ['a connection cut at once', { failure: reset, livedMs: 999, progressed: true }, false],
    ['a connection cut before the watch started', { failure: reset, livedMs: undefined, progressed: true }, false],
    ['an error of the server', { failure: expired, livedMs: 29_999, progressed: true }, false],
    ['an error of the server after a long watch', { failure: expired, livedMs: 30_000, progressed: true }, true],
    ['no credentials', { failure: new CodedError('kubeconfig', 'x'), livedMs: undefined, progressed: false }, false],
  ]
  for (const [what, end, isHealthy] of rows) assert.equal(new WatchEnds(30_000).judge(end).isHealthy, isHealthy, what)
})

test('WatchEnds reports early ends from the second in a row on, and less and less often when they need no wait', () => {
  const reported = (livedMs: number, count: number): number[] => {
    const ends = new WatchEnds(30_000)
    const all = Array.from({ length: count }, () => ends.judge({ failure: undefined, livedMs, progressed: false }))
    return all.flatMap(({ failure }, index) => (failure?.code === 'api-ended' ? index + 1 : []))
  }
  assert.deepEqual(reported(20_000, 20), [2, 4, 8, 16])
  assert.deepEqual(reported(10, 5), [2, 3, 4, 5])
  assert.deepEqual(reported(30_000, 5), [])
  const ends = new WatchEnds(30_000)
  for (const livedMs of [20_000, 30_000, 20_000])
    assert.equal(ends.judge({ failure: undefined, livedMs, progressed: false }).failure, undefined)
})

/**
 * The waits and reports of a reflector whose watches all end after `livedMs`. Only watches and
 * waits advance its clock.
 */
async function waitsOf(livedMs: number, watches: number): Promise<{ waits: number[]; reports: string[] }> {
  let clockMs = 0
  let requests = 0
  const waits: number[] = []
  const reports: string[] = []
  const sink = recordingSink()
  const reflector: Reflector = new Reflector({
    kind: 'services',
    selection: selectionOf('services', 'node0'),
    client: {
      list: () => Promise.reject(new ApiError('api-status', '404')),
      invalidateCredentials: () => undefined,
      async *watch() {
        if (requests++ === 0) {
          const annotations = { 'k8s.io/initial-events-end': 'true' }
          yield [{ type: 'BOOKMARK', object: { metadata: { resourceVersion: '7', annotations } } }]
        } else yield []
        clockMs += livedMs
      },
    },
    sink,
    now: () => clockMs,
    random: () => 0,
    wait: async (milliseconds) => {
      waits.push(milliseconds)
      clockMs += milliseconds
    },
    onFailure: (error, retryMs, healthy) => reports.push(`${error.code} ${retryMs} ${healthy}`),
    onHealthy: () => undefined,
  })
  reflector.start()
  await until('watches', () => requests > watches)
  await reflector.close()
  return { waits: waits.slice(0, watches - 1), reports: reports.slice(0, watches - 1) }
}

test('Reflector restarts watches at once, and reports it, when a load balancer closes idle connections after 20 s', async () => {
  const { waits, reports } = await waitsOf(20_000, 6)
  assert.deepEqual(waits, [])
  assert.deepEqual(reports.slice(0, 2), ['api-ended 0 true', 'api-ended 0 true'])
})

test('Reflector waits longer each time when the server ends every watch at once', async () => {
  const { waits, reports } = await waitsOf(5, 5)
  assert.deepEqual(waits, [800, 1600, 3200, 6400])
  assert.deepEqual(reports, [
    'api-ended 800 false',
    'api-ended 1600 false',
    'api-ended 3200 false',
    'api-ended 6400 false',
  ])
})

test('Reflector completes a list whose last bookmark arrives together with an error', async () => {
  const object = (name: string, resourceVersion: string) => ({
    ...service(name, { clusterIP: '10.96.0.10' }),
    metadata: { name, namespace: 'demo', resourceVersion },
  })
  const annotations = { 'k8s.io/initial-events-end': 'true' }
  const end = (resourceVersion: string) => ({
    type: 'BOOKMARK',
    object: { metadata: { resourceVersion, annotations } },
  })
  const error = { type: 'ERROR', object: { kind: 'Status', code: 500, reason: 'InternalError' } }
  const expiry = { type: 'ERROR', object: { kind: 'Status', code: 410, reason: 'Expired' } }
  const chunks = [
    [{ type: 'ADDED', object: object('one', '1') }, { type: 'ADDED', object: object('two', '2') }, end('2'), error],
    [expiry],
    // The second list lacks one of the objects.
    [{ type: 'ADDED', object: object('two', '2') }, end('3'), error],
  ]
  const sink = recordingSink()
  const queries: boolean[] = []
  const reflector = new Reflector({
    kind: 'services',
    selection: selectionOf('services', 'node0'),
    client: {
      list: () => Promise.reject(new ApiError('api-status', '404')),
      invalidateCredentials: () => undefined,
      async *watch(_, query) {
        queries.push('sendInitialEvents' in query)
        const chunk = chunks.shift()
        if (chunk === undefined) await nextTurn()
        else yield chunk
      },
    },
    sink,
    now: () => 0,
    random: () => 0,
    wait: () => nextTurn(),
    onFailure: () => undefined,
    onHealthy: () => undefined,
  })
  reflector.start()
  await until('four requests', () => queries.length >= 4)
  await reflector.close()
  assert.deepEqual(queries.slice(0, 4), [true, false, true, false])
  assert.deepEqual(sink.calls, ['+ demo/one', '+ demo/two', 'listed services', '- demo/one'])
})
