/** When a stretch is over: by the clock, by what the kernel has still to write, and where the clock stands still. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Budget } from '../../src/values/budget.ts'
import { newAuditBudget, newBudget } from '../../src/values/event-loop.ts'

function world(stretchMs?: number) {
  const clock = { nowMs: 0, looks: 0, turns: 0 }
  const now = (): number => {
    clock.looks++
    return clock.nowMs
  }
  const nextTurn = async (): Promise<void> => {
    clock.turns++
    clock.nowMs += 100
  }
  return { clock, budget: new Budget({ now, nextTurn, ...(stretchMs === undefined ? {} : { stretchMs }) }) }
}

describe('Budget', () => {
  it('is spent a few milliseconds after the stretch began, until the next one begins', async () => {
    const { clock, budget } = world()
    assert.equal(budget.spent(), false)
    clock.nowMs += budget.stretchMs
    assert.equal(budget.spent(), true)
    assert.ok(budget.stretchMs >= 1 && budget.stretchMs <= 4, `${budget.stretchMs} ms`)
    await budget.turn()
    assert.equal(clock.turns, 1)
    assert.equal(budget.spent(), false, 'the turn of others does not count')
    clock.nowMs += budget.stretchMs
    budget.begin()
    assert.equal(budget.spent(), false)
  })

  it('counts what the kernel has still to write, so that a clock that stands still makes no stretch endless', () => {
    const { budget } = world(1)
    let items = 0
    for (; !budget.spent(); items += 3) budget.use(3)
    assert.ok(items >= 100 && items <= 102, `${items}`)
    budget.begin()
    assert.equal(budget.spent(), false)
  })

  it('adds what is to be written to what the clock shows', () => {
    const { clock, budget } = world(1)
    clock.nowMs += 0.6
    budget.use(39)
    assert.equal(budget.spent(), false)
    budget.use(1)
    assert.equal(budget.spent(), true)
    assert.ok(Math.abs(budget.usedMs - 1) < 1e-9)
  })

  it('looks at the clock seldom for very short steps', () => {
    const { clock, budget } = world(1)
    clock.looks = 0
    let steps = 0
    for (; !budget.spentBySteps(); steps++) clock.nowMs += 0.001
    assert.ok(steps >= 1000 && steps < 1100, `${steps} steps`)
    assert.ok(clock.looks < 20, `${clock.looks} looks`)
  })

  it('knows how long the stretches were, and takes none for longer than it may be', async () => {
    const { clock, budget } = world(2)
    clock.nowMs += 1
    await budget.turn()
    // A collection of garbage.
    clock.nowMs += 80
    await budget.turn()
    clock.nowMs += 0.5
    assert.equal(budget.takeWorkMs(), 3.5)
    assert.equal(budget.takeWorkMs(), 0)
  })

  it('takes no stretch for longer than it had the processor', async () => {
    const clock = { nowMs: 0, processorMs: 0 }
    const budget = new Budget({ now: () => clock.nowMs, processor: () => clock.processorMs })
    for (let stretch = 0; stretch < 100; stretch++) {
      clock.nowMs += 150
      clock.processorMs += 0.1
      await budget.turn()
      // The work of others.
      clock.processorMs += 5
      budget.begin()
    }
    assert.ok(Math.abs(budget.takeWorkMs() - 10) < 0.001)
  })

  it('knows how long the stretches were where processor time is counted in ticks', async () => {
    const clock = { nowMs: 0 }
    const processor = (): number => Math.floor(clock.nowMs / 10) * 10
    const budget = new Budget({ now: () => clock.nowMs, processor })
    for (let stretch = 0; stretch < 1000; stretch++) {
      clock.nowMs += 1.9
      await budget.turn()
    }
    assert.ok(Math.abs(budget.takeWorkMs() - 1900) < 20)
  })

  it('without options never gives way', () => {
    const budget = new Budget()
    budget.use(1_000_000)
    assert.equal(budget.spent(), false)
  })
})

describe('newBudget', () => {
  it('lets the event loop run in a turn', async () => {
    let ran = false
    setImmediate(() => (ran = true))
    await newBudget().turn()
    assert.equal(ran, true)
  })
})

describe('newAuditBudget', () => {
  it('does not count the time in which this thread has no processor', async () => {
    const budget = newAuditBudget()
    const nothing = new Int32Array(new SharedArrayBuffer(4))
    budget.takeWorkMs()
    for (let stretch = 0; stretch < 50; stretch++) {
      Atomics.wait(nothing, 0, 0, 3)
      await budget.turn()
    }
    // By the clock alone it would be 2 ms each.
    assert.ok(budget.takeWorkMs() < 50)
  })
})
