/** The data file of deviations, and the verdict on one file of one step. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { type Deviation, judge, parseDeviations, readDeviations } from '../../dev/oracle/deviations.ts'
import { sharedPath, skipWithoutShared } from '../support/shared.ts'

const WEIGHT: Deviation = { case: 'x', steps: [1], file: 'ipvs.txt', number: 16, instead: '@ 1\n-w 0\n+w 1\n' }

describe('judge', () => {
  it('takes what is equal', () => assert.deepEqual(judge('w 0\n', 'w 0\n', undefined), { kind: 'equal' }))

  it('shows a difference that is not listed', () =>
    assert.deepEqual(judge('w 0\n', 'w 1\n', undefined), { kind: 'differs', text: '@ 1\n-w 0\n+w 1\n' }))

  it('takes a deviation that shows exactly', () =>
    assert.deepEqual(judge('w 0\n', 'w 1\n', WEIGHT), { kind: 'deviates', number: 16 }))

  it('refuses another difference than the listed one', () =>
    assert.equal(judge('w 0\n', 'w 2\n', WEIGHT).kind, 'differs'))

  it('refuses a listed deviation that does not show', () =>
    assert.equal(judge('w 0\n', 'w 0\n', WEIGHT).kind, 'differs'))
})

describe('parseDeviations', () => {
  for (const [what, text] of [
    ['no list', 'case: x'],
    ['a file that is none', '- {case: x, steps: [1], file: other.txt, number: 1, instead: "@ 1"}'],
    ['no steps', '- {case: x, steps: [], file: ipvs.txt, number: 1, instead: "@ 1"}'],
    ['no difference', '- {case: x, steps: [1], file: ipvs.txt, number: 1, instead: ""}'],
    ['no number', '- {case: x, steps: [1], file: ipvs.txt, instead: "@ 1"}'],
  ] as const)
    it(`refuses ${what}`, () => assert.throws(() => parseDeviations(text)))
})

describe('deviations.yaml', () => {
  it('names each file of a step once', () => {
    const keys = readDeviations().flatMap(({ case: name, mode = 'ipvs', steps, file }) =>
      steps.map((step) => `${name}/${mode}/${step}/${file}`),
    )
    assert.deepEqual(keys, [...new Set(keys)])
  })

  it('names steps that were recorded', { skip: skipWithoutShared('oracle/cases') }, () => {
    for (const { case: name, mode = 'ipvs', steps } of readDeviations()) {
      // What is as without Services is left out in iptables mode, a whole step where nothing is left.
      const folders = ['ipvs', mode].map((one) => sharedPath(`oracle/cases/${name}/recorded/${one}`))
      for (const step of steps)
        assert.ok(
          folders.some((one) => existsSync(`${one}/${step}`)),
          `${name} step ${step}`,
        )
    }
  })

  it('cites numbers where we are to differ', { skip: skipWithoutShared('deviations.md') }, () => {
    const differs = new Set<number>()
    for (const line of readFileSync(sharedPath('deviations.md'), 'utf8').split('\n')) {
      const [, numbers = '', , we = ''] = line.split('|').map((cell) => cell.trim())
      if (we.startsWith('differ')) for (const number of numbers.split(',')) differs.add(Number(number))
    }
    for (const { case: name, number } of readDeviations()) assert.ok(differs.has(number), `${name}: ${number}`)
  })
})
