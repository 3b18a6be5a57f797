/**
 * An API server that is dead behind a TCP load balancer which keeps its connections open, and one
 * that is only quiet.
 */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { ApiServer, type ApiServerOptions } from '../../../dev/api-server/server.ts'
import { ApiStore } from '../../../dev/api-server/store.ts'
import { KubeAccess } from '../../../src/watch/api/kube-config.ts'
import { type ApiSourceOptions, openApiSource } from '../../../src/watch/reflect/api-source.ts'
import { until } from '../../support/deadline.ts'
import { node, service, slice } from '../../support/manifests.ts'
import { recordingLog } from '../../support/recording-log.ts'
import { openRelay } from '../../support/relay.ts'
import { recordingSink } from '../recording-sink.ts'

/**
 * Two API servers with one store, and a source that reaches them through a load balancer: first one
 * of them, then the other.
 */
async function world(t: TestContext, more: Partial<ApiSourceOptions>, options: ApiServerOptions = {}) {
  const store = new ApiStore()
  store.put('nodes', node(['10.0.2.15']))
  store.put('services', service('web', { clusterIP: '10.96.0.1' }))
  store.put('endpointslices', slice('web', ['10.244.0.1']))
  const servers = [new ApiServer({ store, ...options }), new ApiServer({ store, ...options })] as const
  for (const server of servers) await server.listen()
  let [serving] = servers
  const relay = await openRelay(t, () => Number(new URL(serving.url).port))
  const sink = recordingSink()
  const log = recordingLog()
  const access = new KubeAccess({ master: `http://127.0.0.1:${relay.port}` })
  const source = openApiSource({ access, nodeName: 'node0', version: 'test', sink, log, ...more })
  t.after(async () => {
    await source.close()
    for (const server of servers) await server.close()
  })
  await until('all listed', () => sink.calls.filter((call) => call.startsWith('listed')).length === 3)
  /** The first server loses its power, and something changes. */
  const die = (): void => {
    serving = servers[1]
    relay.cut()
    store.put('endpointslices', slice('web', ['10.244.0.9']))
  }
  const hasChanged = (): Promise<void> =>
    until('the change', () => JSON.stringify([...sink.state]).includes('10.244.0.9'))
  const kinds = servers.map(
    (server) => () => server.requests.map(({ query }) => (query.has('sendInitialEvents') ? 'list' : 'watch')),
  )
  const [first, second] = kinds
  return { store, relay, log, die, hasChanged, first: () => first?.(), second: () => second?.() }
}

test('openApiSource notices a dead API server by its silence to a ping, says so in one line, and continues without a list', async (t) => {
  const f = await world(t, { pingTimes: { silenceMs: 200, answerMs: 100 } })
  f.die()
  await f.hasChanged()
  await until('all watches', () => f.second()?.length === 3)
  assert.deepEqual(
    [f.first(), f.second()],
    [
      ['list', 'list', 'list'],
      ['watch', 'watch', 'watch'],
    ],
  )
  assert.equal(f.relay.connections(), 2)
  const lines = f.log.lines.map(({ level, message, fields }) => [level, message, fields['watches']])
  assert.deepEqual(lines, [
    ['warn', 'The API server did not answer a ping; its watches continue on a new connection', 3],
  ])
})

test('openApiSource asks a healthy API server for nothing while it is quiet, on one connection', async (t) => {
  // A hundred pings take the place of more than an hour.
  const f = await world(t, { pingTimes: { silenceMs: 5, answerMs: 60_000 } })
  await new Promise((resolve) => setTimeout(resolve, 600))
  f.store.put('endpointslices', slice('web', ['10.244.0.9']))
  await f.hasChanged()
  assert.deepEqual([f.first(), f.second(), f.relay.connections(), f.log.lines], [['list', 'list', 'list'], [], 1, []])
})

test('openApiSource over HTTP/1.1 notices a dead API server by its missing bookmarks, and continues without a list', async (t) => {
  const f = await world(
    t,
    { times: { inactivityMs: 60_000, unpingedMs: 1000, healthyMs: 0 } },
    { http2: false, bookmarkMs: 50 },
  )
  f.die()
  await f.hasChanged()
  // On a busy machine bookmarks come late, too, and a watch continues once more.
  await until('all watches', () => (f.second()?.length ?? 0) >= 3)
  assert.deepEqual(new Set([...(f.first() ?? []).slice(3), ...(f.second() ?? [])]), new Set(['watch']))
  assert.deepEqual(
    new Set(f.log.lines.map(({ level, fields }) => `${level} ${String(fields['code'])}`)),
    new Set(['info api-silent']),
  )
})
