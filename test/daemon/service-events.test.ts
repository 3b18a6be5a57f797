/** Events about Services from many nodes at once, at one API server. */
import assert from 'node:assert/strict'
import { it, type TestContext } from 'node:test'
import { ApiServer } from '../../dev/api-server/server.ts'
import { ServiceEvents } from '../../src/daemon/service-events.ts'
import { problemOfService, type Occurrence, proxyStarting } from '../../src/events/event-objects.ts'
import { EventRecorder } from '../../src/events/event-recorder.ts'
import { REPORTERS } from '../../src/events/reporters.ts'
import { ApiClient } from '../../src/watch/api/api-client.ts'
import { until } from '../support/deadline.ts'
import { recordingLog } from '../support/recording-log.ts'

const NODES = Array.from({ length: 60 }, (_, index) => `node${index}`)

function wrong(name: string): Occurrence {
  const occurrence = problemOfService({
    code: 'invalid-annotation',
    about: 'object',
    subject: `service demo/${name}`,
    field: 'metadata.annotations[kube-ipvs.io/scheduler]',
    message: '"bad" is not allowed',
  })
  assert.ok(occurrence)
  return occurrence
}

/** As many daemons as there are nodes; each has the endpoints in another order, and many on one node. */
async function cluster(t: TestContext) {
  const server = new ApiServer()
  const url = await server.listen()
  const access = { access: async () => ({ server: url, headers: {}, tls: {} }), invalidate: () => undefined }
  const daemons = NODES.map((nodeName, index) => {
    const client = new ApiClient({ access, userAgent: 'test', contentType: 'application/json' })
    const recorder = new EventRecorder({ client, hostName: nodeName, log: recordingLog() })
    const order = [...NODES.slice(index), ...NODES.slice(0, index), ...NODES]
    const events = new ServiceEvents({
      nodeName,
      isShared: true,
      events: recorder,
      endpointNodes: () => order,
      now: () => performance.now(),
      waitMs: 1,
    })
    return { recorder, events }
  })
  t.after(async () => {
    for (const { recorder, events } of daemons) {
      events.close()
      await recorder.close()
    }
    await server.close()
  })
  return { server, daemons }
}

it('one wrong annotation is a handful of Events, however many nodes see it', async (t) => {
  const { server, daemons } = await cluster(t)
  for (const { events } of daemons) for (const name of ['a', 'b']) events.record(wrong(name))
  for (const { recorder } of daemons) recorder.record(proxyStarting('node'))
  await until('every node has sent', () => server.events.writes.length >= NODES.length + 2 * REPORTERS)
  const about = server.events.writes.map(({ object }) => (object as { regarding: { name: string } }).regarding.name)
  const count = (name: string): number => about.filter((one) => one === name).length
  assert.deepEqual([count('a'), count('b'), count('node')], [REPORTERS, REPORTERS, NODES.length])
})

function alone(options: { readonly isShared?: boolean; readonly endpointNodes?: () => Iterable<string> } = {}) {
  const recorded: string[] = []
  let found = 0
  const { isShared = true, endpointNodes = () => ['node0'] } = options
  const events = new ServiceEvents({
    nodeName: 'node0',
    isShared,
    events: { record: ({ regarding }) => recorded.push(regarding.name), close: async () => undefined },
    endpointNodes: () => {
      found++
      return endpointNodes()
    },
    now: () => performance.now(),
    waitMs: 5,
  })
  return { events, recorded, found: () => found }
}

it('the nodes of endpoints are looked for once for many Events, and not before there is one', async () => {
  const { events, recorded, found } = alone()
  assert.equal(found(), 0)
  for (let index = 0; index < 2000; index++) events.record(wrong(`s${index}`))
  await until('the Events', () => recorded.length > 0)
  events.record(wrong('late'))
  await until('another Event', () => recorded.at(-1) === 'late')
  // No more wait than a recorder keeps.
  assert.deepEqual([recorded.length, found()], [1001, 1])
})

it('the event loop turns while the nodes of a hundred thousand endpoints are found', async () => {
  const { events, recorded } = alone({
    *endpointNodes() {
      for (let index = 0; index < 100_000; index++) {
        // As slow as on a slow machine.
        if (index % 1000 === 0) for (const endMs = performance.now() + 1; performance.now() < endMs; );
        yield 'node0'
      }
    },
  })
  events.record(wrong('a'))
  let turns = 0
  while (recorded.length === 0) {
    turns++
    await new Promise((resolve) => setImmediate(resolve))
  }
  assert.ok(turns > 5, String(turns))
})

it('nothing is sent after the proxy has stopped, and without an API server everything is recorded at once', async () => {
  const stopped = alone()
  stopped.events.record(wrong('a'))
  stopped.events.close()
  stopped.events.record(wrong('b'))
  await new Promise((resolve) => setTimeout(resolve, 50))
  assert.deepEqual(stopped.recorded, [])
  const only = alone({ isShared: false, endpointNodes: () => [] })
  only.events.record(wrong('a'))
  assert.deepEqual(only.recorded, ['a'])
})
