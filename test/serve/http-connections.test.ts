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
    // As a socket does: later.
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

test('HttpConnections never ends a probe that has just arrived for a flood from one client', () => {
  const connections = new HttpConnections<FakeSocket>(LIMITS)
  const [probe] = opened(connections, '10.0.0.1', 1)
  const flood = opened(connections, '10.0.0.2', 1000)
  const [late] = opened(connections, '10.0.0.3', 1)
  const more = opened(connections, '10.0.0.2', 1000)
  assert.deepEqual([probe?.destroyed, late?.destroyed], [false, false])
  assert.equal(alive(flood) + alive(more), 6)
  assert.equal(more.at(-1)?.destroyed, false, 'the newest is let in')
})

test('HttpConnections takes a network of 64 bits for one client, and an IPv4 address for itself in both forms', () => {
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

test('HttpConnections ends the one that was of no use for longest where clients hold equally many', () => {
  const connections = new HttpConnections<FakeSocket>(LIMITS)
  const all = Array.from({ length: 8 }, (_, index) => opened(connections, `10.0.0.${index}`, 1)).flat()
  const [first, second] = all
  assert.ok(first !== undefined && second !== undefined)
  connections.asked(first)
  connections.answered(first)
  opened(connections, '10.0.1.1', 1)
  assert.deepEqual([first.destroyed, second.destroyed], [false, true])
})

test('HttpConnections ends no connection on which an answer is awaited, and the newest where all are', () => {
  const connections = new HttpConnections<FakeSocket>(LIMITS)
  const busy = opened(connections, '10.0.0.2', 8)
  for (const socket of busy) connections.asked(socket)
  const [refused] = opened(connections, '10.0.0.1', 1)
  assert.deepEqual([alive(busy), refused?.destroyed], [8, true])
  const [idle] = busy
  assert.ok(idle !== undefined)
  connections.answered(idle)
  const [taken] = opened(connections, '10.0.0.1', 1)
  assert.deepEqual([idle.destroyed, taken?.destroyed], [true, false])
})

test('HttpConnections forgets closed connections, and refuses more requests at a time than it may hold', async () => {
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
    Array.from({ length: 5 }, () => connections.asked(socket)),
    [true, true, true, true, false],
  )
  assert.equal(socket.destroyed, true)
})
