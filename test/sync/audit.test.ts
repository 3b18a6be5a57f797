import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { auditPeriodically, AuditShare } from '../../src/sync/audit.ts'
import { Budget } from '../../src/values/budget.ts'

const { signal } = new AbortController()

/** Audits that have 1 % of one core. */
function world() {
  const clock = { nowMs: 0, turns: 0 }
  const sleeps: number[] = []
  const sleep = async (ms: number): Promise<void> => {
    sleeps.push(ms)
    clock.nowMs += ms
  }
  const now = (): number => clock.nowMs
  const nextTurn = async (): Promise<void> => {
    clock.turns++
  }
  const share = new AuditShare({ share: 0.01, now, sleep })
  const budget = new Budget({ now, nextTurn })
  /** So many milliseconds of work, and then a rest. */
  const work = async (ms: number): Promise<void> => {
    budget.begin()
    clock.nowMs += ms
    await share.rest(budget, signal)
  }
  return { clock, sleeps, share, budget, work, now, nextTurn }
}

describe('AuditShare', () => {
  it('lets some work run ahead, with a turn for others after each stretch', async () => {
    const { clock, sleeps, work } = world()
    for (let index = 0; index < 20; index++) await work(1)
    assert.deepEqual([sleeps, clock.turns], [[], 20])
  })

  it('limits further work to its share of time', async () => {
    const { clock, work } = world()
    for (let index = 0; index < 1000; index++) await work(1)
    assert.ok(Math.abs(clock.nowMs - 98_000) < 200, `${clock.nowMs}`)
  })

  it('restores unused time, up to a limit', async () => {
    const { clock, sleeps, work } = world()
    for (let index = 0; index < 20; index++) await work(1)
    clock.nowMs += 1_000_000
    for (let index = 0; index < 20; index++) await work(1)
    assert.deepEqual(sleeps, [])
    await work(1)
    assert.ok(sleeps.length > 0)
  })

  it('shares the time among audits', async () => {
    const { clock, share, work, now, nextTurn } = world()
    const other = new Budget({ now, nextTurn })
    for (let index = 0; index < 500; index++) {
      await work(1)
      other.begin()
      clock.nowMs += 1
      await share.rest(other, signal)
    }
    assert.ok(Math.abs(clock.nowMs - 98_000) < 500, `${clock.nowMs}`)
  })

  it('counts a stretch as no longer than it may be: the rest was the work of others', async () => {
    const { clock, budget, work } = world()
    await work(20)
    const { nowMs } = clock
    for (let index = 0; index < 100; index++) await work(150)
    // 2 ms each.
    assert.ok(Math.abs(clock.nowMs - nowMs - (budget.stretchMs * 101 - 20) * 100) < 1000, `${clock.nowMs - nowMs}`)
  })

  it('rests no longer than ten minutes, whatever the audits have done together', async () => {
    const { clock, sleeps, share, now, nextTurn } = world()
    const budget = new Budget({ now, nextTurn, stretchMs: 1_000_000 })
    for (let index = 0; index < 2; index++) {
      clock.nowMs += 50_000
      await share.rest(budget, signal)
    }
    assert.deepEqual(sleeps, [600_000, 600_000])
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
  it('waits for a period that is longer than a timer may be', async () => {
    const abort = new AbortController()
    let rounds = 0
    const audits = auditPeriodically({
      periodMs: 2 ** 31,
      round: async () => {
        rounds++
        abort.abort()
      },
      onError: assert.ifError,
      now: () => performance.now(),
      signal: abort.signal,
    })
    // A timer that is too long would be one of 1 ms.
    await new Promise((resolve) => setTimeout(resolve, 20))
    abort.abort()
    await audits
    assert.equal(rounds, 0)
  })
  it('begins the next round at once after one that took longer than the period', async () => {
    const [first = 0, second = 0] = await begins(200_000, 2)
    assert.equal(second - first, 200_000)
  })
})
