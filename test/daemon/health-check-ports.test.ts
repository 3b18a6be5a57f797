/**
 * A health check port that another program has, over real sockets and HTTP on loopback. The kernel picks the ports, and the test
 * frees them before it uses them.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { it, type TestContext } from 'node:test'
import { ApiServer } from '../../dev/api-server/server.ts'
import { HealthCheckPorts } from '../../src/daemon/health-check-ports.ts'
import { EventRecorder } from '../../src/events/event-recorder.ts'
import { ProblemLog } from '../../src/serve/problem-log.ts'
import { ApiClient } from '../../src/watch/api/api-client.ts'
import { until } from '../support/deadline.ts'
import { frontendOf } from '../support/frontends.ts'
import { service } from '../support/objects.ts'
import { recordingLog } from '../support/recording-log.ts'

async function listen(t: TestContext): Promise<{ readonly server: Server; readonly port: number }> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  return { server, port: (server.address() as AddressInfo).port } // it listens on TCP
}

it('HealthCheckPorts records an Event for a taken port, retries it, and serves the others', async (t) => {
  const server = new ApiServer()
  const url = await server.listen()
  const access = { access: async () => ({ server: url, headers: {}, tls: {} }), invalidate: () => undefined }
  const client = new ApiClient({ access, userAgent: 'test', contentType: 'application/json' })
  const log = recordingLog(2)
  const problems = new ProblemLog(log)
  const events = new EventRecorder({ client, hostName: 's0', log })
  const ports = new HealthCheckPorts({
    families: ['IPv4'],
    nodeName: 'node0',
    nodePortAddresses: () => ['127.0.0.0/8'],
    isProxyHealthy: () => true,
    problems,
    events,
    log,
  })
  t.after(async () => {
    ports.close()
    await events.close()
    await server.close()
  })
  const taken = await listen(t)
  const free = await listen(t)
  free.server.close()
  for (const [name, port, address] of [
    ['web', taken.port, '10.96.0.1'],
    ['other', free.port, '10.96.0.2'],
  ] as const) {
    const frontend = frontendOf({
      address,
      servicePort: { localReadyEndpoints: 1 },
      service: service({ name, healthCheckNodePort: port }),
    })
    ports.frontend(frontend.key, frontend)
  }
  ports.nodeChanged([{ interfaceName: 'lo', address: '127.0.0.1' }], { IPv4: '127.0.0.1' })
  ports.passed()
  const status = async (port: number): Promise<number> =>
    (await fetch(`http://127.0.0.1:${port}/`, { headers: { connection: 'close' } })).status

  const linesOf = (message: string): readonly unknown[] =>
    log.lines.filter((line) => line.message === message).map(({ fields }) => fields['reason'])

  const { writes } = server.events
  // The first attempt, and the second half a second later.
  await until('two writes', () => writes.length >= 2)
  const note = `node node0 failed to start healthcheck "demo/web" on port ${taken.port}: listen tcp4 127.0.0.1:${taken.port}: bind: address already in use`
  const [first, second] = writes.map(({ request, object }) => ({ request, object: JSON.stringify(object) }))
  assert.equal(first?.request, 'create')
  assert.ok(first?.object.includes(`"reason":"FailedToStartServiceHealthcheck"`))
  assert.ok(first?.object.includes(`"regarding":{"kind":"Service","namespace":"demo","name":"web","apiVersion":"v1"}`))
  assert.ok(first?.object.includes(`"note":${JSON.stringify(note)},"type":"Warning"`))
  assert.equal(second?.request, 'patch')
  assert.match(second?.object ?? '', /^\{"series":\{"count":2,"lastObservedTime":"[^"]+"\}\}$/)
  assert.equal(await status(free.port), 200)
  assert.deepEqual(linesOf('Problem with an object'), [note])

  taken.server.close()
  await until('the port is open', () => linesOf('Problems with an object resolved').length === 1)
  assert.equal(await status(taken.port), 200)
  assert.equal(writes.length, 2)
})
