/** When garbage is collected while the program rests: counted with a clock and a heap of the test. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it, mock } from 'node:test'
import { CollectionAtRest } from '../../src/daemon/collection-at-rest.ts'

const MIB = 1024 * 1024

describe('CollectionAtRest', () => {
  let collected = 0
  let clockMs = 0
  let usedMiB = 0
  let collections: CollectionAtRest

  beforeEach(() => {
    mock.timers.enable({ apis: ['setTimeout'] })
    clockMs = 0
    collected = 0
    usedMiB = 50
    collections = new CollectionAtRest({
      collect: () => void collected++,
      usedBytes: () => usedMiB * MIB,
      now: () => clockMs,
    })
  })
  afterEach(() => mock.timers.reset())

  /** Work that leaves the heap with so many MiB, and then nothing for this time. */
  function work(leavesMiB: number, thenMs: number): void {
    usedMiB = leavesMiB
    collections.worked()
    clockMs += thenMs
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

  it('collects about once a minute beside work that never pauses, if it leaves garbage', () => {
    collections.open()
    for (let second = 0; second < 59; second++) work(100, 1_000)
    assert.equal(collected, 0)
    work(100, 2_000)
    assert.equal(collected, 1)
    for (let second = 0; second < 600; second++) {
      const before = collected
      work(usedMiB + 1, 1_000)
      if (collected > before) usedMiB = 50
    }
    assert.ok(collected >= 9 && collected <= 11, `${collected} collections`)
  })

  it('does not collect again and again when more is in use and work never pauses', () => {
    collections.open()
    for (let second = 0; second < 3_600; second++) work(100, 1_000)
    assert.ok(collected >= 1 && collected <= 2, `${collected} collections`)
  })

  it('collects beside passes that follow each other at once', () => {
    collections.open()
    for (let second = 0; second < 59; second++) work(100, 1_000)
    work(100, 999)
    // The next pass ends when the timer is due and has not run.
    clockMs += 1
    const timers = mock.method(globalThis, 'setTimeout')
    collections.worked()
    assert.equal(timers.mock.callCount(), 0)
    timers.mock.restore()
    mock.timers.tick(1)
    assert.equal(collected, 1)
  })

  it('sets no timer after work that has hardly grown the heap', () => {
    collections.open()
    const timers = mock.method(globalThis, 'setTimeout')
    for (let audit = 0; audit < 10; audit++) work(50, 5_000)
    assert.equal(timers.mock.callCount(), 0)
    timers.mock.restore()
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
