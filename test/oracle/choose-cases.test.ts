/** Which cases of a folder are run, and what the command prints for a folder without any. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { recordingPath } from '../support/recordings.ts'
import { chooseCases } from './case-file.ts'

const COMMAND = join(import.meta.dirname, 'main.ts')
const CASES = recordingPath('cases')

const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-cases-'))
after(() => rmSync(folder, { recursive: true }))
for (const [name, modes] of [
  ['a-one', ['ipvs', 'iptables']],
  ['b-two', ['ipvs']],
  ['c-three', ['iptables']],
] as const) {
  for (const mode of modes) mkdirSync(join(folder, name, 'recorded', mode), { recursive: true })
  writeFileSync(join(folder, name, 'case.yaml'), '')
}
mkdirSync(join(folder, 'no-yaml/recorded/ipvs'), { recursive: true })
mkdirSync(join(folder, 'empty'))

describe('chooseCases', () => {
  it('finds the cases of this repository in both modes', () => {
    for (const mode of ['ipvs', 'iptables'] as const) {
      const chosen = chooseCases(CASES, mode, [])
      assert.ok('names' in chosen)
      assert.ok(chosen.names.length > 100, `${chosen.names.length} cases`)
      assert.deepEqual(chosen.incomplete, [])
    }
  })

  it('chooses cases that were recorded in the mode, and names those without a case.yaml', () => {
    assert.deepEqual(chooseCases(folder, 'ipvs', []), { names: ['a-one', 'b-two'], incomplete: ['no-yaml'] })
    assert.deepEqual(chooseCases(folder, 'iptables', []), { names: ['a-one', 'c-three'], incomplete: [] })
  })

  for (const [patterns, names] of [
    [['a-'], ['a-one']],
    [
      ['a-', 'two'],
      ['a-one', 'b-two'],
    ],
    [['!one'], ['b-two']],
    [['o', '!two'], ['a-one']],
  ] as const)
    it(`chooses ${names.join()} for ${patterns.join(' ')}`, () =>
      assert.deepEqual(chooseCases(folder, 'ipvs', patterns), { names, incomplete: ['no-yaml'] }))
})

describe('npm run test:oracle', () => {
  for (const [what, args, message] of [
    [
      'a folder that is not there',
      ['--cases', join(folder, 'none')],
      /^There is no folder .*\/none; name one with --cases DIR\.\n$/,
    ],
    [
      'a folder without cases',
      ['--cases', join(folder, 'empty')],
      /\/empty holds no case that was recorded in ipvs mode \(NAME\/case\.yaml, NAME\/recorded\/ipvs\/\)\.\n$/,
    ],
    [
      'a pattern that no case has',
      ['--cases', folder, 'three'],
      /^None of the 2 cases in .* has a name that fits three\.\n$/,
    ],
  ] as const)
    it(`ends with 1 and one sentence for ${what}, before it looks for a kernel`, () => {
      const env = { ...process.env, KUBE_IPVS_CHOSEN_KERNEL: '' }
      const { status, stdout, stderr } = spawnSync(process.execPath, [COMMAND, ...args], { encoding: 'utf8', env })
      assert.match(stderr, message)
      assert.deepEqual([status, stdout], [1, ''])
    })
})
