/** Virtual IPs as addresses and as local routes, and the change from one to the other. */
import assert from 'node:assert/strict'
import { beforeEach, describe, it } from 'node:test'
import { VirtualAddresses } from '../../../src/modes/ipvs/virtual-addresses.ts'
import { Reconciler } from '../../../src/sync/reconciler.ts'
import { MemoryWorld } from '../../support/memory-world.ts'

const VIPS = ['10.96.0.1', '10.96.0.2', 'fd00::1']
const keyOf = (vip: string): string => (vip.includes(':') ? `[${vip}]:80/tcp` : `${vip}:80/tcp`)

describe('VirtualAddresses', () => {
  let world: MemoryWorld
  let virtual: VirtualAddresses
  let reconciler: Reconciler

  beforeEach(() => {
    world = new MemoryWorld(['IPv4', 'IPv6'])
    start('addresses')
  })

  function start(kind: 'addresses' | 'routes'): void {
    virtual = new VirtualAddresses(world)
    virtual.use(kind)
    reconciler = new Reconciler(virtual.tables)
    world.journal.length = 0
  }

  async function passes(): Promise<string[]> {
    world.journal.length = 0
    const now = (): number => world.nowMs
    for (let pass = 0; pass < 3; pass++)
      await reconciler.pass({ signal: new AbortController().signal, now, mayRemove: true })
    return [...world.journal]
  }

  /** Runs after each command: every virtual IP is an address or a route. */
  function checkAlwaysLocal(): void {
    const push = world.journal.push.bind(world.journal)
    world.journal.push = (...commands) => {
      for (const vip of VIPS)
        assert.ok(world.addresses.kernel.has(vip) || world.routes.kernel.has(vip), `${vip} after ${commands.join()}`)
      return push(...commands)
    }
  }

  it('adds an address or a route, by the setting', async () => {
    virtual.set(keyOf('10.96.0.1'), true)
    assert.deepEqual(await passes(), ['ip address add 10.96.0.1/32 dev kube-ipvs0'])
    start('routes')
    virtual.setSources({ IPv4: '192.168.0.7' })
    for (const vip of VIPS) virtual.set(keyOf(vip), true)
    assert.deepEqual(await passes(), [
      'ip route prepend local 10.96.0.1 dev lo table local src 192.168.0.7 proto 73',
      'ip route prepend local 10.96.0.2 dev lo table local src 192.168.0.7 proto 73',
      'ip -6 route add local fd00::1 dev lo table local proto 73',
      'ip address delete 10.96.0.1/32 dev kube-ipvs0',
    ])
    assert.deepEqual(await passes(), [])
  })

  it('keeps every virtual IP local while the setting changes, in both directions', async () => {
    for (const vip of VIPS) virtual.set(keyOf(vip), true)
    await passes()
    checkAlwaysLocal()
    for (const kind of ['routes', 'addresses', 'routes'] as const) {
      virtual.use(kind)
      await passes()
      const [here, there] = kind === 'routes' ? [world.routes, world.addresses] : [world.addresses, world.routes]
      assert.deepEqual([...here.kernel.keys()].sort(), [...VIPS].sort())
      assert.equal(there.kernel.size, 0)
    }
  })

  it('keeps an address whose route cannot be added', async () => {
    for (const vip of VIPS) virtual.set(keyOf(vip), true)
    await passes()
    checkAlwaysLocal()
    world.fails = (command) => command.includes('prepend local 10.96.0.2')
    virtual.use('routes')
    await passes()
    assert.deepEqual([...world.addresses.kernel.keys()], ['10.96.0.2'])
    world.fails = () => false
    world.nowMs += 60_000
    await passes()
    assert.equal(world.addresses.kernel.size, 0)
    assert.ok(world.routes.kernel.has('10.96.0.2'))
  })

  it('changes the source of every route of the family when the address of the node changes', async () => {
    start('routes')
    for (const vip of VIPS) virtual.set(keyOf(vip), true)
    await passes()
    checkAlwaysLocal()
    virtual.setSources({ IPv6: 'fd07::7' })
    assert.deepEqual(await passes(), ['ip -6 route replace local fd00::1 dev lo table local src fd07::7 proto 73'])
  })

  it('removes a virtual IP with its last frontend from both tables', async () => {
    for (const vip of VIPS) virtual.set(keyOf(vip), true)
    await passes()
    start('routes')
    for (const vip of VIPS) virtual.set(keyOf(vip), true)
    virtual.set(keyOf('10.96.0.1'), false)
    await passes()
    assert.equal(world.addresses.kernel.size, 0)
    assert.deepEqual([...world.routes.kernel.keys()], ['10.96.0.2', 'fd00::1'])
  })
})
