import assert from 'node:assert/strict'
import { once } from 'node:events'
import { describe, it, type TestContext } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { Pacer, type PacerOptions } from '../../src/sync/pacer.ts'

/** A pacer on a clock that stands still unless the test moves it. */
function pacerOn(t: TestContext, options: Omit<PacerOptions, 'now'>) {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let nowMs = 1000
  const now = (): number => nowMs
  const pacer = new Pacer({ ...options, now })
  t.after(() => pacer.close())
  /** Waits until all immediates and promises have run. */
  const settled = async (): Promise<void> => {
    for (let turns = 0; turns < 10; turns++) await turn()
  }
  const pass = async (milliseconds: number): Promise<void> => {
    nowMs += milliseconds
    t.mock.timers.tick(milliseconds)
    await settled()
  }
  return { pacer, now, settled, pass }
}

describe('Pacer', () => {
  it('makes one run for all requests of one turn', async (t) => {
    let runs = 0
    const { pacer, settled, pass } = pacerOn(t, { minPeriodMs: () => 0, run: async () => void runs++ })
    for (let index = 0; index < 10; index++) pacer.request()
    await settled()
    assert.equal(runs, 1)
    await pass(60_000)
    assert.equal(runs, 1)
  })

  it('makes one more run for requests during a run, and never two runs at a time', async (t) => {
    let runs = 0
    let running = 0
    const { pacer, settled, pass } = pacerOn(t, {
      minPeriodMs: () => 0,
      run: async () => {
        assert.equal(++running, 1)
        runs++
        if (runs === 1) for (let index = 0; index < 5; index++) pacer.request()
        await turn()
        running--
        return undefined
      },
    })
    pacer.request()
    await settled()
    assert.equal(runs, 2)
    await pass(60_000)
    assert.equal(runs, 2)
  })

  it('keeps the minimum period between runs', async (t) => {
    let runs = 0
    const { pacer, settled, pass } = pacerOn(t, { minPeriodMs: () => 60, run: async () => void runs++ })
    pacer.request()
    await settled()
    assert.equal(runs, 1, 'the first run waits for nothing')
    pacer.request()
    await pass(59)
    assert.equal(runs, 1)
    await pass(1)
    assert.equal(runs, 2)
  })

  it('runs again at the time that the run returned', async (t) => {
    let runs = 0
    const { pacer, now, settled, pass } = pacerOn(t, {
      minPeriodMs: () => 0,
      run: async () => (++runs < 3 ? now() + 5 : undefined),
    })
    pacer.request()
    await settled()
    assert.equal(runs, 1)
    await pass(4)
    assert.equal(runs, 1)
    await pass(1)
    assert.equal(runs, 2)
    await pass(5)
    assert.equal(runs, 3)
    await pass(60_000)
    assert.equal(runs, 3)
  })

  it('runs at once when resumed, ignoring the minimum period', async (t) => {
    let runs = 0
    let resume = true
    const { pacer, settled, pass } = pacerOn(t, {
      minPeriodMs: () => 60_000,
      run: async () => {
        runs++
        if (resume) pacer.resume()
        resume = false
        return undefined
      },
    })
    pacer.request()
    await settled()
    assert.equal(runs, 2)
    pacer.request()
    await pass(59_999)
    assert.equal(runs, 2, 'a request waits')
    pacer.resume()
    await settled()
    assert.equal(runs, 3)
  })

  it('aborts the current run when closed, and starts no other', async (t) => {
    let aborted = false
    let runs = 0
    const { pacer, settled, pass } = pacerOn(t, {
      minPeriodMs: () => 0,
      run: async (signal) => {
        runs++
        await once(signal, 'abort')
        aborted = true
        return undefined
      },
    })
    pacer.request()
    await settled()
    assert.deepEqual([aborted, runs], [false, 1])
    await pacer.close()
    pacer.request()
    await pass(60_000)
    assert.deepEqual([aborted, runs], [true, 1])
  })
})
