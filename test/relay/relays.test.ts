/**
 * Relays over real sockets on loopback: endpoints are servers at other loopback addresses, which no
 * EndpointSlice may have. The kernel picks the ports, and the test frees them before it uses them.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { describe, it, type TestContext } from 'node:test'
import { Worker } from 'node:worker_threads'
import { type RelayLimits, Relays } from '../../src/relay/relays.ts'
import type { RelayedPort } from '../../src/relay/wanted-relays.ts'
import type { Endpoint } from '../../src/service/endpoints.ts'
import { silentLog } from '../../src/values/log.ts'
import { until } from '../support/deadline.ts'
import { endpoint } from '../support/objects.ts'
import { recordingLog } from '../support/recording-log.ts'

const endpointAt = (address: string, port: number): Endpoint => ({ address, port, source: endpoint({ address }) })

/** A server at this address that does `serve` with each connection. */
async function serveAt(
  t: TestContext,
  address: string,
  serve: (socket: Socket) => void,
): Promise<{ readonly server: Server; readonly endpoint: Endpoint; readonly sockets: Set<Socket> }> {
  const sockets = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket))
    serve(socket)
  }).listen(0, address)
  await once(server, 'listening')
  t.after(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  return { server, endpoint: endpointAt(address, (server.address() as AddressInfo).port), sockets } // it listens on TCP
}

/** Says its address and ends. */
const naming = (t: TestContext, address: string) => serveAt(t, address, (socket) => socket.end(address))
const echoing = (t: TestContext, address: string) => serveAt(t, address, (socket) => socket.pipe(socket))

/** An endpoint that answers no SYN any more: its thread stands still, and two connections fill its queue. */
async function silentEndpoint(t: TestContext): Promise<Endpoint> {
  const worker = new Worker(
    `const { parentPort } = require('node:worker_threads')
     const server = require('node:net').createServer().listen({ port: 0, host: '127.0.0.9', backlog: 1 }, () => {
       parentPort.postMessage(server.address().port)
       Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
     })`,
    { eval: true },
  )
  t.after(() => worker.terminate())
  const [port]: unknown[] = await once(worker, 'message')
  assert.ok(typeof port === 'number')
  for (let index = 0; index < 2; index++) {
    const socket = connect(port, '127.0.0.9').on('error', () => undefined)
    t.after(() => socket.destroy())
    await once(socket, 'connect')
  }
  return endpointAt('127.0.0.9', port)
}

/** A port that nobody has. */
async function freePort(address = '127.0.0.1'): Promise<number> {
  const server = createServer().listen(0, address)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo // it listens on TCP
  server.close()
  await once(server, 'close')
  return port
}

interface World {
  readonly relays: Relays
  readonly problems: ReadonlyMap<string, string>
  readonly leftOut: readonly boolean[]
  /** Relays the port to these endpoints. */
  want(port: number, endpoints: readonly Endpoint[] | undefined, change?: Partial<RelayedPort>): void
}

function newWorld(t: TestContext, limits: Partial<RelayLimits> = {}, more: { log?: typeof silentLog } = {}): World {
  const problems = new Map<string, string>()
  const leftOut: boolean[] = []
  const relays = new Relays({
    nodeName: 'node0',
    openFiles: 100_000,
    isReserved: (port) => port === 10_256,
    now: () => performance.now(),
    log: silentLog,
    limits,
    onProblem: (socket, problem) =>
      problem === undefined ? problems.delete(socket) : problems.set(socket, problem.message),
    onLeftOut: (areLeftOut) => leftOut.push(areLeftOut),
    ...more,
  })
  t.after(() => relays.close())
  const want: World['want'] = (port, endpoints, change = {}) => {
    const family = change.family ?? 'IPv4'
    const own = { family, port, namespace: 'demo', name: 'web', weights: undefined, affinityMs: 0 }
    relays.update([{ key: `${family} ${port}`, port: endpoints && { ...own, endpoints, ...change } }])
  }
  return { relays, problems, leftOut, want }
}

const listens = (relays: Relays, count = 1) => until('the ports are open', () => relays.counts.listening === count)

/** A client that has connected. Its errors are kept as codes. */
async function open(t: TestContext, port: number, host = '127.0.0.1') {
  const socket = connect({ host, port, allowHalfOpen: true })
  const end = { text: '', code: '', isEnded: false, isClosed: false }
  socket.on('error', (error: NodeJS.ErrnoException) => (end.code = error.code ?? ''))
  socket.on('close', () => (end.isClosed = true))
  t.after(() => socket.destroy())
  await once(socket, 'connect')
  return { socket, end }
}

/** What a client that sends nothing gets: the text until the end, or the code of the error. */
function ask(port: number, host = '127.0.0.1'): Promise<string> {
  return new Promise((resolve) => {
    let text = ''
    const socket = connect({ host, port })
    socket.on('data', (data) => (text += String(data)))
    socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? ''))
    socket.on('end', () => resolve(text))
  })
}

describe('Relays', () => {
  it('relay both directions, and pass on the end of one while the other goes on', async (t) => {
    const { relays, want } = newWorld(t)
    const received: string[] = []
    const { endpoint } = await serveAt(t, '127.0.0.2', (socket) => {
      socket.on('data', (data) => received.push(String(data)))
      socket.on('end', () => {
        received.push('end')
        socket.write('still ')
        setImmediate(() => socket.end('here'))
      })
    })
    const port = await freePort()
    want(port, [endpoint])
    await listens(relays)
    const { socket } = await open(t, port)
    socket.end('hello')
    let text = ''
    for await (const data of socket) text += String(data)
    assert.equal(text, 'still here')
    assert.deepEqual(received, ['hello', 'end'])
    await until('the connection is gone', () => relays.counts.connections === 0)
    const { relayed, unreachable, overLimit, foreign } = relays.counts
    assert.deepEqual(
      { relayed, unreachable, overLimit, foreign },
      { relayed: 1, unreachable: 0, overLimit: 0, foreign: 0 },
    )
  })

  it('relay IPv6', async (t) => {
    const { relays, want } = newWorld(t)
    const { endpoint } = await naming(t, '::1')
    const port = await freePort('::1')
    want(port, [endpoint], { family: 'IPv6' })
    await listens(relays)
    assert.equal(await ask(port, '::1'), '::1')
    assert.equal(await ask(port), 'ECONNREFUSED')
  })

  it('reach every endpoint, and with affinity the same one', async (t) => {
    const { relays, want } = newWorld(t)
    const servers = [await naming(t, '127.0.0.2'), await naming(t, '127.0.0.3'), await naming(t, '127.0.0.4')]
    const endpoints = servers.map(({ endpoint }) => endpoint)
    const port = await freePort()
    want(port, endpoints)
    await listens(relays)
    const seen = new Set<string>()
    await until('every endpoint has answered', async () => seen.add(await ask(port)).size === 3)
    want(port, endpoints, { affinityMs: 60_000 })
    const first = await ask(port)
    for (let index = 0; index < 20; index++) assert.equal(await ask(port), first)
    want(
      port,
      endpoints.filter(({ address }) => address !== first),
      { affinityMs: 60_000 },
    )
    const second = await ask(port)
    assert.notEqual(second, first)
    for (let index = 0; index < 20; index++) assert.equal(await ask(port), second)
  })

  it('try another endpoint when one refuses, and reset the client when none answers', async (t) => {
    const log = recordingLog()
    const { relays, want } = newWorld(t, {}, { log })
    const { endpoint } = await naming(t, '127.0.0.2')
    const dead = endpointAt('127.0.0.3', await freePort('127.0.0.3'))
    const port = await freePort()
    want(port, [dead, endpoint])
    await listens(relays)
    for (let index = 0; index < 20; index++) assert.equal(await ask(port), '127.0.0.2')
    want(port, [dead])
    assert.equal(await ask(port), 'ECONNRESET')
    assert.equal(relays.counts.unreachable, 1)
    const [line] = log.lines.filter(({ message }) => message.startsWith('No endpoint answered'))
    assert.deepEqual(line?.fields['tried'], [`127.0.0.3:${dead.port}`])
    await until('the connection is gone', () => relays.counts.connections === 0)
  })

  it('try few endpoints, each for a limited time', async (t) => {
    const log = recordingLog()
    const { relays, want } = newWorld(t, { connectMs: 300 }, { log })
    const silent = await silentEndpoint(t)
    const good = await naming(t, '127.0.0.2')
    const port = await freePort()
    want(port, [silent, good.endpoint], { affinityMs: 60_000 })
    await listens(relays)
    for (let index = 0; index < 5; index++) assert.equal(await ask(port), '127.0.0.2')
    want(port, [silent])
    assert.equal(await ask(port), 'ECONNRESET')
    const refusing: Endpoint[] = []
    for (let last = 2; last < 7; last++) refusing.push(endpointAt(`127.0.0.${last}`, await freePort(`127.0.0.${last}`)))
    want(port, refusing)
    assert.equal(await ask(port), 'ECONNRESET')
    const tried = log.lines.flatMap(({ fields }) => {
      const { tried: some } = fields
      return Array.isArray(some) ? some.length : []
    })
    assert.deepEqual(tried, [1, 3])
  })

  it('pass on a reset in both directions', async (t) => {
    const { relays, want } = newWorld(t)
    const codes: string[] = []
    const { endpoint, sockets } = await serveAt(t, '127.0.0.2', (socket) => {
      socket.on('error', (error: NodeJS.ErrnoException) => codes.push(error.code ?? ''))
      socket.on('data', () => socket.write('x'))
    })
    const port = await freePort()
    want(port, [endpoint])
    await listens(relays)
    const one = await open(t, port)
    one.socket.write('x')
    await once(one.socket, 'data')
    one.socket.resetAndDestroy()
    await until('the endpoint was reset', () => codes.length === 1)
    const two = await open(t, port)
    two.socket.write('x')
    await once(two.socket, 'data')
    for (const socket of sockets) socket.resetAndDestroy()
    await until('the client was reset', () => two.end.code !== '')
    assert.deepEqual([codes, two.end.code], [['ECONNRESET'], 'ECONNRESET'])
    await until('both are gone', () => relays.counts.connections === 0)
  })

  it('read no more than the other side takes', async (t) => {
    const { relays, want } = newWorld(t)
    const size = 64 * 1024 * 1024
    let written = 0
    const { endpoint } = await serveAt(t, '127.0.0.2', (socket) => {
      const piece = Buffer.alloc(65_536)
      const send = (): void => {
        while (written < size) {
          written += piece.length
          if (!socket.write(piece)) {
            socket.once('drain', send)
            return
          }
        }
        socket.end()
      }
      send()
    })
    const port = await freePort()
    want(port, [endpoint])
    await listens(relays)
    const { socket } = await open(t, port)
    // The client does not read: the sender stands still when the buffers are full.
    let before = -1
    await until('the sender waits', async () => {
      const isStill = written === before && written > 0
      before = written
      await new Promise((resolve) => setTimeout(resolve, 50))
      return isStill
    })
    assert.ok(written < size / 2, `${written} bytes are on the way`)
    let read = 0
    for await (const data of socket) read += (data as Buffer).length // no encoding is set
    assert.equal(read, size)
  })

  it('keep connections while endpoints change and go, refuse new ones then, and close them with the port', async (t) => {
    const { relays, want } = newWorld(t)
    const { endpoint } = await echoing(t, '127.0.0.2')
    const other = await naming(t, '127.0.0.3')
    const port = await freePort()
    want(port, [endpoint])
    await listens(relays)
    const { socket, end } = await open(t, port)
    const echoes = async (): Promise<void> => {
      socket.write('x')
      await once(socket, 'data')
    }
    await echoes()
    want(port, [other.endpoint])
    assert.equal(await ask(port), '127.0.0.3')
    await echoes()
    want(port, [])
    assert.equal(await ask(port), 'ECONNREFUSED')
    await echoes()
    want(port, [other.endpoint])
    await listens(relays)
    await echoes()
    assert.equal(await ask(port), '127.0.0.3')
    want(port, undefined)
    await until('the connection was closed', () => end.isClosed)
    assert.equal(end.code, 'ECONNRESET')
    assert.equal(await ask(port), 'ECONNREFUSED')
    assert.deepEqual([relays.counts.connections, relays.counts.listening], [0, 0])
  })

  it('close every socket of a connection that is just ending', async (t) => {
    const { relays, want } = newWorld(t)
    const { endpoint } = await naming(t, '127.0.0.2')
    const sockets = (): number => process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length
    const before = sockets()
    for (let index = 0; index < 20; index++) {
      const port = await freePort()
      want(port, [endpoint])
      await listens(relays)
      const { socket } = await open(t, port)
      await once(socket, 'data')
      want(port, undefined)
      socket.destroy()
    }
    await until('all are gone', () => relays.counts.connections === 0 && sockets() <= before)
  })

  it('close the connections of a Service whose port another one gets', async (t) => {
    const { relays, want } = newWorld(t)
    const { endpoint } = await echoing(t, '127.0.0.2')
    const other = await naming(t, '127.0.0.3')
    const port = await freePort()
    want(port, [endpoint])
    await listens(relays)
    const { socket, end } = await open(t, port)
    socket.resume()
    await until('it is relayed', () => relays.counts.relayed === 1)
    want(port, [other.endpoint], { name: 'other' })
    await until('the connection was closed', () => end.isClosed)
    assert.equal(end.code, 'ECONNRESET')
    assert.equal(await ask(port), '127.0.0.3')
  })

  it('report a port that another program has, retry it, and serve the others', async (t) => {
    const { relays, want, problems } = newWorld(t)
    const { endpoint } = await naming(t, '127.0.0.2')
    const taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    t.after(() => taken.close())
    const { port: takenPort } = taken.address() as AddressInfo // it listens on TCP
    const port = await freePort()
    want(takenPort, [endpoint])
    want(port, [endpoint])
    want(10_256, [endpoint])
    await listens(relays)
    await until('two problems', () => problems.size === 2)
    const message = (socket: string, reason: string): [string, string] => [
      socket,
      `node node0 cannot listen at ${socket} for the node port: ${reason}`,
    ]
    assert.deepEqual(
      Array.from(problems).sort(),
      [
        message('127.0.0.1:10256', 'it is a port of kube-ipvs itself'),
        message(`127.0.0.1:${takenPort}`, 'address already in use'),
      ].sort(),
    )
    assert.equal(await ask(port), '127.0.0.2')
    assert.equal(relays.counts.failing, 2)
    taken.close()
    await listens(relays, 2)
    assert.deepEqual([...problems.keys()], ['127.0.0.1:10256'])
    assert.equal(await ask(takenPort), '127.0.0.2')
    want(10_256, undefined)
    assert.equal(problems.size, 0)
  })

  it('reset connections beyond the limit of a port and of the node, and log it once', async (t) => {
    const log = recordingLog()
    const { relays, want } = newWorld(t, { connections: 3, connectionsOfPort: 2 }, { log })
    const { endpoint } = await echoing(t, '127.0.0.2')
    const [one, two] = [await freePort(), await freePort()]
    want(one, [endpoint])
    want(two, [endpoint])
    await listens(relays, 2)
    const first = await open(t, one)
    await open(t, one)
    assert.equal(await ask(one), 'ECONNRESET')
    await open(t, two)
    assert.equal(await ask(two), 'ECONNRESET')
    assert.deepEqual([relays.counts.connections, relays.counts.overLimit], [3, 2])
    assert.equal(log.lines.filter(({ message }) => message.includes('there are too many')).length, 1)
    first.socket.destroy()
    await until('there is room', () => relays.counts.connections === 2)
    const { socket } = await open(t, one)
    socket.write('x')
    await once(socket, 'data')
  })

  it('leave ports out beyond the limit of sockets, say so once, and open them when there is room', async (t) => {
    const { relays, want, leftOut } = newWorld(t, { listeners: 2 })
    const { endpoint } = await naming(t, '127.0.0.2')
    const ports = [await freePort(), await freePort(), await freePort(), await freePort()]
    for (const port of ports) want(port, [endpoint])
    await until('ports are left out', () => leftOut.length === 1)
    await listens(relays, 2)
    assert.deepEqual([leftOut, relays.counts.leftOut], [[true], 2])
    const [first = 0, , third = 0, fourth = 0] = ports
    assert.deepEqual([await ask(third), await ask(fourth)], ['ECONNREFUSED', 'ECONNREFUSED'])
    want(fourth, undefined)
    want(first, undefined)
    await until('the third is open', async () => (await ask(third)) === '127.0.0.2')
    assert.deepEqual([leftOut, relays.counts.leftOut], [[true, false], 0])
  })

  it('open nothing in a family whose address the node does not have', async (t) => {
    const { relays, want, problems } = newWorld(t)
    const { endpoint } = await naming(t, '127.0.0.2')
    const port = await freePort()
    relays.useFamilies(['IPv4'])
    want(port, [endpoint])
    want(port, [endpoint], { family: 'IPv6' })
    await listens(relays)
    relays.useFamilies(['IPv6'])
    await until('only IPv6 is open', async () => (await ask(port, '::1')) === '127.0.0.2')
    assert.equal(await ask(port), 'ECONNREFUSED')
    assert.equal(problems.size, 0)
  })

  it('take few of the files that the process may have open', async (t) => {
    const leftOut: number[] = []
    const relays = new Relays({
      nodeName: 'node0',
      openFiles: 8,
      isReserved: () => false,
      now: () => 0,
      log: silentLog,
      onProblem: () => undefined,
      onLeftOut: (_, limit) => leftOut.push(limit),
    })
    t.after(() => relays.close())
    const { endpoint } = await echoing(t, '127.0.0.2')
    const ports = [await freePort(), await freePort(), await freePort(), await freePort(), await freePort()]
    for (const port of ports) {
      const own = { family: 'IPv4' as const, port, namespace: 'demo', name: 'web', weights: undefined, affinityMs: 0 }
      relays.update([{ key: `IPv4 ${port}`, port: { ...own, endpoints: [endpoint] } }])
    }
    await listens(relays, 4)
    await until('one is left out', () => leftOut.length === 1)
    assert.deepEqual(leftOut, [4])
    await open(t, ports[0] ?? 0)
    assert.equal(await ask(ports[1] ?? 0), 'ECONNRESET')
  })

  it('open thousands of ports without holding up the event loop, and close them', async (t) => {
    const { relays } = newWorld(t)
    const { endpoint } = await naming(t, '127.0.0.2')
    const own = { family: 'IPv4' as const, namespace: 'demo', name: 'web', weights: undefined, affinityMs: 0 }
    const ports = Array.from({ length: 1500 }, (_, index) => 20_000 + index)
    let turns = 0
    const timer = setInterval(() => turns++, 1)
    relays.update(ports.map((port) => ({ key: `IPv4 ${port}`, port: { ...own, port, endpoints: [endpoint] } })))
    await until('all are open or taken', () => {
      const { listening, failing } = relays.counts
      return listening + failing === ports.length
    })
    clearInterval(timer)
    assert.ok(turns >= 5, `the event loop had ${turns} turns`)
    relays.close()
    assert.deepEqual([relays.counts.listening, relays.counts.failing], [0, 0])
  })
})

describe('states of relayed ports', () => {
  const endpoint = endpointAt('127.0.0.9', 80)
  const statesOf = (relays: Relays): readonly (readonly string[])[] =>
    Array.from(relays.states({ owner: 'demo/web' }), ({ socket, state, because }) => [
      socket.replace(/[0-9]+$/, 'N'),
      state,
      because,
    ])

  it('say who listens, and why nobody does', async (t) => {
    const { relays, want } = newWorld(t, { listeners: 2 })
    const taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    t.after(() => taken.close())
    relays.useFamilies(['IPv4'])
    const port = await freePort()
    want(port, [endpoint])
    want((taken.address() as AddressInfo).port, [endpoint]) // it listens on TCP
    await listens(relays)
    await until('the taken port is known', () => relays.counts.failing === 1)
    want(10_001, [])
    want(10_002, [endpoint], { family: 'IPv6' })
    want(10_003, [endpoint])
    await until('a port is left out', () => relays.counts.leftOut === 1)
    want(10_004, [endpoint], { name: 'other' })
    const [open, failing, ...others] = statesOf(relays)
    assert.deepEqual(open, ['127.0.0.1:N', 'open', ''])
    assert.deepEqual(failing?.slice(0, 2), ['127.0.0.1:N', 'failing'])
    assert.match(failing?.[2] ?? '', /address already in use/)
    assert.deepEqual(others, [
      ['127.0.0.1:N', 'no-endpoint', ''],
      ['[::1]:N', 'no-address', ''],
      ['127.0.0.1:N', 'left-out', ''],
    ])
    const [other, ...more] = relays.states({ port: 10_004 })
    assert.deepEqual([other?.owner, other?.endpoints, more], ['demo/other', [endpoint], []])
  })
})
