/** A guest that is kept on one processor of this machine has one processor. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type OneProcessor, onProcessor } from '../../dev/kernel/guest.ts'
import { qemuGuest } from '../../dev/kernel/qemu.ts'
import { userModeGuest } from '../../dev/kernel/user-mode.ts'

const THIRD = { number: 3, hasPriority: false }
const KERNEL = { kind: 'uml', kernel: '/linux', memoryFolder: '/dev/shm', memoryMiB: 512 } as const

const userMode = (processor?: OneProcessor): readonly string[] =>
  userModeGuest(KERNEL, processor === undefined ? {} : { processor }).command('/folder').argv
const qemu = (processor?: OneProcessor): readonly string[] =>
  qemuGuest(
    { kind: 'qemu', kernel: '/vmlinuz', modules: '/modules', initialRamdisk: '/initrd' },
    processor === undefined ? {} : { processor },
  ).command('/folder').argv

describe('a guest on one processor', () => {
  it('starts through taskset, which its processes inherit, and has one processor', () => {
    assert.deepEqual(userMode(THIRD).slice(0, 4), ['taskset', '--cpu-list', '3', '/linux'])
    assert.ok(userMode(THIRD).includes('ncpus=1'))
    assert.deepEqual(qemu(THIRD).slice(0, 4), ['taskset', '--cpu-list', '3', 'qemu-system-x86_64'])
    assert.match(qemu(THIRD).join(' '), /-smp 1 /)
  })
  it('has two processors and may run on any by default', () => {
    assert.equal(userMode()[0], '/linux')
    assert.ok(userMode().includes('ncpus=2'))
    assert.equal(qemu()[0], 'qemu-system-x86_64')
    assert.match(qemu().join(' '), /-smp 2 /)
  })
})

describe('onProcessor', () => {
  it('is empty without a processor, and accepts processor 0', () => {
    assert.deepEqual(onProcessor(undefined), [])
    assert.deepEqual(onProcessor({ number: 0, hasPriority: false }), ['taskset', '--cpu-list', '0'])
  })
  it('gives the guest priority over other work on request', () => {
    const line = onProcessor({ number: 1, hasPriority: true })
    assert.deepEqual(line.slice(0, 4), ['taskset', '--cpu-list', '1', 'sh'])
    assert.deepEqual(line.slice(-3), ['nice', '-n', '-20'])
  })
})
