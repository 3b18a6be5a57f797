/** The command and the choice that a guest kernel gets. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { describe, it } from 'node:test'
import { canBeBare, chosenKernel, type KernelChoice, kernelWithModules } from '../../dev/kernel/choice.ts'
import { commandScript } from '../../dev/kernel/guest-folder.ts'
import { runInKernel } from '../../dev/kernel/run.ts'

describe('commandScript', () => {
  it('keeps every character of arguments, folder and environment', () => {
    const odd = `a 'b' "c" $HOME \`id\` \\ \n é *`
    const program =
      'process.stdout.write(JSON.stringify([process.argv[1], process.env.ODD, process.env["NOT-A-NAME"]]))'
    const script = commandScript([process.execPath, '-e', program, odd], '/', {
      ODD: odd,
      'NOT-A-NAME': 'x',
      PATH: '/',
    })
    const printed = execFileSync('bash', ['--norc', '-c', script], { encoding: 'utf8' })
    assert.deepEqual(JSON.parse(printed), [odd, odd, null])
  })
  it('passes the exit code on', () => {
    assert.throws(() => execFileSync('bash', ['--norc', '-c', commandScript(['sh', '-c', 'exit 7'], '/', {})]), {
      status: 7,
    })
  })
})

describe('chosenKernel', () => {
  it('is undefined without a choice', () => {
    assert.equal(chosenKernel({}), undefined)
    assert.equal(chosenKernel({ KUBE_IPVS_CHOSEN_KERNEL: '' }), undefined)
  })
  it('is what the bootstrap chose', () => {
    assert.deepEqual(chosenKernel({ KUBE_IPVS_CHOSEN_KERNEL: '{"kind":"host"}' }), { kind: 'host' })
  })
})

const UML = { kind: 'uml', kernel: '/k/linux', memoryFolder: '/dev/shm', memoryMiB: 2048 } as const
const IMAGE: KernelChoice = { ...UML, modules: '/k/modules', modular: 'firewall' }
const DEBIAN: KernelChoice = { ...UML, modules: '/usr/lib/uml/modules' }
const QEMU: KernelChoice = { kind: 'qemu', kernel: '/k/vmlinuz', modules: '/k/modules', initialRamdisk: '/k/ramdisk' }

describe('a kernel with modules', () => {
  it('has IPVS as a module where it is a stock kernel, and not where it is the image of this repository', () => {
    assert.deepEqual(kernelWithModules(DEBIAN), DEBIAN)
    assert.deepEqual(kernelWithModules(QEMU), QEMU)
    assert.equal(kernelWithModules({ kind: 'host' }), undefined)
    for (const choice of [IMAGE, UML]) {
      const found = kernelWithModules(choice)
      if (found !== undefined)
        assert.deepEqual(found, { ...UML, kernel: '/usr/bin/linux.uml', modules: '/usr/lib/uml/modules' })
    }
  })
  it('makes a bare guest only of the image of this repository', async () => {
    assert.ok(canBeBare(IMAGE))
    for (const choice of [{ kind: 'host' } as const, UML, DEBIAN, QEMU]) {
      assert.ok(!canBeBare(choice))
      const nothing = { command: ['true'], cwd: '/', env: {}, timeoutMs: 1000, stdout: () => {}, stderr: () => {} }
      const run = { ...nothing, signal: AbortSignal.timeout(1000), isBare: true }
      await assert.rejects(runInKernel(choice, run), /no guest of .* is bare/)
    }
  })
})
