import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { IpvsDataplane, type IpvsTables } from '../../src/dataplane/ipvs.ts'
import type { Frontend } from '../../src/service/frontends.ts'
import { silentLog } from '../../src/values/log.ts'
import { MemoryTable } from '../support/memory-table.ts'

const signal = new AbortController().signal
const KEY = '10.96.0.1:80/tcp'

/** A dataplane whose virtual servers live in memory; device and addresses are not looked at. */
function world() {
  const table = new MemoryTable()
  const counts = new Map<string, { active: number; inactive: number }>()
  const nothing = {
    read: async () => new Map(),
    apply: async (ops: readonly unknown[]) => ops.map(() => undefined),
    diff: () => [],
    equal: () => true,
    step: () => undefined,
    direction: () => 'add',
    isOurs: () => false,
    format: () => '',
  }
  const tables = {
    virtualServers: Object.assign(table, { connections: async () => counts }),
    device: { ...nothing, name: 'device' },
    addresses: { ...nothing, name: 'addresses' },
  } as unknown as IpvsTables
  const clock = { nowMs: 0 }
  const dataplane = new IpvsDataplane({
    tables,
    scheduler: 'rr',
    families: ['IPv4'],
    drainDeadlineMs: undefined,
    now: () => clock.nowMs,
    log: silentLog,
  })
  return { table, counts, clock, dataplane, pass: () => dataplane.pass({ signal, mayRemove: true }) }
}

function frontend(...addresses: string[]): Frontend {
  const endpoints = addresses.map((address) => ({ address, port: 80 }))
  // Only what ipvs mode renders.
  return {
    key: KEY,
    kind: 'ClusterIP',
    family: 'IPv4',
    address: '10.96.0.1',
    port: 80,
    protocol: 'tcp',
    affinityTimeoutSeconds: 0,
    bind: false,
    endpoints,
  } as unknown as Frontend
}

const weights = (table: MemoryTable) => table.kernel.get(KEY)?.realServers.map((it) => `${it.address} ${it.weight}`)

describe('IpvsDataplane', () => {
  it('drains, waits for connections to end, then deletes', async () => {
    const { table, counts, clock, dataplane, pass } = world()
    dataplane.frontend(KEY, frontend('1.1.1.1', '2.2.2.2'))
    await pass()
    dataplane.frontend(KEY, frontend('2.2.2.2'))
    await pass()
    counts.set('1.1.1.1:80', { active: 0, inactive: 1 })
    assert.equal(dataplane.nextDueMs(), 1000)
    clock.nowMs = 1000
    await pass()
    assert.deepEqual(weights(table), ['1.1.1.1 0', '2.2.2.2 1'])
    counts.set('1.1.1.1:80', { active: 0, inactive: 0 })
    clock.nowMs = dataplane.nextDueMs() ?? 0
    await pass()
    assert.deepEqual(weights(table), ['2.2.2.2 1'])
    assert.equal(dataplane.nextDueMs(), undefined)
  })

  it('finds a drain that an earlier process began, also when it read the table before it knew what is wanted', async () => {
    const { table, counts, clock, dataplane, pass } = world()
    dataplane.frontend(KEY, frontend('1.1.1.1', '2.2.2.2'))
    await pass()
    dataplane.frontend(KEY, frontend('2.2.2.2'))
    await pass()
    const again = world()
    for (const [key, server] of table.kernel) again.table.kernel.set(key, server)
    await again.dataplane.pass({ signal, mayRemove: false })
    again.dataplane.frontend(KEY, frontend('2.2.2.2'))
    await again.pass()
    assert.deepEqual(weights(again.table), ['1.1.1.1 0', '2.2.2.2 1'])
    again.counts.set('1.1.1.1:80', { active: 0, inactive: 0 })
    again.clock.nowMs = again.dataplane.nextDueMs() ?? 0
    await again.pass()
    assert.deepEqual(weights(again.table), ['2.2.2.2 1'])
    assert.deepEqual([counts.size, clock.nowMs], [0, 0])
  })

  it('gives a real server that returns while it drains its weight back', async () => {
    const { table, dataplane, pass, clock } = world()
    for (const wanted of [frontend('1.1.1.1'), frontend(), frontend('1.1.1.1')]) {
      dataplane.frontend(KEY, wanted)
      await pass()
    }
    assert.deepEqual(weights(table), ['1.1.1.1 1'])
    assert.equal(dataplane.nextDueMs(), undefined)
    clock.nowMs = 5000
    await pass()
    assert.deepEqual(weights(table), ['1.1.1.1 1'])
  })

  it('leaves frontends of a family out that the kernel does not have', async () => {
    const { table, dataplane, pass } = world()
    dataplane.frontend(KEY, { ...frontend('1.1.1.1'), family: 'IPv6' })
    await pass()
    assert.equal(table.kernel.size, 0)
  })
})
