import assert from 'node:assert/strict'
import { test } from 'node:test'
import { shortened } from '../../src/cli/fitted-table.ts'
import { topJson } from '../../src/cli/top-json.ts'
import { topChoices } from '../../src/cli/top-model.ts'
import { formatRate, screenText, tableText, type TopTable } from '../../src/cli/top-text.ts'
import { type Grouping, rowsOf } from '../../src/traffic/rows.ts'
import type { Rates } from '../../src/traffic/sample.ts'
import { place, rates, realServer } from '../traffic/samples.ts'

const plain = (_: unknown, text: string): string => text
const NAME = 'a-namespace-with-a-long-name/and-a-service-with-a-long-name-too'

const IPVS = rates({
  '10.96.0.1:80/tcp': place([4, 40, 50, 4000, 50_000], {
    '10.244.0.1:8080': realServer([3, 30, 40, 3000, 40_000], { active: 1234, inactive: 2 }),
    '10.244.0.2:8080': realServer([1, 10, 10, 1000, 10_000], { isDraining: true }),
  }),
  '10.96.0.2:80/tcp': place([0.5, 0, 0, 0, 0], { '[fd00:10:244::1]:8080': realServer([0.5, 0, 0, 0, 0]) }),
})
const names = new Map([
  ['10.96.0.1:80/tcp', 'demo/web:http'],
  ['10.96.0.2:80/tcp', `${NAME}:x`],
])
const table = (by: Grouping = 'service', of: Rates = IPVS): TopTable => ({
  rates: of,
  rows: rowsOf(of, by, (key) => names.get(key), {}),
  by,
  sort: 'connections',
})

test('formatRate has at most five characters', () => {
  const texts = [0, 0.01, 0.5, 9.94, 9.97, 99.6, 999, 999.6, 1234, 12_345, 999_600, 1.5e9, NaN].map(formatRate)
  assert.deepEqual(texts, ['0', '<0.1', '0.5', '9.9', '10', '100', '999', '1k', '1.2k', '12k', '1M', '1.5G', '-'])
})

test('tableText has totals, and every column where there is no width', () => {
  assert.deepEqual(tableText(table(), plain), [
    '2 Services in ipvs mode, over 1.0 s',
    'total 4.5 connections, 40 packets in and 50 out, 4k bytes in and 50k out a second; 1.2k active and 2 inactive connections',
    '',
    `${'SERVICE'.padEnd(NAME.length)}  CONN/S*  PKT IN/S  PKT OUT/S  B IN/S  B OUT/S  ACTIVE  INACTIVE`,
    `${'demo/web'.padEnd(NAME.length)}        4        40         50      4k      50k    1.2k         2`,
    `${NAME}      0.5         0          0       0        0       0         0`,
  ])
})

test('tableText by real server names its Service beside it', () => {
  const lines = tableText(table('real-server'), plain, 80).slice(3)
  assert.deepEqual(
    lines.map((line) => line.split(/ +/).slice(0, 3)),
    [
      ['SERVICE', 'REAL', 'SERVER'],
      ['demo/web', '10.244.0.1:8080', '3'],
      ['demo/web', '10.244.0.2:8080', '1'],
      [lines.at(-1)?.split(/ +/)[0], '[fd00:10…:1]:8080', '0.5'],
    ],
  )
})

test('tableText says what iptables mode cannot know', () => {
  const of = rates(
    { x: place([2, NaN, NaN, NaN, NaN], { a: realServer([2, NaN, NaN, NaN, NaN], { active: NaN, inactive: NaN }) }) },
    { mode: 'iptables', withoutConnections: 'the kernel has 70000 flows' },
  )
  const lines = tableText(table('service', of), plain)
  assert.deepEqual(lines.slice(1, 4), [
    'total 2 connections a second; - active and - inactive connections',
    'note: iptables mode counts no packets and bytes',
    'note: connections are unknown: the kernel has 70000 flows',
  ])
  assert.match(lines.at(-1) ?? '', /^x +2 +- +- +- +- +- +-$/)
})

test('screenText fits every terminal, whatever is chosen', () => {
  const choices = topChoices('bytes', 'service')
  for (const columns of [1, 5, 15, 16, 20, 21, 40, 79, 80, 110, 300])
    for (const lines of [1, 2, 5, 24])
      for (const by of ['service', 'real-server'] as const)
        for (const sort of ['connections', 'bytes', 'active', 'name'] as const)
          for (const more of [{}, { help: true }, { typed: 'abc' }, { text: 'demo' }, { scroll: 99 }]) {
            const shown = screenText({ ...table(by), sort }, { ...choices, ...more }, { columns, lines }, plain).lines
            assert.ok(shown.length <= lines, `${columns} x ${lines}: ${shown.length} lines`)
            for (const line of shown) assert.ok(line.length <= columns, `${columns} columns: ${line}`)
          }
})

test('screenText of 20 columns shows the name and the column that sorts', () => {
  const { lines } = screenText(
    { ...table(), sort: 'bytes' },
    topChoices('bytes', 'service'),
    { columns: 20, lines: 9 },
    plain,
  )
  assert.deepEqual(lines.slice(3, 6), ['SERVICE        B/S*', 'demo/web        54k', `${shortened(NAME, 13)}     0`])
})

test('screenText scrolls, and says how many rows are below', () => {
  const many = rates(
    Object.fromEntries(Array.from({ length: 30 }, (_, index) => [`vs-${index}`, place([30 - index, 0, 0, 0, 0], {})])),
  )
  const at = (scroll: number) =>
    screenText(
      table('service', many),
      { ...topChoices('connections', 'service'), scroll },
      { columns: 80, lines: 15 },
      plain,
    )
  assert.match(at(0).lines[4] ?? '', /^vs-0 /)
  assert.match(at(0).lines.at(-1) ?? '', / 20 more below$/)
  assert.match(at(5).lines[4] ?? '', /^vs-5 /)
  assert.match(at(99).lines.at(-2) ?? '', /^vs-29 /)
  assert.doesNotMatch(at(99).lines.at(-1) ?? '', /below/)
  assert.deepEqual(at(0).extent, { rows: 30, height: 10 })
})

test('topJson is one value with null for what is unknown', () => {
  const json = topJson(table('service', rates({ x: place([2, NaN, NaN, NaN, NaN]) })))
  const numbers = {
    connectionsPerSecond: 2,
    packetsInPerSecond: null,
    packetsOutPerSecond: null,
    bytesInPerSecond: null,
    bytesOutPerSecond: null,
    activeConnections: null,
    inactiveConnections: null,
  }
  assert.deepEqual(json, {
    mode: 'ipvs',
    by: 'service',
    sort: 'connections',
    seconds: 1,
    withoutConnections: null,
    total: numbers,
    rows: [{ service: null, realServer: null, places: ['x'], draining: false, outlier: null, ...numbers }],
  })
})

/** By real server, of which this one is a suspect. */
const withSuspect = (place: string): TopTable => ({
  ...table('real-server'),
  outliers: new Map([[`${place} 10.244.0.2:8080`, { state: 'suspect' }]]),
})

test('topJson does not take a suspect of outlier detection for one that drains', () => {
  const marked = (of: TopTable): readonly (readonly unknown[])[] =>
    topJson(of)
      .rows.filter((row) => row.draining || row.outlier !== null)
      .map(({ realServer: name, draining, outlier }) => [name, draining, outlier])
  assert.deepEqual(marked(table('real-server')), [['10.244.0.2:8080', true, null]])
  assert.deepEqual(marked(withSuspect('10.96.0.9:80/tcp')), [['10.244.0.2:8080', true, null]])
  assert.deepEqual(marked(withSuspect('10.96.0.1:80/tcp')), [['10.244.0.2:8080', false, 'suspect']])
})

test('tableText marks what drains, and what does not answer with its state', () => {
  const coloured = (of: TopTable): string =>
    tableText(of, (format, text) => `<${String(format)}>${text}</>`).find((line) => line.includes('10.244.0.2')) ?? ''
  assert.match(coloured(table('real-server')), /<yellow>10\.244\.0\.2:8080<\/>/)
  assert.match(coloured(withSuspect('10.96.0.1:80/tcp')), /<red>10\.244\.0\.2:8080 suspect<\/>/)
})

test('shortened keeps both ends and prints no control characters', () => {
  assert.equal(shortened('abcdefghij', 5), 'ab…ij')
  assert.equal(shortened('abc', 5), 'abc')
  assert.equal(shortened('abc', 1), '…')
  assert.equal(shortened('a\x1b[2J', 20), 'a\\x1b[2J')
})
