/** Which keys TableSync gives a pass, and in which order. The reconciler's tests cover the rest. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { VirtualServer, VirtualServerOperation } from '../../src/ipvs/types.ts'
import { TableSync } from '../../src/sync/table-sync.ts'
import { Budget } from '../../src/values/budget.ts'
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

/** Up to `limit` keys, as a pass takes them. */
function take(sync: Pick<TableSync<unknown, unknown>, 'takeDue'>, limit: number): readonly string[] {
  const taken: string[] = []
  for (let key = sync.takeDue(); key !== undefined; key = taken.length < limit ? sync.takeDue() : undefined)
    taken.push(key)
  return taken
}

describe('TableSync.takeDue', () => {
  it('gives each key once, in the order in which the keys became dirty', async () => {
    const sync = await wanting('a', 'b', 'c', 'd', 'e')
    assert.deepEqual(take(sync, 2), ['a', 'b'])
    sync.want('a', item)
    assert.deepEqual(take(sync, 2), ['c', 'd'])
    assert.deepEqual(take(sync, 9), ['e', 'a'])
    assert.deepEqual(take(sync, 9), [])
    sync.want('f', item)
    assert.deepEqual(take(sync, 9), ['f'])
  })

  it('gives a key that had to be read first once it was read, even after keys that became dirty later', async () => {
    const sync = await wanting('a', 'b', 'c')
    sync.doubt(['a'])
    assert.deepEqual(take(sync, 1), ['b'])
    await sync.read(signal)
    sync.want('d', item)
    assert.deepEqual(take(sync, 9), ['c', 'd', 'a'])
    assert.equal(sync.nextDueMs(), undefined)
  })

  it('gives 50,000 keys one by one', async () => {
    const keys = Array.from({ length: 50_000 }, (_, index) => `10.${index >> 8}.${index & 255}.1:80/tcp`)
    const sync = await wanting(...keys)
    assert.deepEqual(take(sync, keys.length), keys)
  })
})

describe('TableSync.read', () => {
  it('gives others their turn, and what they doubt meanwhile is read again', async () => {
    const table = memoryVirtualServers()
    const keys = Array.from({ length: 20 }, (_, index) => `key-${index}`)
    for (const key of keys) table.kernel.set(key, item)
    const sync = new TableSync(table)
    let [nowMs, turns] = [0, 0]
    const nextTurn = async (): Promise<void> => {
      if (++turns === 1) sync.doubt(['key-0', 'key-19'])
    }
    // Each look at the clock takes a millisecond.
    await sync.read(signal, new Budget({ now: () => nowMs++, nextTurn }))
    assert.ok(turns >= 5, `${turns} turns`)
    assert.deepEqual(take(sync, 99), keys.slice(1, -1))
    await sync.read(signal)
    assert.equal(table.readKeys, 2)
    assert.deepEqual(take(sync, 99), ['key-0', 'key-19'])
  })

  it('looks at the clock for each key of the mirror, of what is wanted and of what was found', async () => {
    const table = memoryVirtualServers()
    const keys = Array.from({ length: 100 }, (_, index) => `key-${index}`)
    for (const key of keys) table.kernel.set(key, item)
    const sync = new TableSync(table)
    for (const key of keys) sync.want(key, item)
    await sync.read(signal)
    table.kernel.delete('key-7')
    table.kernel.set('key-100', item)
    sync.forget()
    let looks = 0
    const now = (): number => {
      looks++
      return 0
    }
    await sync.read(signal, new Budget({ now }))
    assert.ok(looks >= 300, `${looks} looks`)
    assert.deepEqual([sync.live('key-7'), sync.live('key-100'), sync.liveCount], [undefined, item, 100])
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

describe('TableSync.read', () => {
  /** Doubts while the kernel lists; what the list returned may be older. */
  const doubting = (doubt: (sync: TableSync<VirtualServer, VirtualServerOperation>) => void) => {
    const table = memoryVirtualServers()
    table.kernel.set('a', item)
    let isFirst = true
    const sync: TableSync<VirtualServer, VirtualServerOperation> = new TableSync({
      kind: table.kind,
      apply: table.apply.bind(table),
      async list(keys) {
        const listed = await table.list(keys)
        if (isFirst) {
          isFirst = false
          // Another program removes the item as soon as it is listed, and the kernel announces that at once.
          table.kernel.delete('a')
          doubt(sync)
        }
        return listed
      },
    })
    sync.want('a', item)
    return sync
  }

  it('reads everything again that was doubted while it was being read', async () => {
    const sync = doubting((one) => one.doubt('all'))
    await sync.read(signal)
    assert.equal(sync.isKnown, false)
    await sync.read(signal)
    assert.deepEqual([sync.live('a'), sync.isKnown], [undefined, true])
  })

  it('reads a key again that was doubted while all keys, or this one, were being read', async () => {
    const sync = doubting((one) => one.doubt(['a']))
    await sync.read(signal)
    assert.deepEqual([sync.live('a') === item, take(sync, 9)], [true, []])
    await sync.read(signal)
    assert.deepEqual([sync.live('a'), take(sync, 9)], [undefined, ['a']])
    const known = await wanting()
    known.want('a', item)
    known.doubt(['a'])
    const reading = known.read(signal)
    known.doubt(['a'])
    await reading
    assert.deepEqual(take(known, 9), [])
    await known.read(signal)
    assert.deepEqual(take(known, 9), ['a'])
  })

  it('keeps what is unread when the kernel cannot be read', async () => {
    const table = memoryVirtualServers()
    let fails = false
    const sync = new TableSync({
      kind: table.kind,
      apply: table.apply.bind(table),
      list: (keys) => (fails ? Promise.reject(new Error('EBUSY')) : table.list(keys)),
    })
    await sync.read(signal)
    fails = true
    for (const keys of [['a'], 'all'] as const) {
      sync.doubt(keys)
      await assert.rejects(sync.read(signal), /EBUSY/)
      await assert.rejects(sync.read(signal), /EBUSY/, 'it asks again')
    }
  })
})
