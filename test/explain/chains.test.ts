/** How a packet is followed through chains: jumps, marks, chances, and rules that cannot be judged. */
import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import fc from 'fast-check'
import { endsOf, explain, filterWorld, PACKET, worldOf } from './world.ts'

describe('rules that cannot be judged', () => {
  it('are followed both ways, which say so', () => {
    const { outcomes, steps } = explain(filterWorld(['-A INPUT -m u32 --u32 0x0 -j DROP']), PACKET)
    assert.deepEqual(
      outcomes.map(({ end, share, conditions }) => [
        end.kind,
        share,
        conditions.map(({ matches, because }) => [matches, because]),
      ]),
      [
        ['dropped', 1, [[true, 'the match u32']]],
        ['delivered', 1, [[false, 'the match u32']]],
      ],
    )
    assert.equal(steps.length, 1)
  })

  it('are no condition where both ways lead to one end', () => {
    const world = filterWorld(['-A INPUT -m u32 --u32 0x0 -j ACCEPT', '-A INPUT -m owner --uid-owner 0 -j LOG'])
    const { outcomes } = explain(world, PACKET)
    assert.deepEqual(
      outcomes.map(({ end, conditions }) => [end.kind, conditions.length]),
      [['delivered', 0]],
    )
  })

  it('do not multiply without end', () => {
    const many = Array.from(
      { length: 60 },
      (_, index) => `-A INPUT -m u32 --u32 0x${index} -j MARK --set-xmark 0x1/0x1`,
    )
    const { limits, outcomes } = explain(filterWorld(many), PACKET)
    assert.match(limits.join(), /cannot be judged/)
    assert.deepEqual(new Set(outcomes.map(({ end }) => end.kind)), new Set(['delivered']))
  })

  it('targets of other programs are named', () => {
    const { outcomes } = explain(filterWorld(['-A INPUT -j NFQUEUE --queue-num 1']), PACKET)
    assert.deepEqual(
      outcomes.map(({ end, conditions }) => [end.kind, conditions[0]?.because]),
      [['delivered', 'the target NFQUEUE']],
    )
  })
})

describe('rulesets with more ways than can be followed', () => {
  const tooLong = (rules: readonly string[]): void => {
    const text = ['*filter', ':INPUT ACCEPT [0:0]', ':A - [0:0]', ...rules, 'COMMIT', ''].join('\n')
    const { limits, outcomes } = explain(worldOf({ rules: text }), PACKET)
    assert.match(limits.join(), /longer than can be followed/)
    assert.deepEqual(new Set(outcomes.map(({ end }) => end.kind)), new Set(['delivered']))
    assert.ok(Math.abs(outcomes.reduce((sum, { share }) => sum + (share ?? Number.NaN), 0) - 1) < 1e-9)
  }
  it('are followed up to a limit: chains that each jump twice to the next', () => {
    const names = Array.from({ length: 60 }, (_, index) => `C${index}`)
    const jumps = names.flatMap((name, index) => [0, 1].map(() => `-A ${name} -j ${names[index + 1] ?? 'A'}`))
    tooLong([...names.map((name) => `:${name} - [0:0]`), '-A INPUT -j C0', ...jumps, '-A A -j MARK --set-xmark 0x1'])
  })
  it('are followed up to a limit: a chain that jumps to itself, which the kernel would refuse', () =>
    tooLong(['-A INPUT -j A', '-A A -j A', '-A A -j MARK --set-xmark 0x1', '-A A -j A']))
  it('are followed up to a limit: chances that each make two ways', () =>
    tooLong(
      Array.from(
        { length: 60 },
        (_, bit) => `-A INPUT -m statistic --mode random --probability 0.5 -j MARK --set-xmark 0x${bit + 1}`,
      ),
    ))
})

describe('chains', () => {
  it('return, and a goto returns to the chain before', () => {
    const world = filterWorld([
      '-A INPUT -j A',
      '-A INPUT -j REJECT --reject-with tcp-reset',
      '-A A -g B',
      '-A A -j DROP',
      '-A B -j RETURN',
    ])
    assert.deepEqual(endsOf(explain(world, PACKET)), ['refused'])
  })

  it('marks are kept and compared bit by bit', () => {
    const rules = [
      '-A INPUT -j MARK --set-xmark 0x6/0xff',
      '-A INPUT -j MARK --set-xmark 0x2/0x3',
      '-A INPUT -m mark --mark 0x6 -j DROP',
    ]
    assert.deepEqual(endsOf(explain(filterWorld(rules), PACKET)), ['dropped'])
    const saved = [
      '-A INPUT -j MARK --set-xmark 0x6/0xff',
      '-A INPUT -j CONNMARK --save-mark --nfmask 0xffffffff --ctmask 0xffffffff',
      '-A INPUT -m connmark --mark 0x6 -j DROP',
    ]
    assert.deepEqual(endsOf(explain(filterWorld(saved), PACKET)), ['dropped'])
  })

  it('without connection tracking rules of nat are not asked', () => {
    const rules =
      '*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -j CT --notrack\nCOMMIT\n*nat\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -j DNAT --to-destination 10.244.0.10:8080\nCOMMIT\n'
    assert.deepEqual(endsOf(explain(worldOf({ rules }), PACKET)), ['delivered'])
    assert.deepEqual(
      endsOf(explain(worldOf({ rules: rules.replace('-A PREROUTING -j CT --notrack\n', '') }), PACKET)),
      ['10.244.0.10:8080 own 1'],
    )
  })
})

test('the shares of chances and real servers add up to one', () => {
  const chance = fc.integer({ min: 1, max: 999 }).map((thousandths) => (thousandths / 1000).toFixed(11))
  const verdict = fc.constantFrom('DROP', 'ACCEPT', 'A', 'RETURN', 'MARK --set-xmark 0x1/0x1')
  const rule = fc
    .tuple(chance, verdict)
    .map(([probability, target]) => `-m statistic --mode random --probability ${probability} -j ${target}`)
  const weights = fc.array(fc.integer({ min: 0, max: 5 }), { minLength: 1, maxLength: 6 })
  const scheduler = fc.constantFrom('rr', 'wrr', 'sh', 'mh', 'fo')
  fc.assert(
    fc.property(
      fc.array(rule, { maxLength: 5 }),
      fc.array(rule, { maxLength: 3 }),
      weights,
      scheduler,
      (input, inner, all, name) => {
        const key = '-t 10.96.10.1:80'
        const servers = [
          `-A ${key} -s ${name}`,
          ...all.map((weight, index) => `-a ${key} -r 10.244.0.${index + 1}:8080 -m -w ${weight}`),
        ]
        const inA = inner.map((one) => `-A A ${one.replace('-j A', '-j B')}`)
        const world = filterWorld([...input.map((one) => `-A INPUT ${one}`), ...inA], {
          servers: servers.join('\n'),
          addresses: '10.96.10.1/32',
        })
        const { outcomes } = explain(world, {})
        const sum = outcomes.reduce((total, { share }) => total + (share ?? Number.NaN), 0)
        assert.ok(Math.abs(sum - 1) < 1e-9, `${sum}`)
        assert.ok(outcomes.every(({ share }) => share !== null && share > 0))
      },
    ),
  )
})

test('a rule that cannot be judged, and that the packet meets twice, matches both times or never', () => {
  const world = filterWorld([
    '-A INPUT -j A',
    '-A INPUT -j A',
    '-A A -m strange -j B',
    '-A B -m mark --mark 1 -j DROP',
    '-A B -j MARK --set-xmark 0x1/0x1',
  ])
  const { outcomes } = explain(world, PACKET)
  assert.deepEqual(
    outcomes.map(({ end, share, conditions }) => [end.kind, share, conditions.map(({ matches }) => matches)]),
    [
      ['dropped', 1, [true]],
      ['delivered', 1, [false]],
    ],
  )
})
