/** What announcements of links and addresses make doubtful. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { LinkDoubts } from '../../../src/modes/ipvs/watch.ts'
import { type BoundAddress, hostAddress } from '../../../src/ipvs/address-diff.ts'
import { localRoute, type LocalRoute, LOOPBACK_INDEX, ROUTE_PROTOCOL } from '../../../src/ipvs/route-diff.ts'
import { AddressTable } from '../../../src/ipvs/addresses.ts'
import type { Outcome } from '../../../src/netlink/connection.ts'
import { familyOf } from '../../../src/values/address.ts'

const DEVICE = 7
const signal = new AbortController().signal

class Bench {
  /** Index of the link kube-ipvs0; undefined: there is none. */
  device: number | undefined = DEVICE
  readonly live = new Map<string, BoundAddress>()
  readonly routes = new Map<string, LocalRoute>()
  readonly doubts: string[] = []
  /** Port ids of the sockets that made such changes. */
  readonly writers: number[] = []
  nodeAddresses = 0
  /** Runs after each datagram has been sent. */
  afterDatagram: () => Promise<void> = async () => undefined
  readonly table = new AddressTable({
    getLink: async (name) =>
      this.device === undefined
        ? undefined
        : { index: this.device, name, kind: 'dummy', flags: 0, mtu: 1500, operState: 'down' },
    transact: async (batch) => {
      const outcomes = new Array<Outcome>(batch.count).fill(undefined)
      await this.afterDatagram()
      return outcomes
    },
    listAddresses: async () => [],
  })
  readonly listener = new LinkDoubts({
    dataplane: {
      device: { doubt: () => void this.doubts.push('device') },
      virtualAddresses: {
        addresses: {
          live: (address) => this.live.get(address),
          doubt: (keys) => void this.doubts.push(...(keys === 'all' ? ['all'] : keys)),
        },
        routes: {
          live: (address) => this.routes.get(address),
          doubt: (keys) => void this.doubts.push(...(keys === 'all' ? ['all routes'] : keys)),
        },
      },
    },
    table: this.table,
    onDoubt: () => undefined,
    onNodeAddresses: () => void this.nodeAddresses++,
    onForeignWrite: (portId) => void this.writers.push(portId),
  })

  constructor(...live: string[]) {
    for (const address of live) this.live.set(address, hostAddress(address))
    this.table.onDeviceMissing = () => this.listener.doubtDevice()
  }

  async opened(): Promise<this> {
    await this.table.list('all', signal)
    return this
  }

  address(change: 'new' | 'deleted', address: string, more: { prefixLength?: number; peer?: string } = {}): this {
    const family = familyOf(address)
    const prefixLength = family === 'IPv4' ? 32 : 128
    const announced = { family, address, prefixLength, interfaceIndex: DEVICE, scope: 0, flags: 0, ...more }
    this.listener.address({ kind: 'address', change, address: announced, portId: 812 })
    return this
  }

  link(change: 'new' | 'deleted', name: string, index = DEVICE): this {
    this.listener.link({
      kind: 'link',
      change,
      link: { index, name, kind: 'dummy', flags: 0, mtu: 1500, operState: 'down' },
    })
    return this
  }
}

describe('LinkDoubts', () => {
  it('doubts the device when it is deleted, made again or given another name', async () => {
    const doubts = async (hear: (bench: Bench) => void): Promise<[string[], number]> => {
      const bench = await new Bench('10.96.0.1').opened()
      hear(bench)
      return [bench.doubts, bench.nodeAddresses]
    }
    assert.deepEqual(await doubts((bench) => bench.link('deleted', 'kube-ipvs0')), [['device', 'all'], 0])
    assert.deepEqual(await doubts((bench) => bench.link('new', 'kube-ipvs0', 9)), [['device', 'all'], 0])
    assert.deepEqual(await doubts((bench) => bench.link('new', 'other')), [['device', 'all'], 1])
    // Its flags have changed.
    assert.deepEqual(await doubts((bench) => bench.link('new', 'kube-ipvs0')), [[], 0])
    assert.deepEqual(await doubts((bench) => bench.link('new', 'eth7', 11)), [[], 0])
    assert.deepEqual(await doubts((bench) => bench.link('deleted', 'eth7', 11)), [[], 1])
  })

  it('doubts an address that was added or deleted, or added with another prefix length or a peer', async () => {
    const bench = await new Bench('10.96.0.1', 'fd00::1').opened()
    bench.address('new', '10.96.0.1').address('deleted', '10.96.0.2').address('new', 'fd00::1')
    assert.deepEqual(bench.doubts, [], 'what is as it is known to be')
    bench.address('deleted', '10.96.0.1')
    bench.address('new', '10.96.0.2')
    bench.address('new', '10.96.0.1', { prefixLength: 24 })
    bench.address('new', 'fd00::1', { peer: 'fd00::2' })
    assert.deepEqual(bench.doubts, ['10.96.0.1', '10.96.0.2', '10.96.0.1', 'fd00::1'])
    assert.deepEqual(bench.writers, [812, 812, 812, 812])
  })

  it('compares announcements between two datagrams with what has been sent so far', async () => {
    const bench = await new Bench('fd00::1').opened()
    const addresses = Array.from({ length: 250 }, (_, index) => `fd00::5:${index + 1}`)
    let datagrams = 0
    bench.afterDatagram = async () => {
      if (++datagrams > 1) return
      // The kernel announces our own changes. One that was not sent yet is another program's, and
      // so is a deletion of what we added.
      bench.address('deleted', 'fd00::1').address('new', 'fd00::5:1').address('new', 'fd00::5:250')
      assert.deepEqual(bench.doubts, ['fd00::5:250'])
      bench.address('deleted', 'fd00::5:1').address('new', 'fd00::1')
    }
    const unbind = { kind: 'unbind', address: 'fd00::1', prefixLength: 128 } as const
    const binds = addresses.map((address) => ({ kind: 'bind', address, prefixLength: 128 }) as const)
    await bench.table.apply([unbind, ...binds], signal)
    assert.ok(datagrams >= 2, 'how many fit into one depends on the speed of the machine')
    assert.deepEqual(bench.doubts, ['fd00::5:250', 'fd00::5:1', 'fd00::1'])
    await turn()
    assert.equal(
      bench.table.isBoundSoon({ address: 'fd00::5:1', prefixLength: 128 }),
      undefined,
      'nothing is under way',
    )
  })

  it('doubts the device when an address cannot be added because the device is gone', async () => {
    const bench = await new Bench().opened()
    bench.device = undefined
    const [error] = await bench.table.apply([{ kind: 'bind', address: '10.96.0.1', prefixLength: 32 }], signal)
    assert.match(String(error), /kube-ipvs0 does not exist/)
    assert.deepEqual(bench.doubts, ['device', 'all'])
  })
})

describe('LinkDoubts of routes', () => {
  const route = {
    family: 'IPv4',
    destination: '10.96.0.1',
    prefixLength: 32,
    table: 255,
    type: 2,
    scope: 254,
    protocol: ROUTE_PROTOCOL,
    outInterfaceIndex: LOOPBACK_INDEX,
    preferredSource: '10.96.0.1',
  } as const

  function withRoute(): Bench {
    const bench = new Bench()
    bench.routes.set('10.96.0.1', localRoute('10.96.0.1', undefined))
    return bench
  }

  it('ignores an announcement that agrees with what is known', () => {
    const bench = withRoute()
    bench.listener.route({ kind: 'route', change: 'new', route, portId: 42 })
    bench.listener.route({
      kind: 'route',
      change: 'deleted',
      route: { ...route, preferredSource: '10.0.0.9' },
      portId: 42,
    })
    assert.deepEqual(bench.doubts, [])
  })

  it('doubts a virtual IP whose route was deleted, added or changed by another program', () => {
    for (const announced of [
      { kind: 'route', change: 'deleted', route, portId: 42 },
      { kind: 'route', change: 'new', route: { ...route, preferredSource: '10.0.0.9' }, portId: 42 },
      { kind: 'route', change: 'new', route: { ...route, protocol: 4 }, portId: 42 },
    ] as const) {
      const bench = withRoute()
      bench.listener.route(announced)
      assert.deepEqual(bench.doubts, ['10.96.0.1'])
    }
  })

  it('ignores routes of other tables and to other addresses', () => {
    const bench = withRoute()
    bench.listener.route({ kind: 'route', change: 'new', route: { ...route, table: 254 }, portId: 42 })
    bench.listener.route({
      kind: 'route',
      change: 'new',
      route: { ...route, destination: '10.96.0.2', protocol: 2 },
      portId: 42,
    })
    assert.deepEqual(bench.doubts, [])
  })

  it('doubts all routes when the loopback interface changes', () => {
    assert.deepEqual(withRoute().link('new', 'lo', LOOPBACK_INDEX).doubts, ['all routes'])
  })
})
