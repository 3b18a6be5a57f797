import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { test } from 'node:test'
import { HttpConnections } from '../../src/serve/http-connections.ts'

class FakeSocket extends EventEmitter {
  readonly remoteAddress: string | undefined
  destroyed = false

  constructor(remoteAddress: string | undefined) {
    super()
    this.remoteAddress = remoteAddress
  }

  destroy(): this {
    this.destroyed = true
    // A socket also emits `close` later.
    setImmediate(() => this.emit('close'))
    return this
  }
}

const LIMITS = { connections: 8, pipelined: 4 }

function opened(connections: HttpConnections<FakeSocket>, address: string | undefined, count: number): FakeSocket[] {
  return Array.from({ length: count }, () => {
    const socket = new FakeSocket(address)
    connections.add(socket)
    return socket
  })
}

const alive = (sockets: readonly FakeSocket[]): number => sockets.filter(({ destroyed }) => !destroyed).length

test('HttpConnections keeps the connection of a probe while one client floods the port', () => {
  const connections = new HttpConnections<FakeSocket>(LIMITS)
  const [probe] = opened(connections, '10.0.0.1', 1)
  const flood = opened(connections, '10.0.0.2', 1000)
  const [late] = opened(connections, '10.0.0.3', 1)
  const more = opened(connections, '10.0.0.2', 1000)
  assert.deepEqual([probe?.destroyed, late?.destroyed], [false, false])
  assert.equal(alive(flood) + alive(more), 6)
  assert.equal(more.at(-1)?.destroyed, false, 'the newest connection is accepted')
})

test('HttpConnections treats an IPv6 /64 as one client, and an IPv4 address and its mapped form as one client', () => {
  for (const [probeAddress, floodAddress] of [
    ['fd00:1::1', (index: number) => `fd00:2::${index.toString(16)}`],
    ['fe80::1%eth0', (index: number) => `fd00:2::${index.toString(16)}`],
    ['10.0.0.1', (index: number) => (index % 2 === 0 ? '::ffff:10.0.0.2' : '10.0.0.2')],
    [undefined, () => '10.0.0.2'],
  ] as const) {
    const connections = new HttpConnections<FakeSocket>(LIMITS)
    const [probe] = opened(connections, probeAddress, 1)
    const flood = Array.from({ length: 100 }, (_, index) => opened(connections, floodAddress(index), 1)).flat()
    assert.equal(probe?.destroyed, false, probeAddress)
    assert.equal(alive(flood), 7)
  }
})

test('HttpConnections closes the connection that was idle for longest if clients have equally many', () => {
  const connections = new HttpConnections<FakeSocket>(LIMITS)
  const all = Array.from({ length: 8 }, (_, index) => opened(connections, `10.0.0.${index}`, 1)).flat()
  const [first, second] = all
  assert.ok(first !== undefined && second !== undefined)
  connections.beginRequest(first)
  connections.endRequest(first)
  opened(connections, '10.0.1.1', 1)
  assert.deepEqual([first.destroyed, second.destroyed], [false, true])
})

test('HttpConnections closes no connection with a pending request, and the new one if all have one', () => {
  const connections = new HttpConnections<FakeSocket>(LIMITS)
  const busy = opened(connections, '10.0.0.2', 8)
  for (const socket of busy) connections.beginRequest(socket)
  const [refused] = opened(connections, '10.0.0.1', 1)
  assert.deepEqual([alive(busy), refused?.destroyed], [8, true])
  const [idle] = busy
  assert.ok(idle !== undefined)
  connections.endRequest(idle)
  const [taken] = opened(connections, '10.0.0.1', 1)
  assert.deepEqual([idle.destroyed, taken?.destroyed], [true, false])
})

test('HttpConnections forgets closed connections and limits the pending requests of one connection', async () => {
  const connections = new HttpConnections<FakeSocket>(LIMITS)
  for (let round = 0; round < 10; round++) {
    const sockets = opened(connections, '10.0.0.2', 8)
    assert.equal(alive(sockets), 8)
    for (const socket of sockets) socket.destroy()
    await new Promise(setImmediate)
    await new Promise(setImmediate)
  }
  const [socket] = opened(connections, '10.0.0.2', 1)
  assert.ok(socket !== undefined)
  assert.deepEqual(
    Array.from({ length: 5 }, () => connections.beginRequest(socket)),
    [true, true, true, true, false],
  )
  assert.equal(socket.destroyed, true)
})
