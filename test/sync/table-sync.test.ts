/** Which keys TableSync gives a pass, and in which order. The reconciler's tests cover the rest. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { VirtualServer, VirtualServerOperation } from '../../src/ipvs/types.ts'
import { TableSync } from '../../src/sync/table-sync.ts'
import { memoryVirtualServers } from '../support/memory-table.ts'
import { makeVirtualServer } from '../support/virtual-servers.ts'

const signal = new AbortController().signal
const item = makeVirtualServer('10.0.0.1')

/** A table that has been read, with these keys wanted. */
async function wanting(...keys: readonly string[]): Promise<TableSync<VirtualServer, VirtualServerOperation>> {
  const sync = new TableSync(memoryVirtualServers())
  await sync.read(signal)
  for (const key of keys) sync.want(key, item)
  return sync
}

describe('TableSync.takeDue', () => {
  it('gives each key once, in the order in which the keys became dirty', async () => {
    const sync = await wanting('a', 'b', 'c', 'd', 'e')
    assert.deepEqual(sync.takeDue(2), ['a', 'b'])
    sync.want('a', item)
    assert.deepEqual(sync.takeDue(2), ['c', 'd'])
    assert.deepEqual(sync.takeDue(9), ['e', 'a'])
    assert.deepEqual(sync.takeDue(9), [])
    sync.want('f', item)
    assert.deepEqual(sync.takeDue(9), ['f'])
  })

  it('gives a key that had to be read first once it was read, even after keys that became dirty later', async () => {
    const sync = await wanting('a', 'b', 'c')
    sync.doubt(['a'])
    assert.deepEqual(sync.takeDue(1), ['b'])
    await sync.read(signal)
    sync.want('d', item)
    assert.deepEqual(sync.takeDue(9), ['c', 'd', 'a'])
    assert.equal(sync.nextDueMs(), undefined)
  })

  it('gives 50,000 keys one by one', async () => {
    const keys = Array.from({ length: 50_000 }, (_, index) => `10.${index >> 8}.${index & 255}.1:80/tcp`)
    const sync = await wanting(...keys)
    const found: string[] = []
    for (let due = sync.takeDue(1); due.length > 0; due = sync.takeDue(1)) found.push(...due)
    assert.deepEqual(found, keys)
  })
})

describe('TableSync.plan', () => {
  it('shares an item that needs nothing, whether it was wanted before or after it was read', async () => {
    const table = memoryVirtualServers()
    table.kernel.set('a', makeVirtualServer('10.0.0.1'))
    const sync = new TableSync(table)
    await sync.read(signal)
    const wanted = makeVirtualServer('10.0.0.1')
    sync.want('a', wanted)
    assert.equal(sync.plan('a', true), undefined)
    assert.equal(sync.live('a'), wanted)
  })
})
