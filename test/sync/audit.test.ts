import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { auditPeriodically, CpuBudget } from '../../src/sync/audit.ts'

const signal = new AbortController().signal

function world(creditMs: number) {
  const clock = { nowMs: 0 }
  const sleep = async (ms: number): Promise<void> => {
    clock.nowMs += ms
  }
  return { clock, budget: new CpuBudget({ share: () => 0.01, creditMs, now: () => clock.nowMs, sleep }) }
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
    // The last sleep has restored up to a quarter of the credit.
    assert.ok(clock.nowMs >= 95_000 && clock.nowMs < 96_300, `${clock.nowMs}`)
  })

  it('restores the credit over time, up to its limit', async () => {
    const { clock, budget } = world(10)
    await budget.pay(10, 1000, signal)
    clock.nowMs += 1_000_000
    const before = clock.nowMs
    await budget.pay(11, 1000, signal)
    // 1 ms too much, and a quarter of the credit.
    assert.equal(clock.nowMs - before, 350)
  })

  it('sleeps seldom: each sleep allows for more than one piece of work', async () => {
    let sleeps = 0
    const clock = { nowMs: 0 }
    const sleep = async (ms: number): Promise<void> => {
      clock.nowMs += ms
      sleeps++
    }
    const budget = new CpuBudget({ share: () => 0.001, creditMs: 20, now: () => clock.nowMs, sleep })
    for (let index = 0; index < 1000; index++) await budget.pay(1, 100, signal)
    assert.ok(sleeps / (clock.nowMs / 1000) < 0.25, `${sleeps} sleeps in ${clock.nowMs} ms`)
    assert.ok(Math.abs(clock.nowMs - 980 / 0.001) < 6000, `${clock.nowMs}`)
  })

  it('lets no debt last longer than ten minutes, whatever the audits owe together', async () => {
    const clock = { nowMs: 0 }
    const sleeps: number[] = []
    const sleep = async (ms: number): Promise<void> => {
      sleeps.push(ms)
    }
    const budget = new CpuBudget({ share: () => 0.001, creditMs: 20, now: () => clock.nowMs, sleep })
    await budget.pay(5000, 100_000, signal)
    await budget.pay(5000, 100_000, signal)
    assert.deepEqual(sleeps.map(Math.round), [600_000, 600_000])
  })

  it('does not count more work than so few items can cost', async () => {
    const { clock, budget } = world(0)
    await budget.pay(500, 20, signal)
    assert.equal(clock.nowMs, 300)
  })

  it('keeps to its share with a clock of processor time that ticks every 10 ms', async () => {
    const { clock, budget } = world(20)
    const ticked = (ms: number): number => Math.floor(ms / 10) * 10
    // 3 ms of work each, which the limit of 4 ms a piece allows.
    for (let index = 0; index < 1000; index++) await budget.pay(ticked((index + 1) * 3) - ticked(index * 3), 40, signal)
    assert.ok(Math.abs(clock.nowMs - (3000 - 20) / 0.01) < 2000, `${clock.nowMs}`)
  })

  it('counts at most one tick more than so few items can cost, however little was counted before', async () => {
    const { clock, budget } = world(0)
    for (let index = 0; index < 100; index++) await budget.pay(0, 20, signal)
    await budget.pay(500, 20, signal)
    assert.equal(clock.nowMs, 1300)
  })
})

describe('auditPeriodically', () => {
  /** When rounds begin, of rounds that take so long. */
  const begins = async (roundMs: number, count: number): Promise<number[]> => {
    const clock = { nowMs: 0 }
    const abort = new AbortController()
    const began: number[] = []
    await auditPeriodically({
      periodMs: 30_000,
      round: async () => {
        began.push(clock.nowMs)
        clock.nowMs += roundMs
        if (began.length >= count) abort.abort()
      },
      onError: assert.ifError,
      now: () => clock.nowMs,
      sleep: async (ms) => {
        clock.nowMs += ms
      },
      signal: abort.signal,
    })
    return began
  }
  it('begins a round a period after the last one began', async () => {
    const [first = 0, second = 0, third = 0] = await begins(10_000, 3)
    assert.deepEqual([first, second - first, third - second], [30_000, 30_000, 30_000])
  })
  it('begins the next round at once after one that took longer than the period', async () => {
    const [first = 0, second = 0] = await begins(200_000, 2)
    assert.equal(second - first, 200_000)
  })
})
