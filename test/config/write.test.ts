/** Texts as kube-proxy 1.37.2 writes them after a key: `winkernel.networkName` of `--write-config-to`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseConfigurationDocument } from '../../src/config/document.ts'
import { toYaml } from '../../src/config/write.ts'

const ROWS: readonly (readonly [value: string, written: string])[] = [
  ['a: b', "'a: b'"],
  ['a #b', "'a #b'"],
  ['a:', "'a:'"],
  ['- a', "'- a'"],
  ['-', "'-'"],
  ['? a', "'? a'"],
  [': a', "': a'"],
  ['a,b', 'a,b'],
  ['[a', "'[a'"],
  ['{', "'{'"],
  ['|', "'|'"],
  ['@a', "'@a'"],
  ['*a', "'*a'"],
  ['#a', "'#a'"],
  ['"a', "'\"a'"],
  ["'a", "'''a'"],
  ['a"b', 'a"b'],
  ["it's", "it's"],
  ['a\tb', '"a\\tb"'],
  ['a\nb', '|-\n    a\n    b'],
  ['a\nb\n', '|\n    a\n    b'],
  [' a\nb', '|2-\n     a\n    b'],
  ['a \nb', '"a \\nb"'],
  ['~', '"~"'],
  ['Null', '"Null"'],
  ['true', '"true"'],
  ['Yes', '"Yes"'],
  ['y', '"y"'],
  ['N', '"N"'],
  ['off', '"off"'],
  ['.nan', '".nan"'],
  ['-.inf', '"-.inf"'],
  ['1', '"1"'],
  ['-1', '"-1"'],
  ['01', '"01"'],
  ['1_0', '"1_0"'],
  ['0x1', '"0x1"'],
  ['0b1', '"0b1"'],
  ['0o1', '"0o1"'],
  ['1.', '"1."'],
  ['.1', '".1"'],
  ['1e3', '"1e3"'],
  ['1e', '1e'],
  ['1:30', '"1:30"'],
  ['1:60', '1:60'],
  ['2001-1-1', '"2001-1-1"'],
  ['2001-01-01T00:00:00Z', '"2001-01-01T00:00:00Z"'],
  ['=', '='],
  ['---', "'---'"],
  ['...', "'...'"],
  ['', '""'],
  ['\u0001', '"\\x01"'],
  ['\u00a0a', '\u00a0a'],
  ['\u200b', '\u200b'],
  ['\ud83d\ude00', '"\\U0001F600"'],
  ['\u00ff', '\u00ff'],
  ['0.0.0.0', '0.0.0.0'],
  ['1.2.3', '1.2.3'],
  ['.', '.'],
  ['-.', '-.'],
  ['%a', "'%a'"],
  ['a@b', 'a@b'],
  [' a', "' a'"],
  ['a ', "'a '"],
  ['5 ', "'5 '"],
  [
    'word word word word word word word word word word word word word word word word  word word word',
    'word word word word word word word word word word word word word word\n    word word  word word word',
  ],
  [
    '# word word word word word word word word word word word word word word word word word word word word',
    "'# word word word word word word word word word word word word word\n    word word word word word word word'",
  ],
]

test('toYaml writes texts as Go does', () => {
  for (const [value, written] of ROWS)
    assert.equal(toYaml({ winkernel: { networkName: value } }), `winkernel:\n  networkName: ${written}\n`)
})

test('parseConfigurationDocument reads back what toYaml writes', () => {
  for (const [value] of ROWS) {
    const text = toYaml({ a: { b: value, c: [value], d: [], e: {}, f: null, g: 5, h: true } })
    const expected = { a: { b: value, c: [value], d: [], e: {}, f: null, g: 5, h: true } }
    const read = parseConfigurationDocument(text)
    assert.ok('value' in read, text)
    assert.deepEqual(read.value, expected, text)
  }
})
