/** When what other proxies left is removed, and what happens while one keeps writing. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LeftoverRemoval, LeftoverRemovals } from '../../../src/modes/ipvs/leftover-removals.ts'
import { AuditShare } from '../../../src/sync/audit.ts'
import type { Budget } from '../../../src/values/budget.ts'
import type { Problem } from '../../../src/values/errors.ts'
import { stretchesOf } from '../../support/budgets.ts'
import { someTurns } from '../../support/memory-world.ts'

const signal = new AbortController().signal
const share = new AuditShare({ share: 1, now: () => 0, sleep: async () => undefined })

class World {
  nowMs = 0
  isThere = true
  isSpare = true
  finds = 0
  removals = 0
  problems: readonly Problem[] = []
  work: (budget: Budget) => Promise<void> = async () => undefined
  remove = async (): Promise<void> => {
    this.isThere = false
  }
  readonly removal = new LeftoverRemoval({
    kind: 'rules',
    find: async (_, budget) => {
      this.finds++
      await this.work(budget)
      return this.isThere
    },
    remove: async () => {
      this.removals++
      await this.remove()
    },
    isSpare: () => this.isSpare,
    problems: { report: (_, __, found) => void (this.problems = found) },
    now: () => this.nowMs,
  })

  async look(): Promise<void> {
    await this.removal.look(share, signal)
    await someTurns(3)
  }
}

test('what comes back is removed again, but not before the first removal and not while it is needed', async () => {
  const world = new World()
  await world.look()
  assert.deepEqual([world.finds, world.removals], [0, 0])
  world.isSpare = false
  assert.equal(world.removal.begin(), false)
  world.isSpare = true
  assert.deepEqual([world.removal.begin(), world.removal.begin()], [true, false])
  await someTurns(3)
  assert.equal(world.removals, 1)
  world.nowMs += 600_000
  await world.look()
  assert.deepEqual([world.finds, world.removals], [1, 1])
  world.isThere = true
  world.isSpare = false
  for (let looks = 0; looks < 5; looks++) await world.look()
  assert.deepEqual([world.finds, world.removals, world.problems], [6, 1, []])
  world.isSpare = true
  await world.look()
  assert.deepEqual([world.removals, world.isThere], [2, false])
  await world.removal.close()
})

test('while another proxy keeps writing, looks become rarer, and a problem says so until it is quiet', async () => {
  const world = new World()
  world.removal.begin()
  await someTurns(3)
  for (const end = world.nowMs + 3_600_000; world.nowMs < end; world.nowMs += 10_000) {
    world.isThere = true
    await world.look()
  }
  assert.ok(world.removals < 16, `${world.removals} removals`)
  const [problem, ...more] = world.problems
  assert.match(`${problem?.code} ${problem?.message}`, /^rival-rules rules of another proxy came back \d+ times/)
  assert.equal(more.length, 0)
  world.isThere = false
  world.nowMs += 600_000
  await world.look()
  assert.deepEqual(world.problems, [])
  await world.removal.close()
})

test('a look rests in proportion to all of its work', async () => {
  const world = new World()
  const rests: number[] = []
  const sleep = async (ms: number): Promise<void> => void rests.push(ms)
  const small = new AuditShare({ share: 0.001, now: () => world.nowMs, sleep })
  world.removal.begin()
  await someTurns(3)
  world.nowMs += 600_000
  world.work = (budget) => stretchesOf(budget, 20)
  await world.removal.look(small, signal)
  // 40 ms, of which 20 may run ahead of the share.
  assert.equal(rests.length, 1)
  assert.ok(Math.abs((rests[0] ?? 0) - 20_000) < 5_000, `${rests[0]} ms`)
  await world.removal.close()
})

test('a removal that does not end is not made twice, and ends with the mode', async () => {
  const world = new World()
  const stopped = Promise.withResolvers<void>()
  world.remove = () => stopped.promise
  world.removal.begin()
  world.nowMs += 600_000
  await world.look()
  assert.deepEqual([world.finds, world.removals], [0, 1])
  const closed = world.removal.close()
  stopped.resolve()
  await closed
})

test('what can never be removed keeps nothing of another kind', async () => {
  const stuck = Promise.withResolvers<void>()
  const world = { nowMs: 0, isThere: false, looks: 0 }
  const removals = new LeftoverRemovals(
    [
      { kind: 'other firewall', find: async () => true, remove: () => stuck.promise },
      {
        kind: 'nftables mode',
        find: async () => {
          world.looks++
          if (world.looks === 1) throw new Error('injected failure')
          return world.isThere
        },
        remove: async () => void (world.isThere = false),
      },
    ],
    { isSpare: () => true, problems: { report: () => undefined }, now: () => world.nowMs },
  )
  assert.deepEqual([removals.begin(), removals.begin()], [true, false])
  await someTurns(3)
  world.isThere = true
  world.nowMs += 600_000
  await assert.rejects(removals.look(share, signal), /injected failure/)
  await removals.look(share, signal)
  assert.equal(world.isThere, false)
  const closed = removals.close()
  stuck.resolve()
  await closed
})
