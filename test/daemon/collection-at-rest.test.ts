/** When garbage is collected while the program rests: counted with a clock and a heap of the test. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it, mock } from 'node:test'
import { CollectionAtRest } from '../../src/daemon/collection-at-rest.ts'

const MIB = 1024 * 1024

describe('CollectionAtRest', () => {
  let collected = 0
  let usedMiB = 0
  let collections: CollectionAtRest

  beforeEach(() => {
    mock.timers.enable({ apis: ['setTimeout'] })
    collected = 0
    usedMiB = 50
    collections = new CollectionAtRest(
      () => void collected++,
      () => usedMiB * MIB,
    )
  })
  afterEach(() => mock.timers.reset())

  it('collects once after work that has grown the heap, and not while passes follow each other', () => {
    collections.open()
    for (let pass = 0; pass < 10; pass++) {
      usedMiB += 2
      collections.worked()
      mock.timers.tick(1_900)
    }
    assert.equal(collected, 0)
    mock.timers.tick(200)
    assert.equal(collected, 1)
    mock.timers.tick(3_600_000)
    assert.equal(collected, 1)
  })

  it('does nothing during a start, and nothing when the heap has hardly grown', () => {
    collections.worked()
    mock.timers.tick(60_000)
    collections.open()
    usedMiB += 10
    collections.worked()
    mock.timers.tick(60_000)
    assert.equal(collected, 0)
    usedMiB += 2
    collections.worked()
    mock.timers.tick(60_000)
    assert.equal(collected, 1)
  })

  it('measures growth from what the last collection has left, not from what was there when it began', () => {
    collections.open()
    usedMiB = 100
    collections.worked()
    mock.timers.tick(2_000)
    assert.equal(collected, 1)
    // Passes while it collects do not begin another one.
    usedMiB = 80
    collections.worked()
    mock.timers.tick(5_000)
    // It left 80 MiB.
    usedMiB = 93
    collections.worked()
    mock.timers.tick(2_000)
    assert.equal(collected, 1)
    usedMiB = 95
    collections.worked()
    mock.timers.tick(2_000)
    assert.equal(collected, 2)
  })
})
