/** The form in which deviations are written, exact and empty only for equal texts; and the verdict on a difference. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { type Deviation, differenceOf, judge, parseDeviations } from './deviations.ts'

/** Makes the second text of the first and the difference. */
function applied(before: string, difference: string): string {
  const lines = before.split('\n').slice(0, -1)
  const out: string[] = []
  let next = 0
  for (const line of difference.split('\n').slice(0, -1)) {
    const rest = line.slice(1)
    if (line.startsWith('@ ')) while (next < Number(rest) - 1) out.push(lines[next++] ?? '')
    else if (line.startsWith('-')) assert.equal(lines[next++], rest)
    else out.push(rest)
  }
  return [...out, ...lines.slice(next)].map((line) => `${line}\n`).join('')
}

describe('differenceOf', () => {
  it('names the line before which something happens', () => {
    assert.equal(differenceOf('a\nb\nc\n', 'a\nx\nc\nd\n'), '@ 2\n-b\n+x\n@ 4\n+d\n')
  })

  it('is empty for equal texts', () => {
    assert.equal(differenceOf('a\nb\n', 'a\nb\n'), '')
    assert.equal(differenceOf('', ''), '')
  })

  it('makes the second text of the first', () => {
    const text = fc
      .array(fc.constantFrom('a', 'b', 'c', '-a', '+b', '@ 1'))
      .map((lines) => lines.map((line) => `${line}\n`).join(''))
    fc.assert(
      fc.property(text, text, (before, after) => {
        const difference = differenceOf(before, after)
        assert.equal(applied(before, difference), after)
        assert.equal(difference === '', before === after)
      }),
    )
  })
})

describe('judge', () => {
  const difference = differenceOf('w 0\n', 'w 1\n')
  const listed: Deviation = { case: 'x', instead: difference }

  it('finds equal texts equal', () => assert.deepEqual(judge('', undefined), { kind: 'equal' }))

  it('shows a difference that is not listed', () =>
    assert.deepEqual(judge(difference, undefined), { kind: 'differs', text: '@ 1\n-w 0\n+w 1\n' }))

  it('accepts a deviation that shows exactly as listed', () =>
    assert.deepEqual(judge(difference, listed), { kind: 'deviates', deviation: listed }))

  it('refuses another difference than the listed one', () =>
    assert.deepEqual(judge('@ 1\n-w 0\n+w 2\n', listed), {
      kind: 'differs',
      text: 'expected the listed deviation\n@ 1\n-w 0\n+w 1\nbut found\n@ 1\n-w 0\n+w 2\n',
    }))

  it('refuses a listed deviation that does not show', () =>
    assert.deepEqual(judge('', listed), {
      kind: 'differs',
      text: 'expected the listed deviation\n@ 1\n-w 0\n+w 1\nbut found\nno difference\n',
    }))
})

describe('parseDeviations', () => {
  it('reads a list whose entries have the form, and an empty file', () => {
    assert.deepEqual(
      parseDeviations('- {case: x, instead: y}', () => true, 'case'),
      [{ case: 'x', instead: 'y' }],
    )
    assert.deepEqual(
      parseDeviations('', () => false, 'case'),
      [],
    )
  })

  it('names the entry that does not have the form', () => {
    const hasReason = (entry: Readonly<Record<string, unknown>>): boolean => typeof entry['reason'] === 'string'
    assert.throws(
      () => parseDeviations('- {case: x, reason: y}\n- {case: x}', hasReason, 'case, reason'),
      /^Error: deviations\.yaml, entry 2: not of the form case, reason$/,
    )
    assert.throws(() => parseDeviations('case: x', () => true, 'case'), /not a list/)
    assert.throws(() => parseDeviations('- x', () => true, 'case'), /entry 1/)
  })
})
