/** The line that a reader could not read because it nests too deeply. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isOutOfStack, nestingOf } from '../../src/values/nesting.ts'

test('nestingOf counts brackets and names the line with the most levels, outside quotes and comments', () => {
  const rows: readonly [text: string, depth: number, line: number][] = [
    ['', 0, 1],
    ['a: 1\nb: 2\n', 0, 1],
    ['a: [1]\nb: [[{c: 1}]]\n', 3, 2],
    ['a: [1: 2: 3: 4]\nb: [c]\n', 1, 1],
    ['a:\n- - - b\n', 0, 2],
    ['a: "[[[["\nb: \'{{{{\'\nc: [1]\n', 1, 3],
    ['# [[[[[\na: b#[[[[\nc: http://x\n', 4, 2],
    [']]]]\n[\n', 1, 2],
  ]
  for (const [text, depth, line] of rows) assert.deepEqual(nestingOf(text), { depth, line }, text)
  const long = `a: 1\nb: [${Array.from({ length: 50_000 }, (_, index) => index).join(': ')}]\n`
  assert.deepEqual(nestingOf(long), { depth: 1, line: 2 })
})

test('isOutOfStack knows the error and the message that libraries make of it', () => {
  assert.equal(isOutOfStack(new RangeError('Maximum call stack size exceeded')), true)
  assert.equal(isOutOfStack('Maximum call stack size exceeded'), true)
  assert.equal(isOutOfStack(new Error('no')), false)
})
