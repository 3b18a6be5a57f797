import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { LineSplitter } from '../../../src/watch/api/line-splitter.ts'

const STREAM = Buffer.from('{"type":"ADDED","name":"größe ☃"}\n\n{"type":"DELETED"}\n{"a":1}\n')
const LINES = ['{"type":"ADDED","name":"größe ☃"}', '{"type":"DELETED"}', '{"a":1}']

function split(chunks: readonly Buffer[], maxLineBytes = 1000): string[] {
  const splitter = new LineSplitter(maxLineBytes)
  return chunks.flatMap((chunk) => splitter.push(chunk)).map(String)
}

test('LineSplitter gives the same lines wherever the stream is cut once', () => {
  for (let cut = 0; cut <= STREAM.length; cut++)
    assert.deepEqual(split([STREAM.subarray(0, cut), STREAM.subarray(cut)]), LINES, `cut at ${cut}`)
})

test('LineSplitter gives the same lines byte by byte', () => {
  assert.deepEqual(split([...STREAM].map((byte) => Buffer.from([byte]))), LINES)
})

test('LineSplitter gives the same lines however the stream is cut', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(STREAM.length)), (cuts) => {
      const sorted = [0, ...cuts.toSorted((a, b) => a - b), STREAM.length]
      const chunks = sorted.map((end, index) => STREAM.subarray(sorted[index - 1] ?? 0, end))
      assert.deepEqual(split(chunks), LINES)
    }),
  )
})

test('LineSplitter knows what is left of a line without an end', () => {
  const splitter = new LineSplitter(1000)
  assert.deepEqual(splitter.push(Buffer.from('abc\nde')).map(String), ['abc'])
  assert.equal(splitter.pendingBytes, 2)
  assert.deepEqual(splitter.push(Buffer.from('f\n')).map(String), ['def'])
  assert.equal(splitter.pendingBytes, 0)
})

test('LineSplitter refuses a line that is too long, whole or in pieces', () => {
  const rows = [['12345\n'], ['12', '345\n'], ['123456'], ['123', '456']]
  for (const chunks of rows)
    assert.throws(
      () =>
        split(
          chunks.map((text) => Buffer.from(text)),
          4,
        ),
      { code: 'api-line-too-long' },
      chunks.join('|'),
    )
  assert.deepEqual(split([Buffer.from('1234\n12'), Buffer.from('34\n')], 4), ['1234', '1234'])
})
