/**
 * Node ports at loopback addresses as the daemon has them: switched on and off, handed over to
 * another proxy, and reported. Over real sockets; the kernel picks the ports, and the test frees
 * them before it uses them.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import { describe, it, type TestContext } from 'node:test'
import type { KubeProxyConfiguration } from '../../src/config/types.ts'
import { defaultConfiguration } from '../support/configuration.ts'
import { LocalhostNodePorts, openLocalhostNodePorts } from '../../src/daemon/localhost-node-ports.ts'
import type { Occurrence } from '../../src/events/event-objects.ts'
import { ProblemLog } from '../../src/serve/problem-log.ts'
import type { Frontend, FrontendKey } from '../../src/service/frontends.ts'
import { rulesOf, TABLES } from '../../src/sync/part.ts'
import { until } from '../support/deadline.ts'
import { frontendOf } from '../support/frontends.ts'
import { endpoint, service } from '../support/objects.ts'
import { recordingLog } from '../support/recording-log.ts'

const LO = [
  { interfaceName: 'lo', address: '127.0.0.1' },
  { interfaceName: 'eth0', address: '10.0.2.15' },
]

async function listen(
  t: TestContext,
  address = '127.0.0.1',
): Promise<{ readonly server: Server; readonly port: number }> {
  const server = createServer((socket) => socket.on('error', () => undefined).pipe(socket)).listen(0, address)
  await once(server, 'listening')
  t.after(() => server.close())
  return { server, port: (server.address() as AddressInfo).port } // it listens on TCP
}

async function freePort(t: TestContext): Promise<number> {
  const { server, port } = await listen(t)
  server.close()
  await once(server, 'close')
  return port
}

/** A Service with this node port and an endpoint at 127.0.0.2. */
function nodePort(name: string, port: number, endpointPort: number): Frontend {
  const candidates = [{ address: '127.0.0.2', port: endpointPort, source: endpoint({ address: '127.0.0.2' }) }]
  return frontendOf({
    address: `10.96.0.${name.length}`,
    service: service({ name }),
    servicePort: { name: `demo/${name}:http`, nodePort: port, candidates },
  })
}

function newPorts(t: TestContext, isOn: () => boolean, frontends: ReadonlyMap<FrontendKey, Frontend> = new Map()) {
  const log = recordingLog(2)
  const problems = new ProblemLog(log)
  const events: Occurrence[] = []
  const ports = new LocalhostNodePorts({
    families: ['IPv4', 'IPv6'],
    nodeName: 'node0',
    isOn,
    openFiles: 1000,
    ownPorts: [10_249, 10_256],
    frontends: () => Array.from(frontends, ([key, value]) => [key, { value }] as const),
    problems,
    events: { record: (occurrence) => void events.push(occurrence), close: async () => undefined },
    log,
    now: () => performance.now(),
  })
  t.after(() => ports.close())
  return { ports, problems, events, log, want: (frontend: Frontend) => ports.frontend(frontend.key, frontend) }
}

async function client(t: TestContext, port: number) {
  const socket = connect(port, '127.0.0.1')
  t.after(() => socket.destroy())
  const state = { isClosed: false }
  socket.on('error', () => undefined).on('close', () => (state.isClosed = true))
  await once(socket, 'connect')
  const echoes = async (): Promise<void> => {
    socket.write('x')
    await once(socket, 'data')
  }
  return { state, echoes }
}

const isOpen = async (port: number): Promise<boolean> => {
  const socket = connect(port, '127.0.0.1')
  const result = await Promise.race([
    once(socket, 'connect').then(() => true),
    once(socket, 'error').then(() => false),
  ]).catch(() => false)
  socket.destroy()
  return result
}

describe('LocalhostNodePorts', () => {
  it('are off by default and in iptables mode, and leave the ports of the daemon to it', async (t) => {
    const { port: endpointPort } = await listen(t, '127.0.0.2')
    const [port, ownPort] = [await freePort(t), await freePort(t)]
    const configuration = defaultConfiguration()
    const on = { ...configuration.kubeIPVS, localhostNodePorts: true }
    let inForce: KubeProxyConfiguration = { ...configuration, metricsBindAddress: `[::1]:${ownPort}` }
    const log = recordingLog(2)
    const problems = new ProblemLog(log)
    const frontends = [nodePort('a', port, endpointPort), nodePort('bb', ownPort, endpointPort)]
    const ports = openLocalhostNodePorts({
      configuration: () => inForce,
      families: ['IPv4'],
      nodeName: 'node0',
      desired: {
        frontends: () => frontends.map((value) => [value.key, { owner: '', rank: 0, since: 0, value }] as const),
      },
      problems,
      log,
      now: () => performance.now(),
    })
    t.after(() => ports.close())
    ports.nodeChanged(LO)
    ports.passed(TABLES)
    assert.equal(ports.counts, undefined)
    inForce = { ...inForce, kubeIPVS: on }
    ports.reconfigured()
    await until('it is open', () => isOpen(port))
    await until('a problem', () => problems.count === 1)
    assert.deepEqual(
      Array.from(problems.current(), ({ message }) => message),
      [`node node0 cannot listen at 127.0.0.1:${ownPort} for the node port: it is a port of kube-ipvs itself`],
    )
    inForce = { ...inForce, mode: 'iptables' }
    ports.reconfigured()
    assert.equal(await isOpen(port), false)
    assert.equal(problems.count, 0)
  })

  it('open after the first pass over everything, and report a taken port once', async (t) => {
    const { port: endpointPort } = await listen(t, '127.0.0.2')
    const taken = await listen(t)
    const port = await freePort(t)
    const { ports, problems, events, want } = newPorts(t, () => true)
    want(nodePort('a', port, endpointPort))
    want(nodePort('bb', taken.port, endpointPort))
    ports.nodeChanged(LO)
    ports.passed(rulesOf('IPv4'))
    assert.equal(await isOpen(port), false)
    ports.passed(TABLES)
    await until('it is open', () => isOpen(port))
    await until('a problem', () => problems.count === 1)
    const note = `node node0 cannot listen at 127.0.0.1:${taken.port} for the node port: address already in use`
    assert.deepEqual(
      Array.from(problems.current(), ({ subject, code, message }) => ({ subject, code, message })),
      [{ subject: 'service demo/bb', code: 'localhost-node-port', message: note }],
    )
    const regarding = { kind: 'Service', namespace: 'demo', name: 'bb', apiVersion: 'v1' }
    assert.deepEqual(events, [
      { regarding, type: 'Warning', reason: 'FailedToListenAtLocalhost', action: 'Listen', note },
    ])
    assert.deepEqual([ports.counts?.listening, ports.counts?.failing], [1, 1])
    taken.server.close()
    await until('the problem is resolved', () => problems.count === 0)
    assert.equal(events.length, 1)
  })

  it('switched on later have the frontends of before, and switched off close everything', async (t) => {
    const { port: endpointPort } = await listen(t, '127.0.0.2')
    const port = await freePort(t)
    let isOn = false
    const frontend = nodePort('a', port, endpointPort)
    const { ports } = newPorts(t, () => isOn, new Map([[frontend.key, frontend]]))
    ports.nodeChanged(LO)
    ports.frontend(frontend.key, frontend)
    ports.passed(TABLES)
    assert.equal(await isOpen(port), false)
    assert.equal(ports.counts, undefined)
    isOn = true
    ports.reconfigured()
    await until('it is open', () => isOpen(port))
    const { state, echoes } = await client(t, port)
    await echoes()
    ports.reconfigured()
    await echoes()
    isOn = false
    ports.reconfigured()
    await until('the connection is closed', () => state.isClosed)
    assert.equal(await isOpen(port), false)
    assert.equal(ports.counts, undefined)
  })

  it('of the next proxy take over open ports and their connections, and close those that it does not want', async (t) => {
    const { port: endpointPort } = await listen(t, '127.0.0.2')
    const [kept, dropped] = [await freePort(t), await freePort(t)]
    const taken = await listen(t)
    const before = newPorts(t, () => true)
    for (const [name, port] of [
      ['a', kept],
      ['bb', dropped],
      ['ccc', taken.port],
    ] as const)
      before.want(nodePort(name, port, endpointPort))
    before.ports.nodeChanged(LO)
    before.ports.passed(TABLES)
    await until('both are open', async () => (await isOpen(kept)) && (await isOpen(dropped)))
    await until('a problem', () => before.problems.count === 1)
    const one = await client(t, kept)
    const other = await client(t, dropped)
    await Promise.all([one.echoes(), other.echoes()])

    const relays = before.ports.release()
    before.ports.close()
    const next = newPorts(t, () => true)
    next.ports.adopt(relays)
    next.want(nodePort('a', kept, endpointPort))
    next.want(nodePort('ccc', taken.port, endpointPort))
    next.ports.nodeChanged(LO)
    await Promise.all([one.echoes(), other.echoes()])
    next.ports.passed(TABLES)
    await until('what is not wanted is closed', () => other.state.isClosed)
    await one.echoes()
    assert.deepEqual([await isOpen(kept), await isOpen(dropped)], [true, false])
    assert.equal(next.problems.count, 1)

    // A proxy that is configured for iptables mode, or with the option off, wants none.
    const last = newPorts(t, () => false)
    last.ports.adopt(next.ports.release())
    last.ports.nodeChanged(LO)
    await one.echoes()
    last.ports.passed(TABLES)
    await until('everything is closed', () => one.state.isClosed)
    assert.equal(await isOpen(kept), false)
  })

  it('open nothing where the node has no loopback address of the family', async (t) => {
    const { port: endpointPort } = await listen(t, '127.0.0.2')
    const port = await freePort(t)
    const { ports, problems, want } = newPorts(t, () => true)
    want(nodePort('a', port, endpointPort))
    ports.nodeChanged([{ interfaceName: 'eth0', address: '10.0.2.15' }])
    ports.passed(TABLES)
    assert.equal(await isOpen(port), false)
    assert.equal(problems.count, 0)
    ports.nodeChanged(LO)
    await until('it is open', () => isOpen(port))
    // Addresses that cannot be read are not taken for none.
    ports.nodeChanged([])
    assert.equal(await isOpen(port), true)
  })
})
