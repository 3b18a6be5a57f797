import assert from 'node:assert/strict'
import { test } from 'node:test'
import { printable, printableJson, quote } from '../../src/values/quote.ts'

/** What Go's strconv.Quote prints. */
const QUOTED: readonly (readonly [text: string, quoted: string])[] = [
  ['', '""'],
  ['plain text', '"plain text"'],
  ['a "b" \\c', '"a \\"b\\" \\\\c"'],
  ['\x07\b\f\n\r\t\v', '"\\a\\b\\f\\n\\r\\t\\v"'],
  ['\0\x1b[31m\x7f', '"\\x00\\x1b[31m\\x7f"'],
  ['grüße 你好 😀', '"grüße 你好 😀"'],
  ['\x85\xa0\u2028\u202e\ufeff', '"\\u0085\\u00a0\\u2028\\u202e\\ufeff"'],
  ['\u{e0001}', '"\\U000e0001"'],
  ['\ud800', '"\ufffd"'],
]

test('quote prints the same text as strconv.Quote', () => {
  for (const [text, quoted] of QUOTED) assert.equal(quote(text), quoted)
})

test('printable does not escape quotes', () => {
  assert.equal(printable('a "b"\n\x1b'), 'a "b"\\n\\x1b')
})

test('printableJson parses to the same value', () => {
  const value = { a: '\x9b2J\u202e\u200b\ufeff\n\u{e0001}\xad\u061c', b: undefined }
  const json = printableJson(value) ?? ''
  assert.match(json, /^[\x20-\x7e]*$/)
  assert.deepEqual(JSON.parse(json), { a: value.a })
  assert.equal(printableJson(undefined), undefined)
})
