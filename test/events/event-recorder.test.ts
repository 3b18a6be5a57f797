/**
 * Events over real HTTP: requests compared with those of kube-proxy 1.37.2, and retries when the
 * server refuses Events, is down or loses them. Names and times differ between runs, so their
 * format is checked and they are replaced.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it, type TestContext } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { EventWrite } from '../../dev/api-server/events.ts'
import { ApiServer, type ApiServerOptions } from '../../dev/api-server/server.ts'
import { healthCheckFailed, proxyStarting } from '../../src/events/event-objects.ts'
import { EventRecorder, type EventRecorderOptions, loggedEvents } from '../../src/events/event-recorder.ts'
import { ApiClient } from '../../src/watch/api/api-client.ts'
import { until } from '../support/deadline.ts'
import { recordingLog } from '../support/recording-log.ts'
import { recordingPath } from '../support/recordings.ts'

const NOTE =
  'node node0 failed to start healthcheck "demo/lb-without-local" on port 30901: listen tcp4 0.0.0.0:30901: bind: address already in use'
const STARTING = proxyStarting('node0')
/** Events are sent one by one in order: when this one has arrived, all earlier ones have. */
const LAST = proxyStarting('last')
const FAILED = healthCheckFailed({ namespace: 'demo', name: 'lb-without-local' }, NOTE)

async function open(t: TestContext, more: Partial<EventRecorderOptions> = {}, serverOptions: ApiServerOptions = {}) {
  const server = new ApiServer(serverOptions)
  const url = await server.listen()
  const credentials = { renewals: 0, token: 'good' }
  const access = {
    access: async () => ({ server: url, headers: { authorization: `Bearer ${credentials.token}` }, tls: {} }),
    invalidate: () => {
      credentials.renewals++
      credentials.token = 'good'
    },
  }
  const log = recordingLog(2)
  const client = new ApiClient({ access, userAgent: 'test', contentType: 'application/json', headersTimeoutMs: 10_000 })
  const events = new EventRecorder({ client, hostName: 's0', log, retryMs: 10, serviceIntervalMs: 0, ...more })
  t.after(async () => {
    await events.close()
    await server.close()
  })
  const writes = server.events.writes
  const arrived = (count: number): Promise<void> => until(`${count} writes`, () => writes.length >= count)
  const failures = (): unknown[] =>
    log.lines.filter(({ message }) => message === 'Cannot write an event').map(({ fields }) => fields['reason'])
  const retries = (): unknown[] =>
    log.lines.filter(({ message }) => message === 'Cannot write an event').map(({ fields }) => fields['retryMs'])
  return { server, events, writes, arrived, failures, retries, credentials, log }
}

/** A write in the form of the recording. */
function normalised({ request, path, object }: EventWrite): string {
  const hash = (text: string): string => text.replace(/\.[0-9a-f]{16}\b/, '.<hash>')
  const text = JSON.stringify({ request, path: hash(path), object })
  return hash(text).replace(/"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"/, '"<time>"')
}

const kinds = (writes: readonly EventWrite[]): string[] => writes.map(({ request, status }) => `${request} ${status}`)

describe('EventRecorder', () => {
  it('sends the first and second occurrence as kube-proxy does, byte for byte, and no third', async (t) => {
    const recorded = JSON.parse(readFileSync(recordingPath('surfaces/events.json'), 'utf8')) as {
      readonly created: readonly { readonly object: { readonly reason?: string } }[]
    }
    const { events, writes, arrived } = await open(t)
    events.record(STARTING)
    events.record(FAILED)
    await arrived(2)
    events.record(FAILED)
    await arrived(3)
    for (let time = 0; time < 5; time++) events.record(FAILED)
    events.record(LAST)
    await arrived(4)
    const wanted = recorded.created.filter(({ object }) => object.reason !== 'IPVSDeprecation')
    assert.deepEqual(
      writes.slice(0, -1).map(normalised),
      wanted.map((request) => JSON.stringify(request)),
    )
  })

  it('retries while the server is down or fails', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const { server, events, writes, failures } = await open(t)
    server.inject({ verb: 'create', action: { kind: 'status', status: 500 } })
    server.inject({ verb: 'create', action: { kind: 'reset' } })
    server.inject({ verb: 'create', action: { kind: 'hang' } })
    server.inject({ verb: 'create', action: { kind: 'status', status: 429, headers: { 'retry-after': '0' } } })
    events.record(STARTING)
    await until('a write', () => {
      t.mock.timers.tick(100)
      return writes.length === 1
    })
    assert.deepEqual(kinds(writes), ['create 201'])
    assert.equal(failures().length, 4)
  })

  it('waits five minutes at most, however long the server asks for', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const { server, events, writes, retries } = await open(t)
    server.inject({ verb: 'create', action: { kind: 'status', status: 429, headers: { 'retry-after': '999999999' } } })
    events.record(STARTING)
    await until('a failure', () => {
      t.mock.timers.tick(1)
      return retries().length === 1
    })
    assert.deepEqual(retries(), [300_000])
    await until('a write', () => {
      t.mock.timers.tick(10_000)
      return writes.length === 1
    })
  })

  it('drops an Event that the server refuses, and any Event after twelve attempts', async (t) => {
    t.mock.method(Math, 'random', () => 0)
    const { server, events, writes, failures, retries } = await open(t)
    server.inject({ verb: 'create', action: { kind: 'status', status: 403 } })
    events.record(STARTING)
    await until('refused', () => failures().length === 1)
    server.inject({ verb: 'create', times: 12, action: { kind: 'status', status: 503 } })
    events.record(FAILED)
    await until('given up', () => failures().length === 13)
    assert.deepEqual(retries(), [undefined, ...Array.from({ length: 11 }, () => 10), undefined])
    assert.equal(server.requests.length, 13)
    assert.equal(writes.length, 0)
    // The second occurrence is sent again.
    events.record(FAILED)
    await until('written', () => writes.length === 2)
    assert.deepEqual(kinds(writes), ['patch 404', 'create 201'])
    assert.equal(server.requests.length, 15)
    assert.match(JSON.stringify(writes.at(1)?.object), /"eventTime":"[^"]+","series":\{"count":2,/)
  })

  it('warns once when the server refuses Events for lack of a right', async (t) => {
    const { server, events, arrived, log } = await open(t)
    const warnings = () => log.lines.filter(({ message }) => /refuses Events/.test(message))
    server.authorizer.rules = []
    for (const name of ['node0', 'node1', 'node2']) events.record(proxyStarting(name))
    await until('refusals', () => server.authorizer.refused.length === 3)
    server.authorizer.rules = undefined
    events.record(LAST)
    await arrived(1)
    assert.equal(warnings().length, 1)
    assert.match(
      String(warnings()[0]?.fields['reason']),
      /^403 Forbidden: events\.events\.k8s\.io is forbidden: User .* cannot create/,
    )
  })

  it('recognises its own Event when the answer was lost', async (t) => {
    const { server, events, writes, arrived, failures } = await open(t)
    server.inject({ verb: 'create', times: 2, action: { kind: 'cut', afterBytes: 0 } })
    events.record(STARTING)
    events.record(FAILED)
    events.record(FAILED)
    await arrived(5)
    events.record(LAST)
    await arrived(6)
    const about = (reason: string): string[] =>
      kinds(writes.slice(0, -1).filter(({ object }) => JSON.stringify(object).includes(reason)))
    assert.deepEqual(about('"Starting"'), ['create 201', 'create 409'])
    assert.deepEqual(about('"FailedToStart'), ['create 201', 'create 409'])
    assert.deepEqual(about('{"series"'), ['patch 200'])
    // Two lost answers, and one conflict with an outdated count.
    assert.equal(failures().length, 3)
  })

  it('gets new credentials when the server refuses them', async (t) => {
    const { events, credentials, writes, arrived } = await open(t, {}, { tokens: new Set(['good']) })
    credentials.token = 'old'
    events.record(STARTING)
    await arrived(1)
    assert.deepEqual([credentials.renewals, kinds(writes)], [1, ['create 201']])
  })

  it('keeps the rate limit of the configuration', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const { events, writes } = await open(t, { qps: 0.001, burst: 3 })
    for (let index = 0; index < 5; index++) events.record(proxyStarting(`node${index}`))
    await until('burst', () => {
      t.mock.timers.tick(1)
      return writes.length === 3
    })
    // The rate limit allows the fourth 1,000 s after the first. The turns let the last answer arrive.
    for (let turns = 0; turns < 10; turns++) await turn()
    t.mock.timers.tick(900_000)
    for (let turns = 0; turns < 10; turns++) await turn()
    assert.equal(writes.length, 3)
    await until('the fourth', () => {
      t.mock.timers.tick(100_000)
      return writes.length === 4
    })
  })

  it('sends Events about the node first, and few about Services, however many there are', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const { events, writes } = await open(t, { qps: -1, serviceIntervalMs: 1_000_000 })
    for (let index = 0; index < 500; index++)
      events.record(healthCheckFailed({ namespace: 'demo', name: `web${index}` }, NOTE))
    events.record(STARTING)
    const settle = async (): Promise<void> => {
      for (let turns = 0; turns < 200; turns++) {
        t.mock.timers.tick(1)
        await turn()
      }
    }
    await until('a write', async () => {
      await settle()
      return writes.length >= 11
    })
    await settle()
    const reasons = (): string[] => writes.map(({ object }) => (object as { reason: string }).reason) // as it was sent
    assert.deepEqual([reasons()[0], reasons().filter((reason) => reason !== 'Starting').length], ['Starting', 10])
    // Those that wait do not keep this one back.
    events.record(proxyStarting('node1'))
    await until('the other one', async () => {
      await settle()
      return writes.length === 12
    })
    assert.equal(reasons().at(-1), 'Starting')
  })

  it('stops at once, even with a request in progress', async (t) => {
    const { server, events, writes } = await open(t)
    server.inject({ verb: 'create', action: { kind: 'hang' } })
    events.record(STARTING)
    await until('a request', () => server.requests.length === 1)
    await events.close()
    t.mock.timers.enable({ apis: ['setTimeout'] })
    events.record(FAILED)
    t.mock.timers.tick(60_000)
    await turn()
    assert.deepEqual([server.requests.length, writes.length], [1, 0])
  })
})

describe('loggedEvents', () => {
  it('logs an Event at verbosity 2', () => {
    const log = recordingLog(2)
    loggedEvents(log).record(FAILED)
    const { message, fields } = log.lines[0] ?? {}
    assert.deepEqual([message, fields?.['object'], fields?.['note']], ['Event occurred', 'demo/lb-without-local', NOTE])
  })
})
