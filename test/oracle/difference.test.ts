/** The form in which deviations are written: exact, and empty only for equal texts. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { differenceOf } from './difference.ts'

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
