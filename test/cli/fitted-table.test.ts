import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { breakText, fitColumns, type FittedColumn } from '../../src/cli/fitted-table.ts'

const COLUMNS: readonly FittedColumn[] = [
  { title: 'VIRTUAL SERVER' },
  { title: 'SCHEDULER', leaveOut: 2 },
  { title: 'N', align: 'right', leaveOut: 1 },
]
const ROWS = [
  ['10.96.0.1:80/tcp', 'rr', '1'],
  ['', '', '20'],
]

test('fitColumns leaves columns out by their rank, and makes blocks of what still does not fit', () => {
  assert.deepEqual(fitColumns(COLUMNS, ROWS, { width: undefined })[1], '10.96.0.1:80/tcp  rr          1')
  assert.deepEqual(fitColumns(COLUMNS, ROWS, { width: 31 }).length, 3)
  assert.deepEqual(fitColumns(COLUMNS, ROWS, { width: 30 }), [
    'VIRTUAL SERVER     N',
    '10.96.0.1:80/tcp   1',
    '                  20',
  ])
  assert.deepEqual(fitColumns(COLUMNS, ROWS, { width: 19 }), ['VIRTUAL SERVER', '10.96.0.1:80/tcp', ''])
  assert.deepEqual(fitColumns(COLUMNS, ROWS, { width: 10 }), ['10.96.0.1:', '80/tcp'])
})

test('fitColumns breaks the texts of the last column', () => {
  const columns = [{ title: '' }, { title: '', wraps: true }]
  const rows = [
    ['mode', 'ipvs, as the daemon says, which has run for long'],
    ['a', 'b'],
  ]
  assert.deepEqual(fitColumns(columns, rows, { width: 32 }), [
    'mode  ipvs, as the daemon says,',
    '      which has run for long',
    'a     b',
  ])
  assert.deepEqual(fitColumns(columns, rows, { width: 20 }), [
    'mode',
    '  ipvs, as the',
    '  daemon says, which',
    '  has run for long',
    'a',
    '  b',
  ])
})

test('fitColumns paints each line of a broken text', () => {
  const paint = (text: string): string => `<${text}>`
  const rows = [[{ text: 'one two', paint }]]
  assert.deepEqual(fitColumns([{ title: '', wraps: true }], rows, { width: 3 }), ['<one>', '<two>'])
})

test('fitColumns never makes a line that is longer than the width, from one column on', () => {
  const cell = fc.string({ maxLength: 30, unit: fc.constantFrom('a', 'b', '.', ' ') })
  fc.assert(
    fc.property(
      fc.array(fc.tuple(cell, cell, cell), { maxLength: 5 }),
      fc.integer({ min: 3, max: 60 }),
      (rows, width) => {
        for (const wraps of [false, true])
          for (const line of fitColumns(
            [{ title: 'ONE' }, { title: 'TWO', leaveOut: 1 }, { title: 'III', wraps }],
            rows,
            { width },
          ))
            assert.ok(line.length <= width, JSON.stringify(line))
      },
    ),
  )
})

test('breakText keeps every character but the spaces at breaks', () => {
  fc.assert(
    fc.property(fc.string(), fc.integer({ min: 1, max: 20 }), (text, width) => {
      const lines = breakText(text, width)
      assert.ok(lines.every((line) => line.length <= width))
      assert.equal(lines.join('').replaceAll(' ', ''), text.replaceAll(' ', ''))
    }),
  )
})

test('fitColumns shortens texts in the middle, leaves columns out at their least width, then shortens further', () => {
  const columns: readonly FittedColumn[] = [
    { title: 'SERVICE', shortens: 8 },
    { title: 'SERVER', shortens: 6, leaveOut: 2 },
    { title: 'N', align: 'right', room: 4 },
    { title: 'M', leaveOut: 1 },
  ]
  const rows = [['demo/a-long-name', '10.0.0.1:80', '1', '2']]
  const at = (width: number): readonly string[] => fitColumns(columns, rows, { width })
  assert.deepEqual(at(40).at(-1), 'demo/a-long-name  10.0.0.1:80  1  2')
  // What one column does not need is left to the other.
  assert.deepEqual(at(35).at(-1), 'demo/a…g-name  10.0.0.1:80  1  2')
  assert.deepEqual(at(25), ['SERVICE  SERVER   N  M', 'dem…ame  10.…:80  1  2'])
  assert.deepEqual(at(23), ['SERVICE         N  M', 'demo/a-…g-name  1  2'])
  assert.deepEqual(at(14), ['SERVICE   N', 'demo…ame  1'])
  assert.deepEqual(at(8), ['S…  N', 'd…  1'])
  assert.deepEqual(at(5), ['demo/', 'a-lon', 'g-nam', 'e', '  1'])
})
