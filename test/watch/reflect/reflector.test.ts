import assert from 'node:assert/strict'
import { once } from 'node:events'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { statusJson } from '../../../dev/api-server/status.ts'
import { PROTOBUF_WIRE } from '../../../dev/api-server/wire.ts'
import { deadline, until } from '../../support/deadline.ts'
import { inBothEncodings, service } from './reflector-fixture.ts'

inBothEncodings('Reflector delivers a streaming list, reports its end and follows changes', async (open) => {
  const f = await open()
  f.server.store.put('services', service('a'))
  f.server.store.put('services', service('b'))
  f.start()
  await f.has('a', 'b')
  await until('listed', () => f.sink.calls.includes('listed services'))
  assert.deepEqual(f.sink.calls, ['+ demo/a', '+ demo/b', 'listed services'])
  f.server.store.put('services', service('c'))
  f.server.store.put('services', service('a', 81))
  f.server.store.delete('services', 'demo/b')
  await f.has('a', 'c')
  assert.deepEqual(f.sink.calls.slice(3), ['+ demo/c', '+ demo/a', '- demo/b'])
  assert.deepEqual(f.requests(), ['stream'])
  assert.deepEqual(f.failures, [])
})

inBothEncodings('Reflector sends the query of kube-proxy', async (open) => {
  const f = await open()
  f.start()
  await until('listed', () => f.sink.calls.includes('listed services'))
  const [request] = f.server.requests
  assert.equal(request?.headers['user-agent'], 'kube-ipvs/test')
  assert.deepEqual(Object.fromEntries(request?.query ?? []), {
    labelSelector: '!service.kubernetes.io/service-proxy-name',
    fieldSelector: 'spec.clusterIP!=None',
    watch: 'true',
    allowWatchBookmarks: 'true',
    timeoutSeconds: '300',
    sendInitialEvents: 'true',
    resourceVersionMatch: 'NotOlderThan',
  })
})

inBothEncodings('Reflector removes an object that leaves its selection', async (open) => {
  const f = await open()
  f.server.store.put('services', service('a'))
  f.start()
  await f.has('a')
  f.server.store.put('services', service('a', 80, { labels: { 'service.kubernetes.io/service-proxy-name': 'other' } }))
  await f.has()
  f.server.store.put('services', service('a'))
  await f.has('a')
})

for (const streamingList of ['forbidden', 'storage', 'ignored'] as const)
  inBothEncodings(`Reflector falls back to a paged list when streaming lists are ${streamingList}`, async (open) => {
    const f = await open({ initialInactivityMs: 150 }, { bookmarkMs: 60_000 })
    f.server.streamingList = streamingList
    for (let index = 0; index < 1001; index++) f.server.store.put('services', service(`s${index}`))
    f.start()
    await until('listed', () => f.sink.calls.includes('listed services'))
    assert.equal(f.sink.state.size, 1001)
    f.server.store.put('services', service('late'))
    await until('change', () => f.sink.state.has('services demo/late'))
    assert.deepEqual(f.requests(), ['stream', 'list', 'list+continue', 'list+continue', 'watch'])
    assert.equal(f.failures.length, 1)
    assert.equal(f.waits[0], 0)
  })

inBothEncodings('Reflector requests the whole list when the continue token of a paged list expires', async (open) => {
  const f = await open()
  f.server.streamingList = 'forbidden'
  f.server.continueTokensExpire = true
  for (let index = 0; index < 501; index++) f.server.store.put('services', service(`s${index}`))
  f.start()
  await until('listed', () => f.sink.calls.includes('listed services'))
  assert.equal(f.sink.state.size, 501)
  await until('watch', () => f.server.watchCount === 1)
  assert.deepEqual(f.requests(), ['stream', 'list', 'list+continue', 'list whole', 'watch'])
})

inBothEncodings('Reflector continues from the last version after a reset, without a list', async (open) => {
  const f = await open()
  f.server.store.put('services', service('a'))
  f.start()
  await f.has('a')
  await until('listed', () => f.sink.calls.includes('listed services'))
  f.server.resetConnections()
  f.server.store.put('services', service('b'))
  await f.has('a', 'b')
  assert.deepEqual(f.requests(), ['stream', 'watch'])
  assert.deepEqual(f.failures, ['api-reset'])
})

inBothEncodings('Reflector continues at once after a healthy watch', async (open) => {
  const f = await open({ healthyMs: 0, backoffFirstMs: 60_000, backoffMaxMs: 60_000 })
  f.start()
  for (const round of [1, 2]) {
    await until('watch', () => f.server.watchCount === 1 && f.server.requests.length === round)
    await until('listed', () => f.sink.calls.includes('listed services'))
    f.server.endWatches()
  }
  await until('third watch', () => f.server.requests.length === 3)
  assert.deepEqual(f.requests(), ['stream', 'watch', 'watch'])
  assert.deepEqual(f.failures, [])
})

for (const how of ['in the stream', 'as a status'] as const)
  inBothEncodings(`Reflector lists again after 410 ${how}, and delivers only the difference`, async (open) => {
    const f = await open({ backoffFirstMs: 100 })
    for (const name of ['kept', 'changed', 'removed']) f.server.store.put('services', service(name))
    f.start()
    await f.has('kept', 'changed', 'removed')
    await until('listed', () => f.sink.calls.includes('listed services'))
    const before = f.sink.calls.length
    const status = { kind: 'status', status: 410, body: statusJson(410, 'Expired', 'too old') } as const
    if (how === 'as a status') f.server.inject({ verb: 'watch', action: status })
    f.server.resetConnections()
    f.server.store.put('services', service('changed', 81))
    f.server.store.delete('services', 'demo/removed')
    f.server.store.put('services', service('added'))
    f.server.store.compact()
    f.server.store.put('nodes', { metadata: { name: 'other' } })
    await f.has('kept', 'changed', 'added')
    assert.deepEqual(f.sink.calls.slice(before).toSorted(), ['+ demo/added', '+ demo/changed', '- demo/removed'])
    assert.deepEqual(f.requests(), ['stream', 'watch', 'stream'])
    assert.deepEqual(f.failures, ['api-reset', 'api-status 410'])
  })

inBothEncodings('Reflector removes objects that a paged relist no longer contains', async (open) => {
  const f = await open()
  f.server.streamingList = 'forbidden'
  for (const name of ['a', 'b', 'c']) f.server.store.put('services', service(name))
  f.start()
  await f.has('a', 'b', 'c')
  await until('watch', () => f.server.watchCount === 1)
  f.server.resetConnections()
  f.server.store.delete('services', 'demo/b')
  f.server.store.compact()
  f.server.store.put('nodes', { metadata: { name: 'other' } })
  await f.has('a', 'c')
  assert.equal(f.sink.calls.filter((call) => call.startsWith('listed')).length, 1)
})

for (const [name, retryAfter, longest] of [
  ['seconds', () => '1', 1000],
  ['a date', () => new Date(Date.now() + 100_000).toUTCString(), 100_000],
] as const)
  inBothEncodings(`Reflector waits for the Retry-After of a 429, given as ${name}`, async (open) => {
    const waits: number[] = []
    const wait = async (milliseconds: number, signal: AbortSignal): Promise<void> => {
      waits.push(milliseconds)
      await once(signal, 'abort')
    }
    const f = await open({ wait })
    f.server.inject({ action: { kind: 'status', status: 429, headers: { 'retry-after': retryAfter() } } })
    f.start()
    await until('a wait', () => waits.length === 1)
    assert.deepEqual(f.failures, ['api-status 429'])
    const [waitMs = 0] = waits
    // A date is rounded to seconds, and the answer took some time.
    assert.ok(waitMs > longest - deadline(10_000) && waitMs <= longest && waitMs >= 1000, String(waitMs))
    assert.deepEqual(f.waits, waits)
    assert.equal(f.server.requests.length, 1)
  })

inBothEncodings('Reflector waits longer after each failure of any kind, and recovers', async (open) => {
  const f = await open()
  f.server.store.put('services', service('a'))
  for (const status of [500, 503, 403, 404]) f.server.inject({ action: { kind: 'status', status, body: 'not JSON' } })
  f.server.inject({ action: { kind: 'reset' } })
  f.server.inject({ action: { kind: 'line', line: 'not JSON' } })
  f.server.inject({ action: { kind: 'line', line: '{"type":7}' } })
  f.start()
  await f.has('a')
  assert.deepEqual(f.failures, [
    'api-status 500',
    'api-status 503',
    'api-status 403',
    'api-status 404',
    'api-reset',
    'api-bad-response',
    'api-bad-response',
  ])
  assert.deepEqual(f.waits, [10, 20, 40, 80, 80, 80, 80])
})

inBothEncodings('Reflector waits longer each time when a watch starts and then fails', async (open) => {
  const f = await open({ backoffFirstMs: 40, backoffMaxMs: 400, wait: () => nextTurn() })
  f.server.store.put('services', service('a'))
  f.start()
  await until('listed', () => f.sink.calls.includes('listed services'))
  f.server.inject({
    verb: 'watch',
    times: 100,
    action: { kind: 'line', line: `{"type":"ERROR","object":${statusJson(500, '', '')}}` },
  })
  f.server.resetConnections()
  await until('seven waits', () => f.waits.length >= 7)
  assert.deepEqual(f.waits.slice(0, 7), [40, 80, 160, 320, 400, 400, 400])
})

inBothEncodings('Reflector detects a half-open connection by its silence', async (open, t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const f = await open({ inactivityMs: 60_000 })
  f.server.store.put('services', service('a'))
  f.start()
  await f.has('a')
  await until('listed', () => f.sink.calls.includes('listed services'))
  f.server.freezeWatches()
  f.server.store.put('services', service('b'))
  await until('a failure', () => {
    t.mock.timers.tick(10_000)
    return f.failures.length > 0
  })
  await f.has('a', 'b')
  assert.deepEqual(f.failures, ['api-silent'])
})

inBothEncodings('Reflector keeps a quiet watch while bookmarks arrive', async (open, t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const f = await open({ inactivityMs: 60_000 })
  f.start()
  await until('listed', () => f.sink.calls.includes('listed services'))
  for (let round = 0; round < 5; round++) {
    const before = f.events()
    await until('a bookmark', () => f.events() > before)
    t.mock.timers.tick(59_000)
  }
  assert.deepEqual(f.requests(), ['stream'])
  assert.deepEqual(f.failures, [])
})

inBothEncodings('Reflector lists again after so long without events and bookmarks', async (open, t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const f = await open({ inactivityMs: 60_000, unpingedMs: 30_000 })
  f.start()
  await until('listed', () => f.sink.calls.includes('listed services'))
  f.server.inject({ verb: 'watch', times: 2, action: { kind: 'stall', afterBytes: 0 } })
  f.server.resetConnections()
  await until('list', () => {
    if (f.server.requests.length > 1) t.mock.timers.tick(1000)
    return f.requests().at(-1) === 'stream' && f.server.requests.length > 1
  })
  // Over HTTP/1.1 a silent connection may be dead, so the watch continues on another one before.
  const watches = f.wire === PROTOBUF_WIRE ? ['watch'] : ['watch', 'watch']
  assert.deepEqual(f.requests(), ['stream', ...watches, 'stream'])
})

inBothEncodings('Reflector gives up a request whose answer has no headers in time', async (open) => {
  const f = await open({ headersTimeoutMs: 200 })
  f.server.store.put('services', service('a'))
  f.server.inject({ action: { kind: 'hang' } })
  f.start()
  await f.has('a')
  // On a busy machine later answers may be too late as well.
  assert.ok(f.failures.length > 0 && f.failures.every((failure) => failure === '!api-silent'), f.failures.join())
})

inBothEncodings(
  'Reflector reports problems of objects while they last, and delivers the other objects',
  async (open) => {
    const f = await open()
    f.server.store.put('services', service('a', -1))
    f.server.store.put('services', service('b'))
    f.server.store.putRaw('services', 'demo/nameless', '{"metadata":7}')
    f.start()
    await f.has('b')
    await until('listed', () => f.sink.calls.includes('listed services'))
    assert.deepEqual(Object.fromEntries(f.sink.troubles), {
      'service demo/a': ['spec.ports[0].port: invalid-port'],
      'service (no name)': ['metadata.name: missing-field'],
    })
    f.server.store.put('services', service('a'))
    await f.has('a', 'b')
    assert.equal(f.sink.troubles.has('service demo/a'), false)
    f.server.store.put('services', service('a', -1))
    await f.has('b')
    f.server.store.delete('services', 'demo/a')
    await until('no problem', () => !f.sink.troubles.has('service demo/a'))
  },
)

inBothEncodings('Reflector gets the complete state from a stream that is cut at any byte', async (open) => {
  const f = await open({ backoffFirstMs: 1, backoffMaxMs: 1 })
  f.server.store.put('services', service('a'))
  f.server.store.put('services', service('b'))
  const objects = [...f.server.store.objects.services.values()]
  const length = objects.reduce((sum, object) => sum + f.wire.event('ADDED', object).length, 0)
  // Every seventh byte. encodings.test.ts covers every byte, without a server.
  let cuts = 0
  for (let afterBytes = 0; afterBytes < length; afterBytes += 7, cuts++)
    f.server.inject({ verb: 'watch', action: { kind: cuts % 2 === 0 ? 'cut' : 'end', afterBytes } })
  f.start()
  await until('listed', () => f.sink.calls.includes('listed services'), 20_000)
  assert.deepEqual(f.sink.calls, ['+ demo/a', '+ demo/b', 'listed services'])
  assert.equal(f.server.requests.length, cuts + 1)
})

inBothEncodings('Reflector does not call its sink after close', async (open) => {
  const f = await open()
  for (let index = 0; index < 3000; index++) f.server.store.put('services', service(`s${index}`))
  f.start()
  // Checked in each turn of the event loop, because a fast machine has all objects a moment later.
  while (f.sink.state.size === 0) await nextTurn()
  await f.close()
  const calls = f.sink.calls.length
  assert.ok(calls < 3000, String(calls))
  f.server.store.put('services', service('late'))
  // Nothing can arrive after the watch has ended.
  await until('no watch', () => f.server.watchCount === 0)
  await nextTurn()
  assert.equal(f.sink.calls.length, calls)
})
