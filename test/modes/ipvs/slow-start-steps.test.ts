/** Steps of slow starts are work of their Service: how many a pass takes, and which wait. Counted, not timed. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SlowStarts, stepMs } from '../../../src/ipvs/slow-starts.ts'
import type { RealServer, VirtualServer } from '../../../src/ipvs/types.ts'
import { SlowStartSteps } from '../../../src/modes/ipvs/slow-start-steps.ts'
import { countedBudget } from '../../support/budgets.ts'
import { makeRealServer, makeVirtualServer } from '../../support/virtual-servers.ts'

const DURATION_MS = 10_000
const STEP_MS = stepMs(DURATION_MS)
/** Items of a slice. */
const ITEMS = 200

/** Real servers with the weight 10. */
function serversOf(count: number): readonly RealServer[] {
  return Array.from({ length: count }, (_, index) =>
    makeRealServer(`10.1.${100 + (index >> 7)}.${100 + (index & 127)}`, 10),
  )
}

class World {
  readonly starts = new SlowStarts()
  readonly steps = new SlowStartSteps(this.starts)
  readonly servers = new Map<string, VirtualServer>()
  nowMs = 0

  /** A virtual server of the owner with real servers of which all but the first start now. */
  start(owner: string, key: string, count: number): void {
    const all = serversOf(count)
    const server = this.starts.render(
      key,
      makeVirtualServer('10.96.0.1', all),
      makeVirtualServer('10.96.0.1', all.slice(0, 1)),
      DURATION_MS,
      this.nowMs,
    )
    this.steps.set(key, owner)
    this.servers.set(key, server)
  }

  /** One pass. Returns the virtual servers that made a step. */
  pass(): readonly string[] {
    const stepped: string[] = []
    this.steps.take(countedBudget(ITEMS), this.nowMs, (key, server) => {
      stepped.push(key)
      this.servers.set(key, server)
    })
    return stepped
  }

  lowest(key: string): number {
    return Math.min(...(this.servers.get(key)?.realServers.map(({ weight }) => weight) ?? []))
  }
}

describe('SlowStartSteps', () => {
  it('takes the steps of Services in turns, so that none waits for one with many', () => {
    const world = new World()
    for (let index = 0; index < 20; index++) world.start('a/large', `large-${index}`, 500)
    world.start('b/small', 'small', 3)
    world.nowMs = 2 * STEP_MS
    // A virtual server with 500 real servers is more than a slice.
    assert.deepEqual([world.pass(), world.pass()], [['large-0'], ['small', 'large-1']])
    assert.equal(world.steps.nextDueMs(), 0, 'the others follow at once')
    world.start('c/other', 'other', 3)
    world.nowMs += STEP_MS
    assert.deepEqual(
      [world.pass(), world.pass()],
      [
        ['small', 'large-2'],
        ['other', 'large-3'],
      ],
    )
  })

  it('takes every step in the end, so that no start is forgotten', () => {
    const world = new World()
    for (let index = 0; index < 50; index++) world.start('a/large', `large-${index}`, 500)
    let passes = 0
    for (let due = world.steps.nextDueMs(); due !== undefined && passes < 10_000; due = world.steps.nextDueMs()) {
      // Each round takes 20 ms, so that there is time for fewer steps than are due.
      world.nowMs = Math.max(world.nowMs + 20, due)
      world.pass()
      passes++
    }
    assert.ok(passes < 10_000, 'it never ended')
    assert.equal(world.starts.count, 0)
    for (const key of world.servers.keys()) assert.equal(world.lowest(key), 10, key)
    assert.ok(world.nowMs < 3 * DURATION_MS, `after ${world.nowMs} ms`)
  })

  it('takes few steps in one pass, whatever their number of Services', () => {
    const world = new World()
    for (let index = 0; index < 1000; index++) world.start(`a/web-${index}`, `web-${index}`, 50)
    world.nowMs = STEP_MS
    const first = world.pass()
    // Of 51 items each.
    assert.equal(first.length, 4)
    const second = world.pass()
    assert.equal(second.length, 4)
    assert.equal(new Set([...first, ...second]).size, 8)
  })

  it('forgets what waits when its virtual server is gone', () => {
    const world = new World()
    for (let index = 0; index < 4; index++) world.start('a/large', `large-${index}`, 500)
    world.nowMs = STEP_MS
    assert.equal(world.pass().length, 1)
    for (const key of world.servers.keys()) {
      world.steps.set(key, undefined)
      world.starts.forget(key)
    }
    world.nowMs += 10
    assert.deepEqual(world.pass(), [])
    assert.equal(world.steps.nextDueMs(), undefined)
  })
})
