/**
 * The memory of the process after a start. This file changes settings of V8 in its own process.
 * @alone The memory of the process is measured.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { constants, PerformanceObserver } from 'node:perf_hooks'
import { describe, it } from 'node:test'
import { NODE_FLAGS } from '../../dev/node-flags.ts'
import { releaseFreedMemory } from '../../native/memory.ts'
import { CollectionAtRest } from '../../src/daemon/collection-at-rest.ts'
import { growFreely, growSparingly } from '../../src/daemon/process.ts'
import { silentLog } from '../../src/values/log.ts'
import { until } from '../support/deadline.ts'

const MIB = 1024 * 1024

/** Keeps 300,000 objects and replaces them five times, with pauses in which V8 may end a collection. */
const BURST = `
import { setImmediate } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { growFreely } from ${JSON.stringify(import.meta.resolve('../../src/daemon/process.ts'))}
growFreely()
setFlagsFromString('--heap-growing-percent=10')
const kept = []
for (let index = 0; index < 1_800_000; index++) {
  kept[(index * 7919) % 300_000] = { index, list: [index], text: String(index) }
  if (index % 5_000 === 0) await setImmediate()
}
`

describe('the memory of the process', () => {
  it('leaves the end of a full collection little to move: the young generation is collected while it marks', () => {
    const child = spawnSync(process.execPath, ['--trace-gc', ...NODE_FLAGS, '--input-type=module', '-e', BURST], {
      encoding: 'utf8',
      timeout: 60_000,
    })
    assert.equal(child.status, 0, child.stderr)
    assert.match(child.stdout, /Mark-Compact/)
    // V8 says so of a collection of the young generation that it makes while a full one marks.
    assert.match(child.stdout, /Scavenge \(interleaved\)/)
  })

  it('shrinks after a start in two full collections that nothing else asks for, and once more while it rests after a burst', async (t) => {
    let collections = 0
    const observer = new PerformanceObserver((list) => {
      // Entries of this type have it (PerformanceNodeEntry), and are declared without.
      for (const { detail } of list.getEntries() as unknown as readonly {
        readonly detail: { readonly kind: number }
      }[])
        if (detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR) collections++
    })
    growFreely()
    // Most of these are garbage. The collections free them, and the C library keeps their memory
    // until it is told to return it.
    let pieces = Array.from({ length: 2_000 }, () => Buffer.alloc(40 * 1024, 1))
    pieces = pieces.filter((_, index) => index % 100 === 99)
    let garbage: object[] | undefined = Array.from({ length: 300_000 }, (_, index) => ({ index, list: [index] }))
    const before = process.memoryUsage().heapUsed
    garbage = undefined
    assert.equal(garbage, undefined)
    observer.observe({ entryTypes: ['gc'] })
    const end = Promise.withResolvers<void>()
    const atRest = new CollectionAtRest()
    growSparingly(silentLog, () => {
      atRest.open()
      end.resolve()
    })
    const keepAlive = setInterval(() => undefined, 100)
    t.after(() => clearInterval(keepAlive))
    await end.promise
    const resident = process.memoryUsage.rss()
    releaseFreedMemory()
    const more = resident - process.memoryUsage.rss()
    assert.ok(pieces.length > 0 && more < 20 * MIB, `${more} bytes of freed memory were left`)
    assert.ok(collections >= 2, `${collections} full collections`)
    const { heapUsed } = process.memoryUsage()
    assert.ok(heapUsed < before - 20 * MIB, `${before} bytes before, ${heapUsed} bytes after`)

    garbage = Array.from({ length: 300_000 }, (_, index) => ({ index, list: [index] }))
    const afterBurst = process.memoryUsage().heapUsed
    garbage = undefined
    // Nothing else allocates enough for a collection.
    atRest.worked()
    await until('the collection at rest', () => process.memoryUsage().heapUsed < afterBurst - 10 * MIB, 30_000, 500)
  })
})
