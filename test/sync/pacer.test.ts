import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import { Pacer } from '../../src/sync/pacer.ts'

const now = () => performance.now()

describe('Pacer', () => {
  it('makes one run of all requests of one turn', async () => {
    let runs = 0
    const pacer = new Pacer({ minPeriodMs: () => 0, now, run: async () => void runs++ })
    for (let index = 0; index < 10; index++) pacer.request()
    while (runs === 0) await sleep(5)
    await sleep(20)
    assert.equal(runs, 1)
    await pacer.close()
  })

  it('makes one more run of requests that come while a run is on, and never two at a time', async () => {
    let runs = 0
    let running = 0
    const pacer = new Pacer({
      minPeriodMs: () => 0,
      now,
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
    while (runs < 2) await sleep(5)
    await sleep(20)
    assert.equal(runs, 2)
    await pacer.close()
  })

  it('keeps the least period between runs', async () => {
    const starts: number[] = []
    const pacer = new Pacer({ minPeriodMs: () => 60, now, run: async () => void starts.push(now()) })
    pacer.request()
    while (starts.length === 0) await sleep(5)
    pacer.request()
    while (starts.length < 2) await sleep(5)
    assert.ok((starts[1] ?? 0) - (starts[0] ?? 0) >= 58)
    await pacer.close()
  })

  it('runs again when the run says so', async () => {
    let runs = 0
    const pacer = new Pacer({ minPeriodMs: () => 0, now, run: async () => (++runs < 3 ? now() + 5 : undefined) })
    pacer.request()
    while (runs < 3) await sleep(5)
    await sleep(20)
    assert.equal(runs, 3)
    await pacer.close()
  })

  it('runs at once when it is resumed, whatever the period', async () => {
    const runs: number[] = []
    let resume = true
    const pacer = new Pacer({
      minPeriodMs: () => 60_000,
      now,
      run: async () => {
        runs.push(now())
        if (resume) pacer.resume()
        resume = false
        return undefined
      },
    })
    pacer.request()
    while (runs.length < 2) await sleep(5)
    pacer.request()
    await sleep(30)
    assert.equal(runs.length, 2, 'a request waits')
    pacer.resume()
    while (runs.length < 3) await sleep(5)
    await pacer.close()
  })

  it('aborts the run that is on when it is closed, and starts no other', async () => {
    let aborted = false
    let runs = 0
    const pacer = new Pacer({
      minPeriodMs: () => 0,
      now,
      run: async (signal) => {
        runs++
        await sleep(10_000, undefined, { signal }).catch(() => {
          aborted = true
        })
        return undefined
      },
    })
    pacer.request()
    while (runs === 0) await sleep(5)
    await pacer.close()
    pacer.request()
    await sleep(20)
    assert.deepEqual([aborted, runs], [true, 1])
  })
})
