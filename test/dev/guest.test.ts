/** The command and the choice that a guest kernel gets. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { describe, it } from 'node:test'
import { chosenKernel } from '../../dev/kernel/choice.ts'
import { commandScript } from '../../dev/kernel/guest-folder.ts'

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
    const printed = execFileSync('bash', ['-c', script], { encoding: 'utf8' })
    assert.deepEqual(JSON.parse(printed), [odd, odd, null])
  })
  it('passes the exit code on', () => {
    assert.throws(() => execFileSync('bash', ['-c', commandScript(['sh', '-c', 'exit 7'], '/', {})]), { status: 7 })
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
