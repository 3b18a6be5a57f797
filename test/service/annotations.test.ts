import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { AnnotationReader, annotationsText, NO_CHOICES, type ServiceChoices } from '../../src/service/annotations.ts'
import { SCHEDULERS } from '../../src/values/schedulers.ts'
import { ALLOWED_WEIGHTS, parseWeights, type Weights } from '../../src/service/weights.ts'

const OURS = 'kube-ipvs.io/'
const THEIRS = 'kube-router.io/service.'

/** What a reader makes of annotations, our own without their prefix. */
function read(annotations: Readonly<Record<string, string>>, configured = 'rr') {
  const named = Object.entries(annotations).map(
    ([name, value]) => [name.includes('/') ? name : OURS + name, value] as const,
  )
  return new AnnotationReader(configured).read(annotationsText(new Map(named)))
}

/** Allowed rules; weights.test.ts checks what they mean. */
function weights(text: string): Weights {
  const parsed = parseWeights(text)
  assert.ok(parsed)
  return parsed
}

const chosen = (name: (typeof SCHEDULERS)[number], annotation = `${OURS}scheduler`): ServiceChoices => ({
  scheduler: { name, annotation },
})

describe('AnnotationReader', () => {
  it('reads every allowed value', () => {
    const both = { fallback: true, port: true }
    const rows: readonly (readonly [Readonly<Record<string, string>>, ServiceChoices, string?])[] = [
      [{}, NO_CHOICES],
      ...SCHEDULERS.map((name) => [{ scheduler: name }, chosen(name)] as const),
      [{ [`${THEIRS}scheduler`]: 'lc' }, chosen('lc', `${THEIRS}scheduler`)],
      [{ scheduler: 'sh', [`${THEIRS}scheduler`]: 'lc' }, chosen('sh')],
      [
        { scheduler: 'sh', 'scheduler-flags': 'port' },
        { ...chosen('sh'), hashFlags: { fallback: false, port: true } },
      ],
      [
        { scheduler: 'mh', 'scheduler-flags': 'port, fallback' },
        { ...chosen('mh'), hashFlags: both },
      ],
      [
        { scheduler: 'mh', 'scheduler-flags': 'mh-port,mh-fallback' },
        { ...chosen('mh'), hashFlags: both },
      ],
      [
        { scheduler: 'mh', 'scheduler-flags': 'none' },
        { ...chosen('mh'), hashFlags: { fallback: false, port: false } },
      ],
      [
        { scheduler: 'mh', [`${THEIRS}schedflags`]: 'flag-1,flag-2' },
        { ...chosen('mh'), hashFlags: both },
      ],
      [{ 'scheduler-flags': 'fallback' }, { hashFlags: { fallback: true, port: false } }, 'sh'],
      [{ 'affinity-prefix-length': '24' }, { affinityPrefixLength: { IPv4: 24, IPv6: 128 } }],
      [{ 'affinity-prefix-length': '32,1' }, { affinityPrefixLength: { IPv4: 32, IPv6: 1 } }],
      [{ 'affinity-prefix-length': '1,128' }, { affinityPrefixLength: { IPv4: 1, IPv6: 128 } }],
      [{ 'drain-deadline': '1s' }, { drainDeadlineMs: 1000 }],
      [{ 'drain-deadline': '1h30m' }, { drainDeadlineMs: 5_400_000 }],
      [{ 'drain-deadline': '24h' }, { drainDeadlineMs: 86_400_000 }],
      [{ 'drain-deadline': '0s' }, { drainDeadlineMs: Number.POSITIVE_INFINITY }],
      [{ 'max-connections': '1' }, { maxConnections: 1 }],
      [{ 'max-connections': '1000000000' }, { maxConnections: 1_000_000_000 }],
      [
        { scheduler: 'wrr', weights: 'zone:a=2' },
        { ...chosen('wrr'), weights: weights('zone:a=2') },
      ],
      [{ 'slow-start': '1s' }, { slowStartMs: 1000 }, 'wlc'],
      [{ 'slow-start': '1.5s' }, { slowStartMs: 1500 }, 'wlc'],
      [
        { scheduler: 'mh', 'slow-start': '1h' },
        { ...chosen('mh'), slowStartMs: 3_600_000 },
      ],
      [{ 'outlier-detection': 'true' }, { outlierDetection: true }],
      [{ 'outlier-detection': 'false' }, { outlierDetection: false }, 'dh'],
      [
        { scheduler: 'mh', 'outlier-detection': 'true' },
        { ...chosen('mh'), outlierDetection: true },
      ],
      [{ weights: 'same-zone=10,other=1' }, { weights: weights('same-zone=10,other=1') }, 'wlc'],
    ]
    for (const [annotations, choices, configured] of rows)
      assert.deepEqual(read(annotations, configured), { choices, problems: [] }, JSON.stringify(annotations))
  })

  it('reports a wrong value once, with what is allowed, and keeps the other annotations', () => {
    const schedulers = SCHEDULERS.join(', ')
    const rows: readonly (readonly [string, readonly string[], string])[] = [
      [
        'scheduler',
        ['', 'RR', ' rr', 'rr\n', 'rr\0', 'ip_vs_rr', '../../evil', 'constructor', 'rr,lc', 'x'.repeat(100_000)],
        `it must be one of ${schedulers}`,
      ],
      [
        'scheduler-flags',
        ['fallback', 'none', ''],
        'only the schedulers sh and mh have flags, and the Service has "wlc"',
      ],
      [
        'affinity-prefix-length',
        ['', '0', '33', '24,0', '24,129', ',64', '24,', '024', '1e1', '24,64,1', '-1', '٢٤', '/24'],
        'it must be a prefix length of IPv4 (1 to 32), or that, a comma and one of IPv6 (1 to 128): 24 or 24,64',
      ],
      [
        'drain-deadline',
        ['', '5', '-1s', '999ms', '24h0m1s', '1 s', 'forever', '1s\n', '9'.repeat(90) + 'h'],
        'it must be a duration from 1s to 24h, such as 90s or 1h30m, or 0 for no deadline',
      ],
      [
        'slow-start',
        ['', '0', '0s', '5', '-1s', '999ms', '1h1s', '1 s', '1s\n', 'always', '٣s', '9'.repeat(90) + 'h', '1s,2s'],
        'it must be a duration from 1s to 1h, such as 30s or 2m',
      ],
      [
        'outlier-detection',
        ['', 'True', '1', 'yes', ' true', 'true\n', 'x'.repeat(100_000)],
        'it must be true or false',
      ],
      [
        'max-connections',
        ['', '0', '-1', '1.5', '1e3', '0x10', '1000000001', '99999999999999999999', 'Infinity', ' 1', '1\n'],
        'it must be a whole number from 1 to 1000000000',
      ],
    ]
    const zones = (count: number): string => Array.from({ length: count }, (_, index) => `zone:z${index}=1`).join(',')
    const wrongRules = [
      '',
      ',',
      '=',
      '=1',
      'other',
      'other=',
      'other=0',
      'other=-1',
      'other=01',
      'other=1.5',
      'other=1e3',
      'other=65536',
      'other=99999999999999999999',
      'other=NaN',
      'other=١',
      'other=1;same-zone=2',
      'other=1,',
      'same-zone=1,,other=1',
      'other=1,same-zone=2',
      'other=1,other=2',
      'same-zone=1,same-zone=1',
      'zone:a=1,zone:a=2',
      'same-node=1',
      'node-label:=1',
      'node-label:pool=1',
      'node-label:pool==x=1',
      'node-label:=gold=1',
      'node-label:/pool=gold=1',
      'node-label:a b=c=1',
      'node-label:A.example/pool=gold=1',
      'node-label:__proto__=x=1',
      'node-label:pool=gold=1,node-label:pool=gold=2',
      `node-label:${'a'.repeat(64)}=x=1`,
      `node-label:${'a.'.repeat(127)}a/x=x=1`,
      'zone:=1',
      'zone:a b=1',
      'zone:ä=1',
      'zone:-a=1',
      'zone:a\0=1',
      `zone:${'a'.repeat(64)}=1`,
      'zone=1',
      'Zone:a=1',
      '{"zone":1}',
      '__proto__=1',
      zones(33),
      `${zones(31)},${' '.repeat(1024)}other=1`,
      'x'.repeat(100_000),
    ]
    for (const value of wrongRules) {
      const { choices, problems } = read({ scheduler: 'wlc', weights: value })
      assert.deepEqual(choices, chosen('wlc'), value.slice(0, 99))
      assert.ok(problems.length === 1 && problems[0]?.message.endsWith(ALLOWED_WEIGHTS), value.slice(0, 99))
    }
    assert.equal(weights(zones(32)).rules.length, 32)
    assert.deepEqual(weights('node-label:a.example/pool=x=2,node-label:b==3,zone:a=1,node-label:b=c=4').labels, [
      'a.example/pool',
      'b',
    ])
    for (const scheduler of ['rr', 'lc', 'dh'])
      assert.match(
        read({ scheduler, weights: 'other=2' }).problems[0]?.message ?? '',
        new RegExp(`only the schedulers wrr, .*, twos use weights, and the Service has "${scheduler}"$`),
      )
    for (const scheduler of ['rr', 'lc', 'dh', 'sh', 'fo', 'ovf'])
      assert.match(
        read({ scheduler, 'slow-start': '30s' }).problems[0]?.message ?? '',
        new RegExp(
          `only the schedulers wrr, .*, twos share connections by weight, and the Service has "${scheduler}"$`,
        ),
      )
    for (const [name, values, allowed] of rows)
      for (const value of values) {
        const rest = name === 'scheduler' ? { 'max-connections': '7' } : { scheduler: 'wlc' }
        const expected = name === 'scheduler' ? { maxConnections: 7 } : chosen('wlc')
        const { choices, problems } = read({ ...rest, [name]: value })
        assert.deepEqual(choices, expected, value.slice(0, 99))
        const [problem, ...others] = problems
        assert.deepEqual(others, [])
        assert.equal(problem?.field, `metadata.annotations[${OURS}${name}]`)
        assert.ok(
          problem.message.endsWith(` is not allowed, and the default stays in force: ${allowed}`),
          problem.message,
        )
      }
    const { problems } = read({ scheduler: 'mh', 'scheduler-flags': 'port,sh-fallback' })
    assert.match(problems[0]?.message ?? '', /it must be fallback, port, both with a comma between them, or none$/)
    assert.equal(
      read({ [`${THEIRS}scheduler`]: 'nosuch' }).problems[0]?.field,
      `metadata.annotations[${THEIRS}scheduler]`,
    )
  })

  it('quotes a wrong value, and only its beginning', () => {
    const [problem] = read({ scheduler: `\u001b[31m"\n\u202e${'a'.repeat(1000)}` }).problems
    assert.match(problem?.message ?? '', /^"\\x1b\[31m\\"\\n\\u202ea+…" is not allowed/)
    assert.ok((problem?.message.length ?? 0) < 300)
  })

  it('returns one object for equal texts, and remembers a bounded number', () => {
    const reader = new AnnotationReader('rr', 3)
    const text = (value: number): string => annotationsText(new Map([[`${OURS}max-connections`, String(value)]]))
    const first = reader.read(text(1))
    assert.equal(reader.read(text(1)), first)
    for (let value = 2; value < 10; value++) reader.read(text(value))
    assert.notEqual(reader.read(text(1)), first)
    assert.deepEqual(reader.read(text(1)), first)
  })

  it('allows outlier detection only with a scheduler that sends a client to another endpoint', () => {
    const of = (annotations: Readonly<Record<string, string>>, configured?: string): string =>
      read({ 'outlier-detection': 'true', ...annotations }, configured).problems.at(-1)?.message ?? ''
    for (const scheduler of ['rr', 'wlc', 'fo', 'sh', 'mh']) assert.equal(of({ scheduler }), '', scheduler)
    assert.match(of({ scheduler: 'dh' }), /gets no other one with the scheduler "dh"$/)
    assert.match(of({}, 'dh'), /the scheduler "dh"$/)
    for (const scheduler of ['sh', 'mh'])
      assert.match(of({ scheduler, 'scheduler-flags': 'port' }), /without the flag fallback$/)
    assert.equal(of({ scheduler: 'sh', 'scheduler-flags': 'fallback' }), '')
  })

  it('never throws, and chooses nothing but allowed values, for any text', () => {
    const value = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 200 }),
      fc.constantFrom(
        'rr',
        'mh',
        'port',
        '24,64',
        '5',
        'none',
        '5m',
        '30s',
        'true',
        'false',
        'same-zone=5',
        'zone:a=2,other=7',
      ),
      fc.string({ unit: fc.constantFrom(...'0123456789,.-aswrlchmfpot '), maxLength: 12 }),
      fc
        .array(fc.constantFrom('same-zone=', 'zone:a=', 'node-label:a=', 'other=', '0', '7', '65535', ','), {
          maxLength: 9,
        })
        .map((all) => all.join('')),
    )
    const names = [
      'scheduler',
      'scheduler-flags',
      'affinity-prefix-length',
      'drain-deadline',
      'max-connections',
      'weights',
      'slow-start',
      'outlier-detection',
    ]
    const annotations = fc.dictionary(fc.constantFrom(...names), value)
    fc.assert(
      fc.property(annotations, (texts) => {
        const { choices, problems } = read(texts)
        const { scheduler, affinityPrefixLength: lengths, maxConnections = 1 } = choices
        assert.ok(scheduler === undefined || SCHEDULERS.includes(scheduler.name))
        assert.ok(lengths === undefined || (lengths.IPv4 >= 1 && lengths.IPv4 <= 32))
        assert.ok(lengths === undefined || (lengths.IPv6 >= 1 && lengths.IPv6 <= 128))
        assert.ok((choices.drainDeadlineMs ?? 1000) >= 1000)
        assert.ok(Number.isInteger(maxConnections) && maxConnections >= 1 && maxConnections <= 1e9)
        const { slowStartMs = 1000 } = choices
        assert.ok(Number.isInteger(slowStartMs) && slowStartMs >= 1000 && slowStartMs <= 3_600_000)
        const { rules = [], other = 1 } = choices.weights ?? {}
        for (const weight of [other, ...rules.map((rule) => rule.weight)])
          assert.ok(Number.isInteger(weight) && weight >= 1 && weight <= 65_535)
        assert.equal(Object.keys(choices).length + problems.length, Object.keys(texts).length)
        // eslint-disable-next-line no-control-regex
        for (const { message } of problems) assert.match(message, /^[^\p{C}]*$/u)
      }),
    )
  })
})
