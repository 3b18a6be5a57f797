/** How the part `api-load` measures a kube-apiserver: its audit log, and the relay before it. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { it } from 'node:test'
import { AuditLog, auditPolicy } from '../../dev/evidence/api-load/audit-log.ts'
import { Relay } from '../../dev/evidence/api-load/relay.ts'

const ORIGIN_MS = Date.parse('2026-11-27T02:00:00Z')
const event = (auditID: string, stage: string, verb: string, requestURI: string): string =>
  `${JSON.stringify({
    auditID,
    stage,
    verb,
    requestURI,
    requestReceivedTimestamp: '2026-11-27T02:00:01.500000Z',
    objectRef: { resource: 'services' },
  })}\n`
const WATCH = '/api/v1/services?watch=true&sendInitialEvents=true'

it('AuditLog counts a request when it arrives, and a watch from its first answer to its end', () => {
  const log = new AuditLog(ORIGIN_MS)
  log.read(event('a', 'RequestReceived', 'watch', WATCH) + event('b', 'RequestReceived', 'list', '/api/v1/services'))
  assert.equal(log.watchCount, 0)
  log.read(event('a', 'ResponseStarted', 'watch', WATCH) + event('b', 'ResponseComplete', 'list', '/api/v1/services'))
  assert.equal(log.watchCount, 1)
  assert.deepEqual(
    log.requests.map(({ kind, verb, query, atMs }) => [kind, verb, query.get('sendInitialEvents'), atMs]),
    [
      ['services', 'watch', 'true', 1500],
      ['services', 'list', null, 1500],
    ],
  )
  log.read(event('a', 'ResponseComplete', 'watch', WATCH))
  assert.equal(log.watchCount, 0)
})

it('AuditLog waits for the rest of a line, and forgets the watches of a server that was killed', () => {
  const log = new AuditLog(ORIGIN_MS)
  const line = event('a', 'ResponseStarted', 'watch', WATCH)
  log.read(line.slice(0, 40))
  assert.equal(log.watchCount, 0)
  log.read(line.slice(40))
  assert.equal(log.watchCount, 1)
  log.endWatches()
  assert.equal(log.watchCount, 0)
})

it('auditPolicy logs only lists and watches of one user', () => {
  const { rules } = auditPolicy('kube-proxy') as { rules: readonly object[] }
  assert.deepEqual(
    rules.map((rule) => [Reflect.get(rule, 'level'), Reflect.get(rule, 'users'), Reflect.get(rule, 'verbs')]),
    [
      ['Metadata', ['kube-proxy'], ['list', 'watch']],
      ['None', undefined, undefined],
    ],
  )
})

it('Relay passes both directions on, counts one, and is an outage while it is closed', async (t) => {
  const answering = (socket: Socket): unknown =>
    socket.on('error', () => undefined).on('data', (chunk) => socket.write(`${chunk}!`))
  const server = createServer(answering)
  t.after(() => server.close())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const relay = new Relay((server.address() as AddressInfo).port) // it listens on TCP
  const port = await relay.open()
  t.after(() => relay.close())
  const client = connect(port, '127.0.0.1')
  t.after(() => client.destroy())
  client.write('hello')
  const [answer] = await once(client, 'data')
  assert.equal(String(answer), 'hello!')
  assert.deepEqual([relay.bytes, relay.connections], [6, 1])
  relay.reset()
  const [error] = await once(client, 'error')
  assert.equal(Reflect.get(error, 'code'), 'ECONNRESET')
  await relay.close()
  const [refused] = await once(connect(port, '127.0.0.1'), 'error')
  assert.equal(Reflect.get(refused, 'code'), 'ECONNREFUSED')
  assert.equal(await relay.open(), port)
})
