/**
 * Which real servers the first connections to a virtual server reach, by scheduler and by the order
 * in which they were added: what the models of the schedulers say, and what IPVS does with a real
 * server that comes later.
 */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { after, afterEach, before, describe, it } from 'node:test'
import { openNetlinkConnection } from '../../native/open.ts'
import { orderOfNode } from '../../src/ipvs/addition-order.ts'
import { IpvsConnection } from '../../src/ipvs/connection.ts'
import { diffVirtualServer } from '../../src/ipvs/diff.ts'
import { VirtualServerTable } from '../../src/ipvs/table.ts'
import { type VirtualServer, virtualServerKey } from '../../src/ipvs/types.ts'
import { NETLINK_GENERIC } from '../../src/netlink/constants.ts'
import type { SchedulerName } from '../../src/values/schedulers.ts'
import { until } from '../support/deadline.ts'
import { freshNode, removeVirtualServers } from '../support/kernel-state.ts'
import { run } from '../support/programs.ts'
import { MODELLED, ModelledServer } from '../support/scheduler-models.ts'
import { makeRealServer, makeVirtualServer } from '../support/virtual-servers.ts'
import { needs } from './needs.ts'

const VIP = '10.96.0.10'
const PORT = 8080
const ENDPOINTS = ['10.244.0.1', '10.244.0.2', '10.244.0.3', '10.244.0.4', '10.244.0.5']
const LATER = '10.244.0.6'
const CLIENTS = Array.from({ length: 24 }, (_, index) => `10.1.0.${index + 1}`)
const NODES = ['node-1', 'node-2', 'node-3', 'node-4']
const signal = new AbortController().signal

const wanted = (scheduler: SchedulerName, addresses: readonly string[], port: number): VirtualServer =>
  makeVirtualServer(
    VIP,
    addresses.map((address) => makeRealServer(address, 1, PORT)),
    { scheduler, port },
  )

/** A port of a virtual server for each node: IPVS remembers the connections of one that was removed. */
let nextPort = 1000
let nextLocalPort = 20_000

describe('first connections', () => {
  let ipvs: IpvsConnection
  let table: VirtualServerTable
  let server: Server
  const open: Socket[] = []
  const served: Socket[] = []

  before(async () => {
    freshNode()
    const addresses = [VIP, ...ENDPOINTS, LATER, ...CLIENTS]
    run(['ip', '-batch', '-'], addresses.map((address) => `address add ${address}/32 dev lo\n`).join(''))
    ipvs = await IpvsConnection.open(openNetlinkConnection(NETLINK_GENERIC))
    table = new VirtualServerTable(ipvs, [])
    // Every endpoint says its address.
    server = createServer((socket) => {
      served.push(socket)
      socket.on('error', () => undefined).resume()
      socket.write(`${socket.localAddress}`)
    })
    await new Promise<void>((resolve) => server.listen(PORT, '0.0.0.0', resolve))
  })
  afterEach(() => {
    for (const socket of [...open.splice(0), ...served.splice(0)]) socket.destroy()
    removeVirtualServers()
  })
  after(async () => {
    ipvs.close()
    await new Promise((resolve) => server.close(resolve))
  })

  /** Applies what a node does for this difference, and returns the added real servers in their order. */
  async function apply(node: string, now: VirtualServer, before?: VirtualServer): Promise<string[]> {
    const ops = diffVirtualServer(virtualServerKey(now), now, before, undefined, orderOfNode(node))
    for (const outcome of await table.apply(ops, signal)) assert.equal(outcome, undefined)
    return ops.flatMap((op) => (op.kind === 'add-real-server' ? [op.realServer.address] : []))
  }

  /** Opens a connection that stays open, and returns the address of the endpoint. */
  function ask(port: number, localAddress = '10.1.0.1'): Promise<string> {
    // One source port at two virtual servers would be one connection for an endpoint of both.
    const socket = connect({ host: VIP, port, localAddress, localPort: nextLocalPort++ })
    open.push(socket)
    return new Promise((resolve, reject) => {
      socket.once('error', reject).once('data', (text) => resolve(text.toString()))
    })
  }

  for (const scheduler of MODELLED)
    it(`with ${scheduler} are those of its model on every node`, needs(`ip_vs_${scheduler}`), async () => {
      const firsts = new Set<string>()
      for (const node of NODES) {
        const model = new ModelledServer(scheduler)
        const port = nextPort++
        const both = async (): Promise<string> => {
          const expected = model.connect()
          assert.equal(await ask(port), expected)
          return expected
        }
        const virtual = wanted(scheduler, ENDPOINTS, port)
        for (const added of await apply(node, virtual)) model.add(added)
        firsts.add(await both())
        for (let count = 0; count < 6; count++) await both()
        for (const added of await apply(node, wanted(scheduler, [...ENDPOINTS, LATER], port), virtual)) model.add(added)
        for (let count = 0; count < 7; count++) await both()
      }
      assert.ok(firsts.size > 1, [...firsts].join(' '))
    })

  for (const scheduler of ['rr', 'wlc'] as const)
    it(`with ${scheduler} go to the real server that was added last, unless there was one before`, async () => {
      for (const node of NODES) {
        const port = nextPort++
        const virtual = wanted(scheduler, ENDPOINTS, port)
        await apply(node, virtual)
        await apply(node, wanted(scheduler, [...ENDPOINTS, LATER], port), virtual)
        assert.equal(await ask(port), LATER)
      }
    })

  it('could be turned by removing and adding real servers, which ends connections that are used meanwhile', async () => {
    writeFileSync('/proc/sys/net/ipv4/vs/expire_nodest_conn', '1')
    const port = nextPort++
    const both = wanted('rr', ENDPOINTS.slice(0, 2), port)
    const key = virtualServerKey(both)
    await apply('node-1', both)
    const endpoint = await ask(port)
    const [socket] = open
    assert.ok(socket)
    let isClosed = false
    socket.once('close', () => (isClosed = true))
    const realServer = makeRealServer(endpoint, 1, PORT)
    const move = (kind: 'delete-real-server' | 'add-real-server'): Promise<unknown> =>
      table.apply([{ kind, key, server: both, realServer }], signal)
    await move('delete-real-server')
    socket.write('a')
    await move('add-real-server')
    socket.write('b')
    await until('the end of the connection', () => isClosed)
  })

  for (const scheduler of ['sh', 'dh', 'mh'] as const)
    it(
      `with ${scheduler} reach the same by every node${scheduler === 'mh' ? '' : ', which another order would change'}`,
      needs(`ip_vs_${scheduler}`),
      async () => {
        const seen = async (port: number): Promise<string> => {
          const found: string[] = []
          for (const client of CLIENTS) found.push(await ask(port, client))
          return found.join(' ')
        }
        const port = nextPort++
        const virtual = wanted(scheduler, ENDPOINTS, port)
        const byNode = new Set<string>()
        for (const node of NODES) {
          removeVirtualServers()
          await apply(node, virtual)
          byNode.add(await seen(port))
        }
        assert.equal(byNode.size, 1)
        // mh seldom depends on it: only where two real servers claim one place of its table.
        if (scheduler === 'mh') return
        removeVirtualServers()
        const key = virtualServerKey(virtual)
        await table.apply(
          diffVirtualServer(key, virtual, undefined, undefined, (_, all) => void all.unshift(...all.splice(1))),
          signal,
        )
        assert.equal(byNode.has(await seen(port)), false)
      },
    )
})
