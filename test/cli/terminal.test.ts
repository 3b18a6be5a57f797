import assert from 'node:assert/strict'
import { test } from 'node:test'
import { finishLine } from '../../src/start/output.ts'
import { styleFor } from '../../src/start/style.ts'
import { formatColumns } from '../../src/cli/terminal.ts'

const red = (text: string): string => `<${text}>`

test('formatColumns aligns columns and trims lines', () => {
  const columns = [{ title: 'ADDRESS' }, { title: 'N', align: 'right' }, { title: 'WHY' }] as const
  assert.deepEqual(formatColumns(columns, [['10.96.0.1:443', '1', 'ready'], ['a', '200', ''], ['b', ''], []]), [
    'ADDRESS          N  WHY',
    '10.96.0.1:443    1  ready',
    'a              200',
    'b',
    '',
  ])
})

test('formatColumns measures cells before it paints them', () => {
  const rows = [
    [{ text: 'x', paint: red }, '1'],
    ['long', { text: '', paint: red }],
    ['', { text: '22', paint: red }],
  ]
  assert.deepEqual(formatColumns([{ title: '' }, { title: '', align: 'right' }], rows, { gap: 1, indent: 2 }), [
    '  <x>     1',
    '  long',
    '       <22>',
  ])
  assert.deepEqual(formatColumns([{ title: 'A' }, { title: 'B' }], [['1', '2']], { paintTitle: red }), [
    '<A>  <B>',
    '1  2',
  ])
})

test('formatColumns prints the titles where there are no rows', () => {
  assert.deepEqual(formatColumns([{ title: 'A' }], []), ['A'])
  assert.deepEqual(formatColumns([], []), [])
})

test('styleFor colours terminals only', () => {
  assert.equal(finishLine(styleFor({ isTTY: true }, {})('red', 'x')), '\u001b[31mx\u001b[39m')
  assert.equal(finishLine(styleFor({ isTTY: true }, { NO_COLOR: '' })('red', 'x')), '\u001b[31mx\u001b[39m')
  for (const [stream, environment] of [
    [{ isTTY: true }, { NO_COLOR: '1' }],
    [{ isTTY: true }, { TERM: 'dumb' }],
    [{ isTTY: false }, {}],
    [{}, { FORCE_COLOR: '1' }],
  ] as const) {
    assert.equal(styleFor(stream, environment)('red', 'x'), 'x')
  }
})

test('a finished line has colours of this program and nothing else that a terminal interprets', () => {
  const style = styleFor({ isTTY: true }, {})
  const hostile = 'a\u001b[31mb\u001b[2J\u009b1m\u202e\r\n'
  const escaped = String.raw`a\x1b[31mb\x1b[2J\u009b1m\u202e\r\n`
  assert.equal(finishLine(hostile), escaped)
  assert.equal(
    finishLine(`${style('bold', hostile)} ${style(['red', 'bold'], 'x')}`),
    [`\u001b[1m${escaped}\u001b[22m `, '\u001b[31m\u001b[1mx\u001b[22m\u001b[39m'].join(''),
  )
})

test('formatColumns escapes cells before it measures them', () => {
  assert.deepEqual(
    formatColumns(
      [{ title: 'A' }, { title: 'B' }],
      [
        ['\u001b', '1'],
        [{ text: '\n', paint: (text) => `<${text}>` }, '2'],
      ],
    ),
    ['A     B', String.raw`\x1b  1`, String.raw`<\n>    2`],
  )
})
