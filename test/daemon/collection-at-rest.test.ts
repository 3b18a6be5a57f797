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
    mock.timers.enable({ apis: ['setTimeout', 'Date'] })
    collected = 0
    usedMiB = 50
    collections = new CollectionAtRest({
      collect: () => void collected++,
      usedBytes: () => usedMiB * MIB,
      now: () => Date.now(),
    })
  })
  afterEach(() => mock.timers.reset())

  /** Work that leaves the heap with so many MiB, and then nothing for this time. */
  function work(leavesMiB: number, thenMs: number): void {
    usedMiB = leavesMiB
    collections.worked()
    mock.timers.tick(thenMs)
  }

  it('collects once after work that has grown the heap, and not between pieces of it', () => {
    collections.open()
    for (let piece = 1; piece <= 10; piece++) work(50 + 2 * piece, 1_900)
    assert.equal(collected, 0)
    mock.timers.tick(200)
    assert.equal(collected, 1)
    mock.timers.tick(3_600_000)
    assert.equal(collected, 1)
  })

  it('collects once a minute beside work that never pauses, if the heap has grown', () => {
    collections.open()
    for (let second = 0; second < 59; second++) work(100, 1_000)
    assert.equal(collected, 0)
    work(100, 2_000)
    assert.equal(collected, 1)
    for (let second = 0; second < 600; second++) work(100, 1_000)
    assert.ok(collected >= 9 && collected <= 11, `${collected} collections`)
    for (let second = 0; second < 600; second++) work(50, 1_000)
    assert.ok(collected <= 11, `${collected} collections`)
  })

  it('does nothing during a start, and nothing when the heap has hardly grown', () => {
    work(50, 60_000)
    collections.open()
    work(60, 60_000)
    assert.equal(collected, 0)
    work(62, 60_000)
    assert.equal(collected, 1)
  })

  it('measures growth from what the last collection has left, not from what was there when it began', () => {
    collections.open()
    work(100, 2_000)
    assert.equal(collected, 1)
    usedMiB = 80
    mock.timers.tick(5_000)
    work(93, 2_000)
    assert.equal(collected, 1)
    work(95, 2_000)
    assert.equal(collected, 2)
  })

  it('collects again what was left by work beside a collection', () => {
    collections.open()
    work(100, 2_000)
    assert.equal(collected, 1)
    work(90, 5_000)
    assert.equal(collected, 1)
    // The collection has ended, and nothing was done since.
    mock.timers.tick(2_000)
    assert.equal(collected, 2)
    usedMiB = 52
    mock.timers.tick(3_600_000)
    work(58, 3_600_000)
    assert.equal(collected, 2)
  })
})
