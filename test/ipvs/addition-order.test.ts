/**
 * How evenly the first connections of many nodes spread, by the order of each node and the models
 * of the schedulers that a kernel test confirms, beside random choice.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { orderOfNode } from '../../src/ipvs/addition-order.ts'
import { diffVirtualServer } from '../../src/ipvs/diff.ts'
import { type VirtualServer, virtualServerKey } from '../../src/ipvs/types.ts'
import { SCHEDULERS, type SchedulerName } from '../../src/values/schedulers.ts'
import { fairness, firstConnections, inKeyOrder, percentile, virtualServerOf } from '../support/fairness.ts'
import { MODELLED, ModelledServer } from '../support/scheduler-models.ts'
import { wantedVirtualServer } from '../support/virtual-servers.ts'

/** The real servers that a node adds to a new virtual server, in its order. */
const added = (server: VirtualServer, node: string): string[] =>
  diffVirtualServer(virtualServerKey(server), server, undefined, undefined, orderOfNode(node)).flatMap((op) =>
    op.kind === 'add-real-server' ? [`${op.realServer.address} ${op.realServer.port}`] : [],
  )

const BY_NODE: readonly SchedulerName[] = ['rr', 'wrr', 'lc', 'wlc', 'lblc', 'lblcr', 'sed', 'nq', 'twos']

describe('orderOfNode', () => {
  it('adds each real server once, in the same order each time', () => {
    fc.assert(
      fc.property(wantedVirtualServer, fc.string(), (server, node) => {
        const all = server.realServers.map(({ address, port }) => `${address} ${port}`)
        assert.deepEqual(added(server, node).sort(), all.sort())
        assert.deepEqual(added(server, node), added(structuredClone(server), node))
      }),
    )
  })

  for (const scheduler of [...SCHEDULERS, 'unknown'])
    it(`${BY_NODE.some((one) => one === scheduler) ? 'differs by node' : 'is key order on every node'} with ${scheduler}`, () => {
      const server = { ...virtualServerOf(0, 8), scheduler }
      const orders = new Set(Array.from({ length: 20 }, (_, node) => added(server, `node-${node}`).join()))
      assert.equal(
        orders.size > 15,
        BY_NODE.some((one) => one === scheduler),
        `${orders.size} orders`,
      )
      if (orders.size === 1) assert.ok(orders.has(server.realServers.map((one) => `${one.address} ${one.port}`).join()))
    })

  it('orders those that come later among themselves, and changes nothing for what is there', () => {
    const [few, more] = [virtualServerOf(0, 4), virtualServerOf(0, 12)]
    const later = (node: string): string[] =>
      diffVirtualServer('k', more, few, undefined, orderOfNode(node)).map((op) =>
        op.kind === 'add-real-server' ? op.realServer.address : op.kind,
      )
    assert.equal(later('node-1').length, 8)
    assert.notDeepEqual(later('node-1'), later('node-2'))
    assert.deepEqual(diffVirtualServer('k', more, structuredClone(more), undefined, orderOfNode('node-1')), [])
  })

  it('gives two virtual servers with the same endpoints orders of their own', () => {
    const [one, other] = [virtualServerOf(0, 12), virtualServerOf(1, 12)]
    assert.notDeepEqual(added(one, 'node-1'), added(other, 'node-1'))
  })
})

describe('first connections of many nodes', () => {
  /** Of 100 virtual servers; `nodes` open `connections` each to `endpoints`. */
  const spread = (scheduler: SchedulerName, nodes: number, connections: number, endpoints: number): number[] =>
    Array.from({ length: 100 }, (_, number) =>
      fairness(
        firstConnections({ scheduler, nodes, connections, server: virtualServerOf(number, endpoints) }),
        endpoints,
      ),
    )

  for (const scheduler of MODELLED) {
    it(`with ${scheduler}: 100 with one connection to 10 endpoints, at most 2.5 times the mean`, () => {
      const server = virtualServerOf(0, 10)
      const sorted = firstConnections({ scheduler, nodes: 100, connections: 1, server, order: inKeyOrder })
      assert.equal(fairness(sorted, 10), 10)
      assert.ok(percentile(spread(scheduler, 100, 1, 10), 0.99) <= 2.5)
    })
  }

  for (const scheduler of ['rr', 'wlc'] as const)
    it(`with ${scheduler}: 1,000 with 3 connections to 50 endpoints, at most 1.4 times the mean`, () => {
      const server = virtualServerOf(0, 50)
      const sorted = firstConnections({ scheduler, nodes: 1000, connections: 3, server, order: inKeyOrder })
      assert.equal(fairness(sorted, 50).toFixed(1), '16.7')
      const all = spread(scheduler, 1000, 3, 50)
      assert.ok(percentile(all, 0.5) <= 1.35, `${percentile(all, 0.5)}`)
      // As with random choice one virtual server in twenty is just above it.
      assert.ok(percentile(all, 0.9) <= 1.4, `${percentile(all, 0.9)}`)
    })

  /** Of 100 nodes after a replacement of 10 endpoints, so many at a time, while nothing connected. */
  function afterRollingUpdate(scheduler: SchedulerName, atATime: number): number {
    const counts = new Map<string, number>()
    const { realServers } = virtualServerOf(0, 20)
    const desired = (from: number, to: number): VirtualServer => ({
      ...virtualServerOf(0, 0),
      scheduler,
      protocol: 'udp',
      realServers: realServers.slice(from, to),
    })
    for (let node = 0; node < 100; node++) {
      const model = new ModelledServer(scheduler)
      let live: VirtualServer | undefined
      for (let from = 0; from <= 10; from += atATime) {
        const now = desired(from, from + 10)
        for (const op of diffVirtualServer('k', now, live, undefined, orderOfNode(`node-${node}`))) {
          if (op.kind === 'add-real-server') model.add(op.realServer.address)
          if (op.kind === 'delete-real-server') model.remove(op.realServer.address)
        }
        live = now
      }
      const chosen = model.connect()
      counts.set(chosen, (counts.get(chosen) ?? 0) + 1)
    }
    return fairness([...counts.values()], 10)
  }

  for (const scheduler of ['rr', 'wrr', 'wlc'] as const)
    it(`with ${scheduler} all go to the endpoint that came last by itself, and spread when several came at once`, () => {
      const measured = [1, 2, 5, 10].map((atATime) => afterRollingUpdate(scheduler, atATime))
      const [one = 0, two = 0, five = 0, all = 0] = measured
      assert.equal(one, 10)
      assert.ok(two <= 6 && five <= 2.9 && all <= 2.5, measured.join(' '))
    })
})
