import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { CpuBudget } from '../../src/sync/audit.ts'

const signal = new AbortController().signal

function world(creditMs: number) {
  const clock = { nowMs: 0 }
  const sleep = async (ms: number): Promise<void> => {
    clock.nowMs += ms
  }
  return { clock, budget: new CpuBudget({ share: 0.01, creditMs, now: () => clock.nowMs, sleep }) }
}

describe('CpuBudget', () => {
  it('does not wait for work up to the credit', async () => {
    const { clock, budget } = world(50)
    for (let index = 0; index < 50; index++) await budget.pay(1, 0, signal)
    assert.equal(clock.nowMs, 0)
  })

  it('limits further work to its share of time', async () => {
    const { clock, budget } = world(50)
    for (let index = 0; index < 1000; index++) await budget.pay(1, 0, signal)
    assert.ok(Math.abs(clock.nowMs - 95_000) < 200, `${clock.nowMs}`)
  })

  it('restores the credit over time, up to its limit', async () => {
    const { clock, budget } = world(10)
    await budget.pay(10, 1000, signal)
    clock.nowMs += 1_000_000
    const before = clock.nowMs
    await budget.pay(11, 1000, signal)
    assert.equal(clock.nowMs - before, 100)
  })

  it('does not count more work than so few items can cost', async () => {
    const { clock, budget } = world(0)
    await budget.pay(500, 20, signal)
    assert.equal(clock.nowMs, 300)
  })
})
