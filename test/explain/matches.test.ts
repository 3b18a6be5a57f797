/** Single matches and targets of rules, as the kernel compares them, on the first packet of a connection. */
import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import fc from 'fast-check'
import { PacketSet } from '../../src/explain/sets.ts'
import type { Packet } from '../../src/explain/types.ts'
import { endsOf, explain, worldOf } from './world.ts'

/** To a process of this node itself, so that only the rules decide. */
const PACKET: Packet = { source: '10.0.2.100', destination: '10.0.2.15', port: 80, protocol: 'tcp' }

function filterWorld(rules: readonly string[], more: Parameters<typeof worldOf>[0] = {}) {
  const text = ['*filter', ':INPUT ACCEPT [0:0]', ':A - [0:0]', ':B - [0:0]', ...rules, 'COMMIT', ''].join('\n')
  return worldOf({ ...more, rules: text })
}

/** What a DROP with these matches does to the packet in INPUT. */
function dropped(match: string, packet: Partial<Packet> = {}, more: Parameters<typeof worldOf>[0] = {}): string {
  return endsOf(explain(filterWorld([`-A INPUT ${match} -j DROP`], more), { ...PACKET, ...packet })).join(', ')
}

const SETS = [
  'create PORTS bitmap:port range 0-65535',
  'add PORTS 80',
  'create NETS hash:ip,port,net family inet hashsize 1024 maxelem 65536',
  'add NETS 10.0.2.15,tcp:80,10.0.2.0/24',
  'add NETS 10.0.2.15,tcp:80,10.0.2.100 nomatch',
  '',
].join('\n')

describe('matches', () => {
  const matching: readonly (readonly [string, Partial<Packet>?])[] = [
    ['-s 10.0.2.0/24'],
    ['! -s 10.0.3.0/24'],
    ['-d 10.0.2.15/32 -i eth0'],
    ['-i eth+'],
    ['! -i cni0'],
    ['-p tcp'],
    ['-p 6'],
    ['-p tcp -m tcp --dport 80'],
    ['-p tcp -m tcp --dport 79:81'],
    ['-p tcp -m tcp ! --dport 81'],
    ['-p tcp -m tcp --sport 1024:65535'],
    ['-p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN'],
    ['-p tcp -m multiport --dports 22,80,443'],
    ['-p tcp -m multiport ! --dports 22,443'],
    ['-p udp', { protocol: 'udp' }],
    ['-p sctp -m sctp --dport 80', { protocol: 'sctp' }],
    ['-p icmp -m icmp --icmp-type 8', { protocol: 'icmp', port: 0 }],
    ['-m conntrack --ctstate NEW'],
    ['-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT'],
    ['-m state --state NEW'],
    ['-m addrtype --dst-type LOCAL'],
    ['-m addrtype ! --src-type LOCAL'],
    ['-m mark --mark 0x0/0xff'],
    ['-m mark ! --mark 0x4000/0x4000'],
    ['-m physdev ! --physdev-is-in'],
    ['-m set --match-set PORTS dst'],
    ['-m set ! --match-set PORTS dst', { protocol: 'sctp' }],
    ['-m set --match-set NETS dst,dst,src', { source: '10.0.2.101' }],
    ['-m set ! --match-set NETS dst,dst,src'],
    ['-m rpfilter'],
    ['-m comment --comment "-j ACCEPT ! --dport 81"'],
    ['-m limit --limit 5/min'],
    ['-m ipvs ! --ipvs'],
    ['-m statistic --mode random --probability 1.00000000000'],
    ['-m statistic --mode nth --every 1 --packet 0'],
  ]
  for (const [match, packet] of matching)
    it(`${match} matches`, () => assert.equal(dropped(match, packet, { sets: SETS }), 'dropped'))

  const others: readonly (readonly [string, Partial<Packet>?])[] = [
    ['-s 10.0.3.0/24'],
    ['! -s 10.0.2.0/24'],
    ['-i eth1'],
    ['-i cni+'],
    ['-o eth0'],
    ['-p udp'],
    ['-p ipv6-icmp', { protocol: 'icmp', port: 0 }],
    ['-p tcp -m tcp --dport 81'],
    ['-p tcp -m tcp --sport 80'],
    ['-p tcp -m tcp --tcp-flags SYN,ACK SYN,ACK'],
    ['-p icmp -m icmp --icmp-type 0', { protocol: 'icmp', port: 0 }],
    ['-m conntrack --ctstate RELATED,ESTABLISHED'],
    ['-m conntrack --ctstate INVALID'],
    ['-m addrtype --src-type LOCAL'],
    ['-m mark --mark 0x4000/0x4000'],
    ['-m physdev --physdev-is-in'],
    ['-m set --match-set PORTS dst', { port: 81 }],
    ['-m set --match-set PORTS dst', { protocol: 'sctp' }],
    ['-m set --match-set NETS dst,dst,src'],
    ['-m statistic --mode random --probability 0.00000000000'],
    ['-m statistic --mode random ! --probability 1.00000000000'],
    ['-m ipvs --vaddr 10.0.2.15 --vport 80 --vdir ORIGINAL'],
    ['-m recent --rcheck --seconds 10 --name KUBE-SEP-AEXJBL2DDECPIHGN --rsource'],
  ]
  for (const [match, packet] of others)
    it(`${match} does not match`, () => assert.equal(dropped(match, packet, { sets: SETS }), 'delivered'))

  const unjudged = [
    '-m u32 --u32 0x0',
    '-m owner --uid-owner 0',
    '-m set --match-set cali40s:abc src',
    '-m time --timestart 01:00:00',
    '-p tcp -m tcp --tcp-option 5',
    '-p tcp -m tcp --sport 40000:50000',
    '-m addrtype --dst-type ANYCAST',
    '-m mark --mark many',
    '-m statistic --mode random --probability much',
    '-s 10.0.0.100/255.0.255.255',
    '-m recent --rcheck --seconds 60 --name SSH --rsource',
  ]
  for (const match of unjudged) it(`${match} is not judged`, () => assert.equal(dropped(match), 'delivered, dropped'))
})

test('what is behind a bridge came through a port of it, if rules see that', () => {
  assert.equal(dropped('-m physdev --physdev-is-in', { source: '10.244.0.10' }), 'dropped')
  const blind = { more: { seesBridged: { IPv4: false, IPv6: false } } }
  assert.equal(dropped('-m physdev --physdev-is-in', { source: '10.244.0.10' }, blind), 'delivered')
})

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

test('a set of networks finds what a search through all of them finds', () => {
  const octet = fc.integer({ min: 0, max: 3 })
  const network = fc.record({ third: octet, length: fc.integer({ min: 20, max: 32 }), noMatch: fc.boolean() })
  fc.assert(
    fc.property(
      fc.uniqueArray(network, { selector: ({ third, length }) => `${third}/${length}` }),
      octet,
      (networks, third) => {
        const entries = networks.map(({ third: at, length, noMatch }) => ({
          entry: `10.0.0.1,tcp:80,10.0.${at}.0/${length}`,
          ...(noMatch ? { noMatch: true as const } : {}),
        }))
        const set = new PacketSet('hash:ip,port,net', entries)
        const found = set.find('dst,dst,src', {
          source: `10.0.${third}.0`,
          destination: '10.0.0.1',
          protocol: 'tcp',
          sourcePort: undefined,
          port: 80,
        })
        const covers = ({ third: at, length }: (typeof networks)[number]): boolean =>
          length >= 24 ? at === third : at >> (24 - length) === third >> (24 - length)
        const longest = Math.max(-1, ...networks.filter(covers).map(({ length }) => length))
        const best = networks.filter((one) => covers(one) && one.length === longest)
        if (best.length === 0) assert.equal(found, undefined)
        // Networks with host bits are one network to the kernel, which has each only once.
        else if (best.length === 1) assert.equal(found !== undefined, best[0]?.noMatch === false)
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

test('no rule text makes a prediction fail, or end nowhere', () => {
  const option = fc.constantFrom(
    '-s',
    '-d',
    '-i',
    '-o',
    '-p',
    '-f',
    '!',
    '-m tcp',
    '-m set',
    '-m mark',
    '-m multiport',
    '-m conntrack',
    '-m addrtype',
    '-m ipvs',
    '-m statistic',
    '-m recent',
    '-m physdev',
    '-m icmp',
    '-m connmark',
    '--dport',
    '--dports',
    '--tcp-flags',
    '--match-set',
    '--mark',
    '--ctstate',
    '--dst-type',
    '--vaddr',
    '--probability',
    '--every',
    '--rcheck',
    '--set-xmark',
    '--to-destination',
    '--reject-with',
    '-j',
    '-g',
    '-j MARK',
    '-j DNAT',
    '-j CONNMARK',
    '-j MASQUERADE',
    '-j SNAT',
    '-j REJECT',
    '-j A',
    '-g A',
    '--restore-mark',
  )
  const value = fc.constantFrom(
    '',
    'tcp',
    '0',
    '80',
    ':',
    '1:2:3',
    '10.0.2.0/24',
    '10.0.2.15:80',
    '[::1]:80',
    '::',
    '0x1/0x1',
    'PORTS dst',
    'NETS src,dst',
    'LOCAL',
    '"',
    'A',
  )
  const rule = fc.array(fc.tuple(option, value), { maxLength: 6 }).map((parts) => parts.flat().join(' '))
  const table = (name: string, hook: string, rules: readonly string[]): string =>
    [
      `*${name}`,
      `:${hook} ACCEPT [0:0]`,
      ':A - [0:0]',
      ...rules.map((one, at) => `-A ${at % 2 === 0 ? hook : 'A'} ${one}`),
      'COMMIT',
      '',
    ].join('\n')
  fc.assert(
    fc.property(
      fc.array(rule, { maxLength: 6 }),
      fc.array(rule, { maxLength: 6 }),
      fc.constantFrom('tcp', 'icmp'),
      (nat, filter, protocol) => {
        const rules = table('nat', 'PREROUTING', nat) + table('filter', 'INPUT', filter)
        const { outcomes } = explain(worldOf({ rules, sets: SETS }), { ...PACKET, protocol })
        assert.ok(outcomes.length > 0)
        for (const { share } of outcomes) assert.ok(share === null || (share > 0 && share < 1 + 1e-9), `${share}`)
      },
    ),
  )
})
