/** The list of the oracle's deviations, and docs/deviations.md, whose rows it cites. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { recordingPath } from '../support/recordings.ts'
import { parseStateDeviations, readStateDeviations } from './deviations.ts'

describe('parseStateDeviations', () => {
  for (const [what, text] of [
    ['no list', 'case: x'],
    ['a file that is none', '- {case: x, steps: [1], file: other.txt, number: 1, instead: "@ 1"}'],
    ['no steps', '- {case: x, steps: [], file: ipvs.txt, number: 1, instead: "@ 1"}'],
    ['no difference', '- {case: x, steps: [1], file: ipvs.txt, number: 1, instead: ""}'],
    ['no number', '- {case: x, steps: [1], file: ipvs.txt, instead: "@ 1"}'],
  ] as const)
    it(`refuses ${what}`, () => assert.throws(() => parseStateDeviations(text)))
})

/** The rows of docs/deviations.md: their numbers, and what kube-ipvs does. */
const rows = readFileSync(join(import.meta.dirname, '../../docs/deviations.md'), 'utf8')
  .split('\n')
  .filter((line) => /^\| \d/.test(line))
  .map((line) => {
    const [, numbers = '', , ours = ''] = line.split('|').map((cell) => cell.trim())
    return { numbers: numbers.split(', ').map(Number), ours }
  })

describe('docs/deviations.md', () => {
  it('has every number once, from 1 on', () => {
    const numbers = rows.flatMap((row) => row.numbers).sort((a, b) => a - b)
    assert.deepEqual(
      numbers,
      numbers.map((_, index) => index + 1),
    )
    assert.ok(numbers.length > 50)
  })

  it('states in every row whether kube-ipvs does the same or differs', () => {
    for (const { numbers, ours } of rows) assert.match(ours, /^(same\b|differs: [A-Za-z])/, String(numbers))
  })
})

describe('deviations.yaml', () => {
  it('names each file of a step once', () => {
    const keys = readStateDeviations().flatMap(({ case: name, mode = 'ipvs', steps, file }) =>
      steps.map((step) => `${name}/${mode}/${step}/${file}`),
    )
    assert.deepEqual(keys, [...new Set(keys)])
  })

  it('names steps that were recorded', () => {
    for (const { case: name, mode = 'ipvs', steps } of readStateDeviations()) {
      // A recording of iptables mode omits files that are as without Services, and a step that has only such files.
      const folders = ['ipvs', mode].map((one) => recordingPath(`cases/${name}/recorded/${one}`))
      for (const step of steps)
        assert.ok(
          folders.some((one) => existsSync(`${one}/${step}`)),
          `${name} step ${step}`,
        )
    }
  })

  it('cites rows of docs/deviations.md where kube-ipvs differs', () => {
    const differs = new Set(rows.flatMap(({ numbers, ours }) => (ours.startsWith('differs: ') ? numbers : [])))
    for (const { case: name, number } of readStateDeviations()) assert.ok(differs.has(number), `${name}: ${number}`)
  })
})
