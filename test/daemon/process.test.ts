/** The memory of the process after a start. This file changes settings of V8 in its own process. */
import assert from 'node:assert/strict'
import { constants, PerformanceObserver } from 'node:perf_hooks'
import { describe, it } from 'node:test'
import { growFreely, growSparingly } from '../../src/daemon/process.ts'
import { silentLog } from '../../src/values/log.ts'
import { until } from '../support/deadline.ts'

const MIB = 1024 * 1024

describe('the memory of the process', () => {
  it('shrinks after a start in two full collections that nothing else asks for, and while it rests after a burst', async (t) => {
    let collections = 0
    const observer = new PerformanceObserver((list) => {
      // Entries of this type have it (PerformanceNodeEntry), and are declared without.
      for (const { detail } of list.getEntries() as unknown as readonly {
        readonly detail: { readonly kind: number }
      }[])
        if (detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR) collections++
    })
    growFreely()
    let garbage: object[] | undefined = Array.from({ length: 300_000 }, (_, index) => ({ index, list: [index] }))
    const before = process.memoryUsage().heapUsed
    garbage = undefined
    assert.equal(garbage, undefined)
    observer.observe({ entryTypes: ['gc'] })
    const end = Promise.withResolvers<void>()
    // The last step says what it gave back, or why it could not.
    growSparingly({ ...silentLog, verbose: () => end.resolve() })
    const keepAlive = setInterval(() => undefined, 100)
    t.after(() => clearInterval(keepAlive))
    await end.promise
    assert.ok(collections >= 2, `${collections} full collections`)
    const { heapUsed } = process.memoryUsage()
    assert.ok(heapUsed < before - 20 * MIB, `${before} bytes before, ${heapUsed} bytes after`)

    garbage = Array.from({ length: 300_000 }, (_, index) => ({ index, list: [index] }))
    const afterBurst = process.memoryUsage().heapTotal
    garbage = undefined
    // V8 waits for 8 s in which little is allocated.
    await until('V8 returns memory at rest', () => process.memoryUsage().heapTotal < afterBurst - 20 * MIB, 60_000, 500)
  })
})
