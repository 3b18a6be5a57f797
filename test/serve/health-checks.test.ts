/**
 * Health check ports over TCP on the loopback device: exact answers, opening and closing ports,
 * ports that another program occupies. Each test has its own ports.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import type { Server } from 'node:net'
import { afterEach, describe, it } from 'node:test'
import { HealthChecks } from '../../src/serve/health-checks.ts'
import type { HealthCheck } from '../../src/serve/wanted-health-checks.ts'
import type { Problem } from '../../src/values/errors.ts'
import type { IpFamily } from '../../src/values/protocol.ts'
import { until } from '../support/deadline.ts'
import { recordingLog } from '../support/recording-log.ts'
import { recordingPath } from '../support/recordings.ts'
import { ask, freePort, isWhole, listen as listenOn, listens, TcpClient } from '../support/tcp-client.ts'

const closers: (() => void)[] = []
afterEach(() => {
  for (const close of closers.splice(0)) close()
})

function newChecks(addresses: Partial<Record<IpFamily, readonly string[]>> = {}) {
  const proxy = { isHealthy: true }
  const problems = new Map<string, Problem>()
  const log = recordingLog(2)
  const checks = new HealthChecks({
    nodeName: 'node0',
    isProxyHealthy: () => proxy.isHealthy,
    onProblem: (socket, problem) => {
      if (problem === undefined) problems.delete(socket)
      else problems.set(socket, problem)
    },
    log,
  })
  closers.push(() => checks.close())
  checks.listenOn({ IPv4: ['127.0.0.1'], IPv6: ['::1'], ...addresses })
  const want = (check: HealthCheck): void => checks.update([{ key: `${check.family} ${check.port}`, check }])
  const unwant = ({ family, port }: HealthCheck): void =>
    checks.update([{ key: `${family} ${port}`, check: undefined }])
  return { checks, proxy, problems, log, want, unwant }
}

async function listen(port: number, host: string): Promise<Server> {
  const server = await listenOn(port, host)
  closers.push(() => server.close())
  return server
}

const check = (port: number, more: Partial<HealthCheck> = {}): HealthCheck => ({
  family: 'IPv4',
  port,
  namespace: 'demo',
  name: 'web',
  localEndpoints: 2,
  ...more,
})

const GET = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'

describe('HealthChecks', () => {
  it('answers byte for byte like kube-proxy', async () => {
    const { proxy, want } = newChecks()
    const port = await freePort()
    want(check(port))
    await until('an open port', () => listens(port))
    const body =
      '{\n\t"service": {\n\t\t"namespace": "demo",\n\t\t"name": "web"\n\t},\n\t"localEndpoints": 2,\n\t"serviceProxyHealthy": true\n}'
    const head = (status: string, weight: number, length: number): string =>
      [
        `HTTP/1.1 ${status}`,
        'Content-Type: application/json',
        'X-Content-Type-Options: nosniff',
        `X-Load-Balancing-Endpoint-Weight: ${weight}`,
        'Date: DATE',
        `Content-Length: ${length}`,
        '\r\n',
      ].join('\r\n')
    const undated = (text: string): string =>
      text.replace(/^Date: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT\r$/m, 'Date: DATE\r')
    assert.equal(undated(await ask(port, GET)), head('200 OK', 2, 111) + body)
    for (const request of [
      'HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n',
      'HEAD / HTTP/1.1\r\nHost: x\r\nUpgrade: y\r\nConnection: upgrade\r\n\r\n',
    ])
      assert.equal(undated(await ask(port, request)), head('200 OK', 2, 111), request)
    for (const request of [
      'POST //any/path?x=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc',
      'DELETE * HTTP/1.1\r\nHost: x\r\n\r\n',
    ])
      assert.equal(undated(await ask(port, request)), head('200 OK', 2, 111) + body, request)
    want(check(port, { localEndpoints: 0 }))
    const none = body.replace('2,', '0,')
    assert.equal(undated(await ask(port, GET)), head('503 Service Unavailable', 0, 111) + none)
    want(check(port))
    proxy.isHealthy = false
    const unhealthy = body.replace('true', 'false')
    assert.equal(undated(await ask(port, GET)), head('503 Service Unavailable', 2, 112) + unhealthy)
  })

  it('gives the recorded answers', async () => {
    const { want } = newChecks()
    const port = await freePort()
    want(check(port))
    await until('an open port', () => listens(port))
    const recorded: readonly RecordedAnswer[] = JSON.parse(
      readFileSync(recordingPath('surfaces/http/health-check-node-port.json'), 'utf8'),
    )
    let answers = 0
    for (const { name, request, status, reason, headers, body } of recorded) {
      if (status === undefined || headers === undefined || body === undefined) continue
      const service = /"name": "([^"]+)"/.exec(body)?.[1] ?? NAME_AT[request.host.slice(-5)] ?? ''
      const localEndpoints = Number(new Map(headers).get('X-Load-Balancing-Endpoint-Weight'))
      want(check(port, { name: service, localEndpoints }))
      const sent = await ask(port, `${request.method} ${request.path} HTTP/1.1\r\nHost: x\r\n\r\n`)
      const lines = [`HTTP/1.1 ${status} ${reason}`, ...headers.map((header) => header.join(': ')), '', body]
      assert.equal(sent.replace(/^Date: .*GMT/m, 'Date: <date>'), lines.join('\r\n'), name)
      answers++
    }
    assert.equal(answers, 30)
  })

  it('keeps a connection open, closes it on request, and accepts HTTP/1.0', async () => {
    const { want } = newChecks()
    const port = await freePort()
    want(check(port))
    await until('an open port', () => listens(port))
    const client = await TcpClient.open(port)
    for (const count of [1, 2, 3]) {
      client.socket.write(GET)
      await until(`answer ${count}`, () => client.text.split('HTTP/1.1 200 OK').length === count + 1)
    }
    client.socket.write('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    await client.closed
    assert.equal(client.text.match(/^Connection: .*$/gm)?.join(), 'Connection: close')
    const old = await TcpClient.open(port)
    old.socket.write('GET / HTTP/1.0\r\n\r\n')
    await old.closed
    assert.match(old.text, /^HTTP\/1\.1 200 OK\r\n/)
  })

  it('refuses invalid requests and keeps serving', async () => {
    const { want } = newChecks()
    const port = await freePort()
    want(check(port))
    await until('an open port', () => listens(port))
    for (const [request, status] of [
      ['hello\r\n\r\n', 400],
      ['GET / HTTP/1.1\r\n\r\n', 400],
      [`GET / HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
    ] as const) {
      const client = await TcpClient.open(port)
      client.socket.write(request)
      await client.closed
      assert.match(client.text, new RegExp(`^HTTP/1.1 ${status} `), request.slice(0, 40))
    }
    assert.match(await ask(port, GET), /^HTTP\/1.1 200 /)
  })

  it('opens a port with the Service and closes it with its connections', async () => {
    const { want, unwant, log } = newChecks()
    const port = await freePort()
    want(check(port))
    await until('an open port', () => listens(port))
    const idle = await TcpClient.open(port)
    idle.socket.write(GET)
    await until('a whole answer', () => isWhole(idle.text, false))
    const silent = await TcpClient.open(port)
    unwant(check(port))
    await Promise.all([idle.closed, silent.closed])
    assert.equal(await listens(port), false)
    want(check(port))
    await until('an open port', () => listens(port))
    const fields = { service: 'demo/web', port, ipFamily: 'IPv4' }
    assert.deepEqual(
      log.lines.map(({ message, fields: { service, ...rest } }) => [message, { service: String(service), ...rest }]),
      [
        ['Opening healthcheck', fields],
        ['Closing healthcheck', fields],
        ['Opening healthcheck', fields],
      ],
    )
  })

  it('does not open a port that is removed at the same moment', async () => {
    const { want, unwant } = newChecks()
    const [port, later] = [await freePort(), await freePort()]
    want(check(port))
    unwant(check(port))
    want(check(later))
    // Ports are opened in the order in which they are wanted.
    await until('the later port', () => listens(later))
    assert.equal(await listens(port), false)
  })

  it('listens on each address and counts endpoints by IP family', async () => {
    const { want, checks } = newChecks({ IPv4: ['0.0.0.0'], IPv6: ['::'] })
    const port = await freePort('0.0.0.0')
    want(check(port))
    want(check(port, { family: 'IPv6', localEndpoints: 0 }))
    await until('a port in each family', async () => (await listens(port)) && (await listens(port, '::1')))
    assert.match(await ask(port, GET), /^HTTP\/1.1 200 /)
    assert.match(await ask(port, GET, '::1'), /^HTTP\/1.1 503 /)
    checks.listenOn({ IPv4: ['127.0.0.2', '127.0.0.3'], IPv6: ['::'] })
    await until(
      'a port at each address',
      async () => (await listens(port, '127.0.0.2')) && (await listens(port, '127.0.0.3')),
    )
    assert.equal(await listens(port), false)
    assert.match(await ask(port, GET, '::1'), /^HTTP\/1.1 503 /)
    checks.listenOn({ IPv4: ['0.0.0.0'], IPv6: ['::1'] })
    await until('a port in each family', async () => (await listens(port)) && (await listens(port, '::1')))
  })

  it('reports a port that another program occupies, retries it, and serves the others', async () => {
    const { want, unwant, problems } = newChecks()
    const [port, other] = [await freePort(), await freePort()]
    const squatter = await listen(port, '127.0.0.1')
    want(check(port, { name: 'late' }))
    want(check(other))
    await until('the other port', () => listens(other))
    await until('a problem', () => problems.size > 0)
    const socket = `127.0.0.1:${port}`
    assert.deepEqual(
      [...problems],
      [
        [
          socket,
          {
            code: 'health-check-port',
            about: 'object',
            subject: 'service demo/late',
            field: 'spec.healthCheckNodePort',
            message: `node node0 failed to start healthcheck "demo/late" on port ${port}: listen tcp4 ${socket}: bind: address already in use`,
          },
        ],
      ],
    )
    squatter.close()
    await until(
      'the port once it is free',
      async () => problems.size === 0 && (await ask(port, GET)).includes('"late"'),
    )
    assert.match(await ask(other, GET), /"web"/)
    unwant(check(port))
    assert.equal(await listens(port), false)
  })

  it('names the Service that has a taken port now, not the one before', async () => {
    const { want, problems } = newChecks()
    const port = await freePort()
    const squatter = await listen(port, '127.0.0.1')
    want(check(port, { name: 'first' }))
    await until('a problem', () => problems.size > 0)
    want(check(port, { name: 'second' }))
    await until('the other name', () => [...problems.values()].some(({ subject }) => subject === 'service demo/second'))
    squatter.close()
    await until('the port once it is free', () => problems.size === 0)
  })

  it('stops retrying a port that is not wanted any more', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const { want, unwant, problems } = newChecks()
    const [port, later] = [await freePort(), await freePort()]
    const squatter = await listen(port, '127.0.0.1')
    want(check(port))
    await until('a problem', () => problems.size > 0)
    unwant(check(port))
    assert.equal(problems.size, 0)
    await new Promise((resolve) => squatter.close(resolve))
    t.mock.timers.tick(60_000)
    want(check(later))
    await until('the later port', () => listens(later))
    assert.equal(await listens(port), false)
  })

  it('closes the oldest idle connection when there are too many', async () => {
    const { want } = newChecks()
    const port = await freePort()
    want(check(port))
    await until('an open port', () => listens(port))
    const idle = await Promise.all(Array.from({ length: 64 }, () => TcpClient.open(port)))
    for (const client of idle) client.socket.write(GET)
    await until('an answer to each', () => idle.every((client) => isWhole(client.text, false)))
    assert.match(await ask(port, GET), /^HTTP\/1.1 200 /)
    await idle[0]?.closed
    idle[1]?.socket.write(GET)
    await until('an answer to the second', () => idle[1]?.text.split('HTTP/1.1 200').length === 3)
  })
})

interface RecordedAnswer {
  readonly name: string
  readonly request: { readonly method: string; readonly path: string; readonly host: string }
  readonly status?: number
  readonly reason?: string
  readonly headers?: readonly (readonly [string, string])[]
  readonly body?: string
}

/** Services of the recording by health check port, for answers without a body. */
const NAME_AT: Readonly<Record<string, string>> = { 30900: 'lb-with-local', 30901: 'lb-without-local' }
