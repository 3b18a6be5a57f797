import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { drainingRealServers, sameRealServer } from '../../src/ipvs/diff.ts'
import {
  compareRealServers,
  type RealServer,
  realServerKey,
  type VirtualServer,
  virtualServerKey,
} from '../../src/ipvs/types.ts'
import { commandsOf } from '../../src/sync/plan.ts'
import { reconciled } from '../../src/sync/reconciled.ts'
import { Reconciler } from '../../src/sync/reconciler.ts'
import { TableSync } from '../../src/sync/table-sync.ts'
import { memoryVirtualServers } from '../support/memory-table.ts'
import {
  liveVirtualServer,
  makeRealServer as real,
  makeVirtualServer,
  wantedVirtualServer,
} from '../support/virtual-servers.ts'
import fc from 'fast-check'

const signal = new AbortController().signal

class World {
  readonly table = memoryVirtualServers()
  readonly sync = new TableSync(this.table)
  readonly reconciler = new Reconciler([reconciled(this.sync)])
  nowMs = 0

  put(...servers: VirtualServer[]): this {
    for (const server of servers) this.table.kernel.set(virtualServerKey(server), server)
    return this
  }

  want(...servers: VirtualServer[]): this {
    for (const server of servers) this.sync.want(virtualServerKey(server), server)
    return this
  }

  pass(mayRemove = true, idle?: ReadonlyMap<string, ReadonlySet<string>>) {
    const options = { signal, now: () => this.nowMs, mayRemove }
    return this.reconciler.pass(idle === undefined ? options : { ...options, idle })
  }

  /** Live state without draining real servers. */
  settled(): Map<string, VirtualServer> {
    const settled = new Map<string, VirtualServer>()
    for (const [key, live] of this.table.kernel) {
      const draining = new Set(drainingRealServers(this.sync.desired(key), live))
      settled.set(key, { ...live, realServers: live.realServers.filter((it) => !draining.has(realServerKey(it))) })
    }
    return settled
  }
}

const virtual = (address: string, ...servers: RealServer[]) => makeVirtualServer(address, servers)
const KEY = '10.0.0.1:80/tcp'

describe('Reconciler', () => {
  it('adopts a live table without changing correct items', async () => {
    const server = virtual('10.0.0.1', real('1.1.1.1'), real('1.1.1.2'))
    const world = new World().put(server).want(structuredClone(server))
    assert.deepEqual({ ...(await world.pass()) }.applied, 0)
    assert.deepEqual(world.table.applied, [])
  })

  it('removes nothing until removals are allowed', async () => {
    const world = new World()
      .put(virtual('10.0.0.1', real('1.1.1.1')), virtual('10.0.0.2'))
      .want(virtual('10.0.0.2', real('1.1.1.1')))
    await world.pass(false)
    assert.deepEqual(world.table.applied, ['ipvsadm -a -t 10.0.0.2:80 -r 1.1.1.1:80 -m -w 1'])
    await world.pass(true)
    assert.deepEqual(world.table.applied.slice(1), ['ipvsadm -D -t 10.0.0.1:80'])
  })

  it('never removes an item that is not ours', async () => {
    const world = new World().put(virtual('10.0.0.1', real('1.1.1.1')))
    world.table.foreign = new Set([KEY])
    await world.pass()
    assert.equal(world.table.kernel.size, 1)
  })

  it('repairs and reports a foreign change after the key was doubted', async () => {
    const world = new World().want(virtual('10.0.0.1', real('1.1.1.1')))
    await world.pass()
    world.table.kernel.set(KEY, virtual('10.0.0.1', real('1.1.1.1', 7)))
    world.sync.doubt([KEY])
    const report = await world.pass()
    assert.deepEqual(report.repairs, [
      { key: KEY, commands: ['ipvsadm -e -t 10.0.0.1:80 -r 1.1.1.1:80 -m -w 1'], times: 1, table: 'virtual-servers' },
    ])
    world.sync.doubt([KEY])
    assert.deepEqual((await world.pass()).repairs, [])
  })

  it('delays repairs of a key that needs them repeatedly', async () => {
    const world = new World().want(virtual('10.0.0.1'))
    await world.pass()
    const repairTimes: number[] = []
    for (; world.nowMs < 30_000; world.nowMs += 100) {
      if (world.table.kernel.delete(KEY)) world.sync.doubt([KEY])
      if ((await world.pass()).repairs.length > 0) repairTimes.push(world.nowMs)
    }
    assert.ok(repairTimes.length < 10, `${repairTimes}`)
    const gaps = repairTimes.slice(1).map((at, index) => at - (repairTimes[index] ?? 0))
    assert.deepEqual(
      gaps,
      gaps.toSorted((a, b) => a - b),
    )
  })

  it('counts repairs from the third one on, and neither counts nor delays a change of ours to a doubted key', async () => {
    const world = new World().want(virtual('10.0.0.1'))
    await world.pass()
    for (let round = 0; round < 3; round++) {
      world.table.kernel.delete(KEY)
      world.sync.doubt([KEY])
      await world.pass()
    }
    assert.deepEqual([world.sync.counts.repaired, world.sync.counts.contested], [3, 1])
    world.table.kernel.delete(KEY)
    world.sync.doubt([KEY])
    const waiting = await world.pass()
    assert.deepEqual([waiting.applied, world.table.kernel.size], [0, 0])
    const report = await world.want(virtual('10.0.0.1', real('1.1.1.1'))).pass()
    assert.deepEqual([report.repairs, world.table.kernel.size], [[], 1])
    assert.deepEqual([world.sync.counts.repaired, world.sync.counts.contested], [3, 1])
  })

  it('keeps a real server when its replacement could not be added', async () => {
    const world = new World().want(virtual('10.0.0.1', real('1.1.1.1')))
    await world.pass()
    world.table.fails = (op) => op.kind === 'add-real-server'
    world.want(virtual('10.0.0.1', real('2.2.2.2')))
    const report = await world.pass()
    assert.equal(report.failures.length, 1)
    assert.deepEqual(world.table.kernel.get(KEY)?.realServers, [real('1.1.1.1')])
  })

  it('removes real servers although another one is refused, once a usable one exists', async () => {
    const world = new World().want(virtual('10.0.0.1', real('1.1.1.1'), real('1.1.1.2')))
    await world.pass()
    world.table.fails = (op) => op.kind === 'add-real-server' && op.realServer.address === '239.1.1.1'
    world.want(virtual('10.0.0.1', real('1.1.1.3'), real('239.1.1.1')))
    const [failure] = (await world.pass()).failures
    assert.deepEqual(world.table.kernel.get(KEY)?.realServers, [
      real('1.1.1.1', 0),
      real('1.1.1.2', 0),
      real('1.1.1.3'),
    ])
    assert.equal(world.reconciler.nextDueMs(), failure?.retryAtMs, 'the refused one is still retried')
    world.nowMs = failure?.retryAtMs ?? 0
    assert.equal((await world.pass()).failures[0]?.attempts, 2)
  })

  it('keeps a removed real server while the only other one has weight 0 in the kernel', async () => {
    const world = new World().want(virtual('10.0.0.1', real('1.1.1.1')))
    await world.pass()
    world.table.kernel.set(KEY, virtual('10.0.0.1', real('1.1.1.1'), real('2.2.2.2', 0)))
    world.sync.doubt([KEY])
    world.table.fails = (op) => op.kind === 'edit-real-server' && op.realServer.address === '2.2.2.2'
    world.want(virtual('10.0.0.1', real('2.2.2.2')))
    await world.pass()
    assert.deepEqual(world.table.kernel.get(KEY)?.realServers, [real('1.1.1.1'), real('2.2.2.2', 0)])
  })

  it('drops a planned removal when the wanted item changes while operations of the key fail', async () => {
    const world = new World().want(virtual('10.0.0.1', real('1.1.1.1'), real('1.1.1.2')))
    await world.pass()
    world.table.fails = (op) => {
      if (op.kind !== 'add-real-server') return false
      world.want(virtual('10.0.0.1', real('1.1.1.1'), real('1.1.1.3')))
      return op.realServer.address === '239.1.1.1'
    }
    world.want(virtual('10.0.0.1', real('1.1.1.2'), real('1.1.1.3'), real('239.1.1.1')))
    await world.pass()
    assert.deepEqual(world.table.kernel.get(KEY)?.realServers, [real('1.1.1.1'), real('1.1.1.2'), real('1.1.1.3')])
    world.nowMs += 500
    await world.pass()
    assert.deepEqual(world.settled().get(KEY)?.realServers, [real('1.1.1.1'), real('1.1.1.3')])
  })

  it('drops a planned removal when the item is wanted again in the same pass', async () => {
    const world = new World().want(virtual('10.0.0.1'))
    await world.pass()
    // It is in the first of two slices.
    world.sync.want(KEY, undefined)
    for (let index = 0; index < 300; index++) world.want(virtual(`10.1.${index >> 8}.${index & 255}`))
    let isFirst = true
    world.table.fails = () => {
      if (isFirst) world.want(virtual('10.0.0.1'))
      isFirst = false
      return false
    }
    await world.pass()
    assert.equal(world.table.kernel.size, 301)
  })

  it('adds no item that may not be added yet, until it is released', async () => {
    const allowed = new Set(['10.0.0.2:80/tcp'])
    const table = memoryVirtualServers()
    const sync = new TableSync(table, { mayAdd: (key) => allowed.has(key) })
    const reconciler = new Reconciler([reconciled(sync)])
    const pass = () => reconciler.pass({ signal, now: () => 0, mayRemove: true })
    const want = (server: VirtualServer) => sync.want(virtualServerKey(server), server)
    for (const address of ['10.0.0.1', '10.0.0.2', '10.0.0.3']) want(virtual(address))
    await pass()
    assert.deepEqual([...table.kernel.keys()], ['10.0.0.2:80/tcp'])
    assert.equal(reconciler.nextDueMs(), undefined, 'nothing is due while it waits')
    assert.equal(sync.waitingCount, 2)
    sync.want('10.0.0.3:80/tcp', undefined)
    allowed.add(KEY)
    await pass()
    assert.equal(table.kernel.size, 1)
    sync.release()
    await pass()
    assert.deepEqual([...table.kernel.keys()].sort(), [KEY, '10.0.0.2:80/tcp'])
    assert.equal(sync.waitingCount, 0)
    // Existing items are changed and removed although no item may be added.
    allowed.clear()
    want(virtual('10.0.0.1', real('1.1.1.1')))
    sync.want('10.0.0.2:80/tcp', undefined)
    await pass()
    assert.deepEqual(table.kernel.get(KEY)?.realServers.length, 1)
    assert.equal(table.kernel.size, 1)
  })

  it('writes the tables of one stage in turns, a stretch of each', async () => {
    const journal: string[] = []
    const syncs = ['a', 'b'].map((name) => {
      const table = memoryVirtualServers()
      table.fails = (op) => {
        journal.push(`${name} ${op.key}`)
        return false
      }
      const sync = new TableSync(table)
      for (let index = 0; index < 250; index++) {
        const server = virtual(`10.1.${index >> 8}.${index & 255}`)
        sync.want(virtualServerKey(server), server)
      }
      return sync
    })
    await new Reconciler([syncs.map((sync) => reconciled(sync))]).pass({ signal, now: () => 0, mayRemove: true })
    assert.equal(journal.length, 500)
    const last = journal.indexOf('a 10.1.0.249:80/tcp')
    assert.ok(journal.indexOf('b 10.1.0.0:80/tcp') < last && last < journal.indexOf('b 10.1.0.249:80/tcp'))
  })

  it('lets others have a turn after each stretch of planning, however long a key takes and whether it needs anything', async () => {
    const table = memoryVirtualServers()
    let [nowMs, planned, longest] = [0, 0, 0]
    const sync = new TableSync(table, {
      mayAdd: () => {
        nowMs += 0.5
        planned++
        return planned > 150
      },
    })
    for (let index = 0; index < 200; index++) {
      const server = virtual(`10.1.0.${index}`)
      sync.want(virtualServerKey(server), server)
    }
    const pass = new Reconciler([reconciled(sync)]).pass({ signal, now: () => nowMs, mayRemove: true })
    let isOver = false
    void pass.then(() => (isOver = true))
    while (!isOver) {
      const before = planned
      await new Promise((resolve) => setImmediate(resolve))
      longest = Math.max(longest, planned - before)
    }
    assert.equal(planned, 200)
    assert.ok(longest <= 4, `${longest} keys in one turn`)
    assert.equal(table.kernel.size, 50)
  })

  it('applies no more keys at once after one with very many operations', async () => {
    const table = memoryVirtualServers()
    const calls: number[] = []
    const apply = table.apply.bind(table)
    table.apply = (ops) => {
      calls.push(ops.length)
      return apply(ops)
    }
    const sync = new TableSync(table)
    const servers = Array.from({ length: 1000 }, (_, index) => real(`10.2.${index >> 8}.${index & 255}`))
    for (let index = 0; index < 5; index++) {
      const server = virtual(`10.1.0.${index}`, ...servers.toSorted(compareRealServers))
      sync.want(virtualServerKey(server), server)
    }
    await new Reconciler([reconciled(sync)]).pass({ signal, now: () => 0, mayRemove: true })
    assert.deepEqual(
      calls.filter((length) => length > 0),
      [1001, 1001, 1001, 1001, 1001],
    )
  })

  it('remembers the first error of a key, which is the cause of the others', async () => {
    const world = new World().want(virtual('10.0.0.1', real('1.1.1.1'), real('1.1.1.2')))
    world.table.fails = (op) => op.kind === 'add-virtual-server'
    const { failures } = await world.pass()
    assert.equal(new Set(failures.map(({ error }) => error.message)).size, 2)
    assert.deepEqual([...world.sync.failing()], [[KEY, failures[0]?.error]])
  })

  it('retries a failing key with growing waits while other keys succeed', async () => {
    const world = new World().want(virtual('10.0.0.1'), virtual('10.0.0.2'))
    let tries = 0
    world.table.fails = (op) => op.key === KEY && ++tries > 0
    await world.pass()
    assert.deepEqual([...world.table.kernel.keys()], ['10.0.0.2:80/tcp'])
    const triesAt: number[] = []
    for (; world.nowMs < 120_000; world.nowMs += 500) {
      const before = tries
      await world.pass()
      if (tries > before) triesAt.push(world.nowMs)
    }
    assert.deepEqual(triesAt.slice(0, 4), [500, 1500, 3500, 7500])
    world.table.fails = () => false
    world.nowMs += 30_000
    await world.pass()
    assert.equal(world.table.kernel.size, 2)
  })

  describe('with many keys that the kernel refuses', () => {
    /** RETRY_KEYS of the reconciler. */
    const retried = 16
    const refused = (key: string): boolean => key.startsWith('10.9.')
    const world = async (count: number): Promise<World & { readonly tries: string[] }> => {
      const made = Object.assign(new World(), { tries: [] as string[] })
      for (let index = 0; index < count; index++) made.want(virtual(`10.9.${index >> 8}.${index & 255}`))
      made.table.fails = (op) => made.tries.push(op.key) > 0 && refused(op.key)
      await made.pass()
      assert.equal(made.tries.length, count)
      made.tries.length = 0
      made.nowMs += 60_000
      return made
    }

    it('retries a bounded number of them in one pass, after keys that never failed', async () => {
      const hostile = await world(1000)
      const reads = hostile.table.readKeys
      hostile.want(virtual('10.0.0.1'))
      await hostile.pass()
      assert.equal(hostile.tries[0], KEY)
      assert.equal(hostile.tries.length, retried + 1)
      assert.equal(hostile.table.readKeys - reads, retried)
    })

    it('retries no more of them in any pass before a pause ends', async () => {
      const hostile = await world(1000)
      await hostile.pass()
      const dueMs = hostile.reconciler.nextDueMs() ?? 0
      assert.equal(dueMs, hostile.nowMs + 250)
      hostile.tries.length = 0
      hostile.want(virtual('10.0.0.1'))
      await hostile.pass()
      assert.deepEqual(hostile.tries, [KEY])
      hostile.nowMs = dueMs
      await hostile.pass()
      assert.equal(hostile.tries.length, retried + 1)
    })

    it('retries each of them in turn', async () => {
      const hostile = await world(4 * retried)
      for (let passes = 0; passes < 4; passes++) {
        await hostile.pass()
        hostile.nowMs += 250
      }
      assert.equal(new Set(hostile.tries).size, 4 * retried)
    })

    it('continues in the same pass while retries succeed', async () => {
      const hostile = await world(1000)
      hostile.table.fails = () => false
      await hostile.pass()
      assert.equal(hostile.table.kernel.size, 1000)
      assert.equal(hostile.reconciler.nextDueMs(), undefined)
    })
  })

  it('changes nothing when the table cannot be read', async () => {
    const world = new World().put(virtual('10.0.0.9'))
    world.table.failRead = true
    const report = await world.pass()
    assert.equal(report.unreadable.length, 1)
    assert.equal(world.table.kernel.size, 1)
    world.table.failRead = false
    world.nowMs += 1000
    await world.pass()
    assert.equal(world.table.kernel.size, 0)
  })

  it('deletes a drained real server once it had no connections', async () => {
    const world = new World().want(virtual('10.0.0.1', real('1.1.1.1'), real('2.2.2.2')))
    await world.pass()
    world.want(virtual('10.0.0.1', real('2.2.2.2')))
    await world.pass()
    assert.deepEqual(world.table.kernel.get(KEY)?.realServers, [real('1.1.1.1', 0), real('2.2.2.2')])
    world.sync.touch(KEY)
    await world.pass(true, new Map([[KEY, new Set(['1.1.1.1:80'])]]))
    assert.deepEqual(world.table.kernel.get(KEY)?.realServers, [real('2.2.2.2')])
  })

  it('plans a row for each item of ours, with the commands of a pass in order, and changes nothing', async () => {
    const world = new World()
      .put(
        virtual('10.0.0.1', real('1.1.1.1', 0)),
        virtual('10.0.0.3'),
        virtual('10.0.0.4', real('4.4.4.4')),
        virtual('10.0.0.5', real('1.1.1.1'), real('5.5.5.5')),
        virtual('10.0.0.9'),
      )
      .want(virtual('10.0.0.1'), virtual('10.0.0.2', real('3.3.3.3')), virtual('10.0.0.4', real('4.4.4.4')))
      .want(virtual('10.0.0.5', real('5.5.5.5', 7)))
    world.table.foreign = new Set(['10.0.0.9:80/tcp'])
    const plan = () => world.reconciler.plan({ signal, now: () => 0 })
    const states = async () => (await plan()).map(({ table, key, state }) => `${table} ${key} ${state}`)
    const rows = await plan()
    assert.deepEqual(await states(), [
      'virtual-servers 10.0.0.1:80/tcp draining',
      'virtual-servers 10.0.0.2:80/tcp missing',
      'virtual-servers 10.0.0.4:80/tcp present',
      'virtual-servers 10.0.0.5:80/tcp differs',
      'virtual-servers 10.0.0.3:80/tcp extra',
    ])
    assert.deepEqual([world.table.applied, world.table.reads], [[], 1])
    await world.pass()
    assert.deepEqual(commandsOf(rows), world.table.applied)
    assert.equal(world.table.applied.length, 5)
    assert.deepEqual(new Set((await states()).map((row) => row.split(' ')[2])), new Set(['draining', 'present']))
    assert.deepEqual(commandsOf(await plan()), [])
  })

  it('reaches the desired state except what the kernel refuses, and never removes the last usable real server', async () => {
    const change = fc.record({
      server: wantedVirtualServer,
      refused: fc.uniqueArray(fc.constantFrom<string>('10.244.0.1', '10.244.0.2', '10.244.0.10', 'fd00:10:244::1')),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 8 }), async (changes) => {
        const world = new World()
        const usable = (key: string) =>
          world.table.kernel.get(key)?.realServers.filter(({ weight }) => weight > 0) ?? []
        for (const { server, refused } of changes) {
          const key = virtualServerKey(server)
          const accepted = server.realServers.filter(({ address }) => !refused.includes(address))
          let serves = usable(key).length > 0
          // Called before each operation, so it sees the state after the previous one.
          world.table.fails = (op) => {
            if (server.realServers.length > 0) assert.ok(!serves || usable(key).length > 0)
            serves = usable(key).length > 0
            const writes = (op.kind === 'add-real-server' || op.kind === 'edit-real-server') && op.realServer.weight > 0
            return writes && refused.includes(op.realServer.address)
          }
          world.want(server)
          for (let passes = 0; passes < 3; passes++, world.nowMs += 60_000) await world.pass()
          if (server.realServers.length > 0) assert.ok(!serves || usable(key).length > 0)
          if (accepted.length === 0) continue
          const wanted = new Set(server.realServers.map(realServerKey))
          for (const one of usable(key)) assert.ok(wanted.has(realServerKey(one)))
          for (const one of accepted)
            assert.ok(
              world.table.kernel
                .get(key)
                ?.realServers.some((it) => realServerKey(it) === realServerKey(one) && sameRealServer(it, one)),
            )
        }
      }),
      { numRuns: 300 },
    )
  })

  it('reaches the desired state from any state after any sequence of failures', async () => {
    const servers = (one: fc.Arbitrary<VirtualServer>) =>
      fc.uniqueArray(one, { selector: virtualServerKey, maxLength: 5 })
    const change = fc.oneof(
      fc.record({ kind: fc.constant('want' as const), server: wantedVirtualServer }),
      fc.record({ kind: fc.constant('unwant' as const), server: wantedVirtualServer }),
      fc.record({ kind: fc.constant('by hand' as const), server: liveVirtualServer }),
      fc.record({ kind: fc.constant('delete by hand' as const), server: liveVirtualServer }),
    )
    await fc.assert(
      fc.asyncProperty(
        servers(liveVirtualServer),
        fc.array(change, { maxLength: 12 }),
        fc.infiniteStream(fc.boolean()),
        async (live, changes, luck) => {
          const world = new World().put(...live)
          world.table.fails = () => luck.next().value === true
          const target = new Map<string, VirtualServer>()
          for (const { kind, server } of changes) {
            const key = virtualServerKey(server)
            if (kind === 'want') world.sync.want(key, server)
            if (kind === 'unwant') world.sync.want(key, undefined)
            if (kind === 'want') target.set(key, server)
            if (kind === 'unwant') target.delete(key)
            if (kind === 'by hand') world.table.kernel.set(key, server)
            if (kind === 'delete by hand') world.table.kernel.delete(key)
            if (kind.includes('hand')) world.sync.doubt([key])
            await world.pass()
            world.nowMs += 100
          }
          world.table.fails = () => false
          for (let passes = 0; passes < 5; passes++) {
            world.nowMs += 60_000
            await world.pass()
          }
          assert.deepEqual(world.settled(), target)
          const before = world.table.applied.length
          world.sync.doubt('all')
          await world.pass()
          assert.equal(world.table.applied.length, before)
        },
      ),
      { numRuns: 300 },
    )
  })
})
