import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type LogLine, formatJson, formatText } from '../../src/serve/log-line.ts'
import { CodedError } from '../../src/values/errors.ts'

/** Local time, as klog prints it. */
const atMs = new Date(2026, 10, 20, 9, 6, 5, 62).getTime()
const line = (fields: LogLine['fields'], more: Partial<LogLine> = {}): LogLine => ({
  level: 'info',
  component: 'ipvs',
  message: 'Adding virtual server',
  fields,
  atMs,
  ...more,
})

test('formatText prints as klog does', () => {
  const rows: readonly (readonly [line: LogLine, expected: string])[] = [
    [line({}), 'I1120 09:06:05.062000   19023 ipvs] "Adding virtual server"'],
    [
      line({ address: '10.96.0.1', n: 1, on: true, none: null, list: ['a', 'b'], big: 5n }, { level: 'warn' }),
      'W1120 09:06:05.062000   19023 ipvs] "Adding virtual server" address="10.96.0.1" n=1 on=true none=null list=["a","b"] big="5"',
    ],
    [
      line({ err: new CodedError('ipvs-refused', 'no "such"') }, { level: 'error', component: '', message: 'a "b"\n' }),
      'E1120 09:06:05.062000   19023 kube-ipvs] "a \\"b\\"\\n" err="no \\"such\\" (ipvs-refused)"',
    ],
    [line({ err: 'one\ntwo' }, { message: 'm' }), 'I1120 09:06:05.062000   19023 ipvs] "m" err=<\n\tone\n\ttwo\n >'],
    [line({ gone: undefined }, { message: 'm' }), 'I1120 09:06:05.062000   19023 ipvs] "m" gone=null'],
  ]
  for (const [entry, expected] of rows) assert.equal(formatText(entry, 19_023), expected)
})

test('formatJson is one JSON object with what every line has', () => {
  assert.deepEqual(JSON.parse(formatJson(line({ n: 1 }))), {
    ts: atMs,
    caller: 'ipvs',
    msg: 'Adding virtual server',
    v: 0,
    n: 1,
  })
  assert.deepEqual(JSON.parse(formatJson(line({ msg: 'x', err: new Error('y') }, { level: 'error' }))), {
    ts: atMs,
    caller: 'ipvs',
    msg: 'Adding virtual server',
    level: 'error',
    msg_: 'x',
    err: 'y',
  })
})

test('formatText and formatJson survive any field', () => {
  const cycle: Record<string, unknown> = {}
  cycle['self'] = cycle
  const odd = {
    cycle,
    symbol: Symbol('s'),
    code: () => 1,
    map: new Map(),
    deep: { n: 1n, e: new Error('z') },
    date: new Date(0),
  }
  assert.match(formatText(line(odd), 1), /cycle="\(value that cannot be printed\)"/)
  assert.match(formatText(line(odd), 1), /deep=\{"n":"1","e":"z"\}/)
  JSON.parse(formatJson(line(odd)))
  fc.assert(
    fc.property(
      fc.string(),
      fc.dictionary(fc.string(), fc.anything({ withBigInt: true, withDate: true })),
      (message, fields) => {
        assert.ok(!formatText(line({}, { message }), 1).includes('\n'))
        formatText(line(fields), 1)
        assert.equal(JSON.parse(formatJson(line(fields, { message }))).msg, message)
      },
    ),
  )
})
