/**
 * A health check port that another program has, over real sockets and HTTP on loopback. The kernel
 * picks the ports, and the test frees them before it uses them.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import { it, type TestContext } from 'node:test'
import { ApiServer } from '../../dev/api-server/server.ts'
import { HealthCheckPorts } from '../../src/daemon/health-check-ports.ts'
import { EventRecorder } from '../../src/events/event-recorder.ts'
import { ProblemLog } from '../../src/serve/problem-log.ts'
import { rulesOf, TABLES } from '../../src/sync/part.ts'
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
    isPending: () => false,
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
  ports.passed(TABLES)
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

it('HealthCheckPorts of the next proxy take over the open ports, their connections and problems, after its first pass', async (t) => {
  const kept = await listen(t)
  const dropped = await listen(t)
  const taken = await listen(t)
  const late = await listen(t)
  for (const { server } of [kept, dropped, late]) server.close()
  const log = recordingLog(2)
  const made = () => {
    const problems = new ProblemLog(recordingLog())
    const ports = new HealthCheckPorts({
      families: ['IPv4'],
      nodeName: 'node0',
      nodePortAddresses: () => ['127.0.0.0/8'],
      isProxyHealthy: () => true,
      isPending: () => false,
      problems,
      log,
    })
    t.after(() => ports.close())
    const want = (name: string, port: number, localReadyEndpoints: number): void => {
      const address = `10.96.0.${name.length}`
      const frontend = frontendOf({
        address,
        servicePort: { localReadyEndpoints },
        service: service({ name, healthCheckNodePort: port }),
      })
      ports.frontend(frontend.key, frontend)
    }
    return { ports, problems, want }
  }
  const status = async (port: number): Promise<number | string> => {
    const answer = await fetch(`http://127.0.0.1:${port}/`, { headers: { connection: 'close' } }).catch(() => undefined)
    return answer === undefined ? 'closed' : answer.status
  }
  const before = made()
  before.want('a', kept.port, 1)
  before.want('bb', dropped.port, 1)
  before.want('ccc', taken.port, 1)
  before.ports.nodeChanged([{ interfaceName: 'lo', address: '127.0.0.1' }], { IPv4: '127.0.0.1' })
  before.ports.passed(TABLES)
  await until(
    'the ports are open',
    async () => (await status(kept.port)) === 200 && (await status(dropped.port)) === 200,
  )
  await until('a problem', () => before.problems.count === 1)
  const old = connect(kept.port, '127.0.0.1')
  t.after(() => old.destroy())
  await once(old, 'connect')

  const checks = before.ports.release()
  before.ports.close()
  const next = made()
  next.ports.adopt(checks)
  // The addresses of the node are not known at first, and rules may be written before the objects are known.
  next.ports.nodeChanged([], {})
  next.ports.passed(rulesOf('IPv4'))
  assert.deepEqual([await status(kept.port), await status(dropped.port)], [200, 200])
  next.want('a', kept.port, 0)
  next.want('ccc', taken.port, 1)
  next.want('dddd', late.port, 1)
  assert.equal(await status(kept.port), 200)
  next.ports.passed(TABLES)
  assert.deepEqual([await status(kept.port), await status(dropped.port)], [503, 'closed'])
  next.ports.nodeChanged([{ interfaceName: 'lo', address: '127.0.0.1' }], { IPv4: '127.0.0.1' })
  assert.equal(await status(kept.port), 503)
  await until('the new port is open', async () => (await status(late.port)) === 200)
  assert.equal(next.problems.count, 1)
  old.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  const [answer] = (await once(old, 'data')) as [Buffer]
  assert.match(answer.toString(), /^HTTP\/1.1 503 /)
  taken.server.close()
  await until('the taken port is open', async () => (await status(taken.port)) === 200)
  assert.equal(next.problems.count, 0)
})

it('HealthCheckPorts answer with more endpoints only when their rules are written, and with fewer at once', async (t) => {
  const place = await listen(t)
  place.server.close()
  let [isPending, nowMs] = [true, 0]
  const ports = new HealthCheckPorts({
    families: ['IPv4'],
    nodeName: 'node0',
    nodePortAddresses: () => ['127.0.0.0/8'],
    isProxyHealthy: () => true,
    isPending: () => isPending,
    now: () => nowMs,
    problems: new ProblemLog(recordingLog()),
    log: recordingLog(),
  })
  t.after(() => ports.close())
  const want = (localReadyEndpoints: number): void => {
    const frontend = frontendOf({
      address: '10.96.0.1',
      servicePort: { localReadyEndpoints },
      service: service({ name: 'web', healthCheckNodePort: place.port }),
    })
    ports.frontend(frontend.key, frontend)
  }
  const answer = async (): Promise<string> => {
    const response = await fetch(`http://127.0.0.1:${place.port}/`, { headers: { connection: 'close' } }).catch(
      () => undefined,
    )
    return response === undefined
      ? 'closed'
      : `${response.status} ${/"localEndpoints": ?(\d+)/.exec(await response.text())?.[1]}`
  }
  ports.nodeChanged([{ interfaceName: 'lo', address: '127.0.0.1' }], { IPv4: '127.0.0.1' })
  want(1)
  ports.passed(TABLES)
  assert.equal(await answer(), 'closed')
  isPending = false
  ports.passed(rulesOf('IPv4'))
  await until('the port', async () => (await answer()) === '200 1')

  isPending = true
  want(3)
  ports.passed(TABLES)
  assert.equal(await answer(), '200 1')
  want(0)
  ports.passed(TABLES)
  assert.equal(await answer(), '503 0')

  // Rules that are refused for ever hold the port up for a while only.
  want(2)
  ports.passed(TABLES)
  nowMs = 14_999
  ports.passed(rulesOf('IPv4'))
  assert.equal(await answer(), '503 0')
  nowMs = 15_000
  ports.passed(rulesOf('IPv4'))
  assert.equal(await answer(), '200 2')
})

it('HealthCheckPorts report a Service whose port an older Service has, until it gets the port', (t) => {
  const problems = new ProblemLog(recordingLog())
  const noted: unknown[] = []
  const ports = new HealthCheckPorts({
    families: ['IPv4'],
    nodeName: 'node0',
    nodePortAddresses: () => [],
    isProxyHealthy: () => true,
    isPending: () => false,
    problems,
    events: { record: ({ regarding, note }) => void noted.push([regarding.name, note]), close: async () => {} },
    log: recordingLog(),
  })
  t.after(() => ports.close())
  const frontend = (name: string, createdAtMs: number, healthCheckNodePort: number) =>
    frontendOf({
      address: `10.96.0.${createdAtMs}`,
      servicePort: { localReadyEndpoints: 1 },
      service: service({ name, createdAtMs, healthCheckNodePort }),
    })
  const [older, younger] = [frontend('older', 1, 32001), frontend('younger', 2, 32001)]
  ports.frontend(older.key, older)
  ports.frontend(younger.key, younger)
  ports.passed(TABLES)
  const message =
    'node node0 failed to start healthcheck "demo/younger" on port 32001: service demo/older has it for IPv4'
  assert.deepEqual(
    Array.from(problems.current(), (problem) => [problem.subject, problem.field, problem.message]),
    [['service demo/younger', 'spec.healthCheckNodePort', message]],
  )
  assert.deepEqual(noted, [['younger', message]])

  const moved = frontend('older', 1, 32002)
  ports.frontend(moved.key, moved)
  ports.passed(TABLES)
  assert.equal(problems.count, 0)
})
