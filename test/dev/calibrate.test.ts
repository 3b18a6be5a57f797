/** How fast the kernel is, and what follows for deadlines. */
import assert from 'node:assert/strict'
import { release } from 'node:os'
import { describe, it } from 'node:test'
import { calibrate, deadlineFactor, formatCalibration } from '../../dev/kernel/calibrate.ts'

const fast = { release: '7.2.13', systemCallUs: 3.14, processStartMs: 13.4, wakeUpUs: 3994 }

describe('calibrate', () => {
  it('measures a system call, the start of a process and a wake-up of this kernel', () => {
    const measured = calibrate()
    assert.equal(measured.release, release())
    assert.ok(measured.systemCallUs > 0 && measured.wakeUpUs > 0, formatCalibration(measured))
    // A process start is many system calls on every kernel.
    assert.ok(measured.processStartMs * 1000 > measured.systemCallUs, formatCalibration(measured))
  })
})

describe('formatCalibration', () => {
  it('has all figures in one line', () => {
    assert.equal(
      formatCalibration(fast),
      'kernel 7.2.13: 3.1 µs a system call, 13 ms to start a process, 3994 µs a wake-up',
    )
  })
})

describe('deadlineFactor', () => {
  it('is 1 on a fast kernel', () => assert.equal(deadlineFactor(fast), 1))
  it('is that of the slowest of the three', () => {
    assert.equal(deadlineFactor({ ...fast, systemCallUs: 160 }), 16)
    assert.equal(deadlineFactor({ ...fast, processStartMs: 100 }), 2.5)
    assert.equal(deadlineFactor({ ...fast, wakeUpUs: 6000 }), 1.5)
  })
  it('is at least the factor of the environment', () => {
    assert.equal(deadlineFactor(fast, { KUBE_IPVS_DEADLINE_FACTOR: '3' }), 3)
    assert.equal(deadlineFactor({ ...fast, systemCallUs: 160 }, { KUBE_IPVS_DEADLINE_FACTOR: '3' }), 16)
  })
  it('is never more than 20', () => assert.equal(deadlineFactor({ ...fast, processStartMs: 10_000 }), 20))
})
