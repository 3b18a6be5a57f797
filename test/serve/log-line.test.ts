import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type LogLine, formatJson, formatText, withoutSecrets } from '../../src/serve/log-line.ts'
import { CodedError } from '../../src/values/errors.ts'
import { ObjectName } from '../../src/values/log.ts'

/** klog prints local time. */
const atMs = new Date(2026, 10, 20, 9, 6, 5, 62).getTime() + 0.25
const line = (fields: LogLine['fields'], more: Partial<LogLine> = {}): LogLine => ({
  level: 'info',
  verbosity: 0,
  caller: 'ipvs/table.ts:12',
  message: 'Adding virtual server',
  fields,
  atMs,
  ...more,
})

test('formatText prints the text of klog', () => {
  const at = '1120 09:06:05.062250   19023'
  const rows: readonly (readonly [line: LogLine, expected: string])[] = [
    [line({}), `I${at} table.ts:12] "Adding virtual server"`],
    [
      line({ address: '10.96.0.1', n: 1, on: true, none: null, list: ['a', 'b'], big: 5n }, { level: 'warn' }),
      `W${at} table.ts:12] "Adding virtual server" address="10.96.0.1" n=1 on=true none=null list=["a","b"] big="5"`,
    ],
    [
      line(
        { port: 1, error: new CodedError('ipvs-refused', 'no "such"') },
        { level: 'error', caller: '', message: 'a "b"\n' },
      ),
      `E${at} ] "a \\"b\\"\\n" err="no \\"such\\"" port=1`,
    ],
    [
      line({ err: 'one\n\ttwo\n', table: 'nat' }, { message: 'm' }),
      `I${at} table.ts:12] "m" err=<\n\tone\n\t\ttwo\n > table="nat"`,
    ],
    [line({ gone: undefined }, { message: 'm' }), `I${at} table.ts:12] "m"`],
    [
      line({ service: new ObjectName('demo', 'web'), node: new ObjectName('', 'n') }, { message: 'm' }),
      `I${at} table.ts:12] "m" service="demo/web" node="n"`,
    ],
    [
      line({}, { message: 'FLAG: --v="2"', unstructured: true, caller: 'cli/flags.ts:64' }),
      `I${at} flags.ts:64] FLAG: --v="2"`,
    ],
    [line({ 'primary ipFamily': 'IPv4' }, { message: 'm' }), `I${at} table.ts:12] "m" primary ipFamily="IPv4"`],
  ]
  for (const [entry, expected] of rows) assert.equal(formatText(entry, 19_023), expected)
})

test('formatJson prints the members of kube-proxy: v on info lines, err on errors, and no level', () => {
  const service = new ObjectName('demo', 'web')
  assert.equal(
    formatJson(line({ service, port: 1 }, { verbosity: 2 })),
    `{"ts":${atMs},"caller":"ipvs/table.ts:12","msg":"Adding virtual server","v":2,"service":{"name":"web","namespace":"demo"},"port":1}`,
  )
  assert.equal(
    formatJson(line({ msg: 'x', error: new Error('y') }, { level: 'error' })),
    `{"ts":${atMs},"caller":"ipvs/table.ts:12","msg":"Adding virtual server","err":"y","msg_":"x"}`,
  )
  assert.deepEqual(JSON.parse(formatJson(line({}, { level: 'warn' }))), {
    ts: atMs,
    caller: 'ipvs/table.ts:12',
    msg: 'Adding virtual server',
    v: 0,
    severity: 'warning',
  })
})

/** Characters that end a line or control a terminal. */
const HARMFUL = /[^\P{Cc}\t\n]|[\u2028\u2029\u202a-\u202e]/u
const EVIL = 'web\nI1120 09:06:05.062000   19023 x.go:1] "forged"\r\x1b[31m\x9b2J\u202e\u2028\0'

test('formatText and formatJson escape names that forge a line or control a terminal', () => {
  const fields = { object: EVIL, list: [EVIL], nested: { [EVIL]: EVIL }, error: new Error(EVIL), [EVIL]: 1 }
  for (const more of [{}, { message: EVIL }, { message: EVIL, unstructured: true }] as const) {
    const text = formatText(line(fields, more), 1)
    assert.doesNotMatch(text, HARMFUL)
    // In a text of several lines each one is behind a tab, so none looks like a line of the log.
    for (const row of text.split('\n').slice(1)) assert.match(row, /^(\t| >)/)
    assert.doesNotMatch(text, /^I1120 09:06:05.062000   19023 x.go/m)
    const json = formatJson(line(fields, more))
    assert.doesNotMatch(json, /\n/)
    assert.doesNotMatch(json, HARMFUL)
    assert.equal(JSON.parse(json).object, EVIL)
  }
})

test('formatText and formatJson accept any value in a field', () => {
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
  assert.match(formatText(line(odd), 1), /cycle="\(unprintable value\)"/)
  assert.match(formatText(line(odd), 1), /deep=\{"n":"1","e":"z"\}/)
  JSON.parse(formatJson(line(odd)))
  fc.assert(
    fc.property(
      fc.string({ unit: 'binary' }),
      fc.dictionary(fc.string(), fc.anything({ withBigInt: true, withDate: true })),
      (message, fields) => {
        assert.doesNotMatch(formatText(line({}, { message }), 1), HARMFUL)
        assert.doesNotMatch(formatText(line(fields), 1), HARMFUL)
        assert.equal(JSON.parse(formatJson(line(fields, { message }))).msg, message)
      },
    ),
  )
})

const JWT = 'eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJl'
const KEY = '-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----'

test('withoutSecrets replaces everything that looks like a credential', () => {
  for (const line of [
    `"x" err="Authorization: Bearer ${JWT}"`,
    `{"authorization":"Bearer c2VjcmV0LXRva2Vu"}`,
    `err="Basic c2VjcmV0LXRva2Vu"`,
    `token: c2VjcmV0LXRva2Vu`,
    `err="{\\"token\\":\\"c2VjcmV0LXRva2Vu\\"}"`,
    `FLAG: --master="https://user:c2VjcmV0LXRva2Vu@10.0.0.1:6443"`,
    `err="client-key-data: c2VjcmV0LXRva2Vu"`,
    `password=c2VjcmV0LXRva2Vu`,
    KEY,
    JSON.stringify(KEY),
    `some ${JWT} here`,
  ]) {
    const safe = withoutSecrets(line)
    assert.match(safe, /\[redacted\]/, line)
    assert.doesNotMatch(safe, /c2VjcmV0|eyJpc3Mi|MIIEp/, line)
  }
})

test('withoutSecrets does not change ordinary lines', () => {
  for (const line of [
    '"Successfully retrieved NodeIPs" NodeIPs=["10.9.2.15"]',
    'err="open /var/run/secrets/kubernetes.io/serviceaccount/token: no such file or directory"',
    'err="Get \\"https://10.9.2.2:16444/api/v1/nodes\\": connection refused"',
    'err="401 Unauthorized: the token has expired"',
    'object="demo/basic auth" name="tokens@demo"',
  ])
    assert.equal(withoutSecrets(line), line)
})

/** The shortest of several durations in milliseconds, because other processes on the machine only add time. */
function shortestMs(line: string): number {
  const times = Array.from({ length: 7 }, () => {
    const startedAt = performance.now()
    withoutSecrets(line)
    return performance.now() - startedAt
  })
  return Math.min(...times)
}

test('withoutSecrets takes time proportional to the length of the line', () => {
  for (const unit of [
    'bearer ',
    'eyJ',
    'eyJ-',
    'eyJ.',
    '://a',
    '-----BEGIN PRIVATE KEY-----',
    'token:',
    'token-',
    'a',
  ]) {
    const line = unit.repeat(6000 / unit.length)
    const [short, long] = [shortestMs(line), shortestMs(line.repeat(20))]
    // The line is 20 times as long: a pattern with quadratic backtracking would take 400 times as long.
    assert.ok(long < 100 * short + 1, `${unit}: ${short} ms, then ${long} ms`)
  }
})
