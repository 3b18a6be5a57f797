/**
 * Paths through the private table: the layout that the daemon writes, with the elements of a few
 * Services, beside rules of iptables, and tables that other programs have changed.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { PrivateRules } from '../../src/explain/private-rules.ts'
import type { PacketPath, PathStep } from '../../src/explain/types.ts'
import { type LayoutInput, layoutOf, rangesChain } from '../../src/modes/ipvs/nftables-firewall/layout.ts'
import type { NftChain, NftItem, NftRule, NftStatement } from '../../src/nftables/types.ts'
import { parseCidr } from '../../src/values/cidr.ts'
import { endsOf, explain, PACKET, type World, worldOf } from './world.ts'

const [HERE, FAR] = ['10.244.0.10', '10.244.1.10']
const [CLUSTER_IP, BALANCER, LOCAL_BALANCER] = ['10.96.10.1', '203.0.113.10', '203.0.113.11']
const NODE = '10.0.2.15'

const LAYOUT: LayoutInput = {
  family: 'IPv4',
  isOwned: false,
  localTraffic: { kind: 'interface-prefix', prefix: 'cni' },
  masqueradeAll: false,
  masqueradeBit: 14,
  takesAll: true,
  refuses: true,
}

const element = (set: string, value: string): NftItem => ({ kind: 'element', family: 'IPv4', set, value })
const leadsTo = (value: string, chain: string): NftItem => ({
  kind: 'element',
  family: 'IPv4',
  set: 'source-ranges',
  value,
  action: { kind: 'jump', chain },
})

const ELEMENTS: readonly NftItem[] = [
  element('cluster-ips', `${CLUSTER_IP} . tcp . 80`),
  element('external-ips', `${BALANCER} . tcp . 80`),
  element('external-ips-local', `${LOCAL_BALANCER} . tcp . 80`),
  element('node-ports', `${NODE} . tcp . 30080`),
  element('health-check-ports', 'tcp . 31000'),
  element('hairpins', `${HERE} . tcp . 8080 . ${HERE}`),
  ...[CLUSTER_IP, BALANCER, LOCAL_BALANCER].map((address) => element('virtual-ips', address)),
  rangesChain('IPv4', 'ranges-demo/web', ['192.0.2.0/24', '198.51.100.7']),
  leadsTo(`${BALANCER} . tcp . 80`, 'ranges-demo/web'),
  element('closed-to-node', `${BALANCER} . tcp . 80`),
]

const SERVERS = [`${CLUSTER_IP}:80`, `${BALANCER}:80`, `${LOCAL_BALANCER}:80`, `${NODE}:30080`].flatMap((at) => [
  `-A -t ${at} -s rr`,
  ...[HERE, FAR].map((to) => `-a -t ${at} -r ${to}:8080 -m -w 1`),
])

interface WorldInput {
  readonly layout?: Partial<LayoutInput>
  readonly items?: readonly NftItem[]
  readonly rules?: string
}

function privateWorld({ layout = {}, items = [], rules = '' }: WorldInput = {}): World {
  const table = new PrivateRules('IPv4', [...layoutOf({ ...LAYOUT, ...layout }), ...ELEMENTS, ...items])
  return worldOf({
    rules,
    servers: SERVERS.join('\n'),
    addresses: [CLUSTER_IP, BALANCER, LOCAL_BALANCER].map((address) => `${address}/32`).join('\n'),
    more: { privateTables: { IPv4: table } },
  })
}

const WORLD = privateWorld()

const allSteps = ({ steps, outcomes }: PacketPath): readonly PathStep[] => [
  ...steps,
  ...outcomes.flatMap((outcome) => outcome.steps),
]

/** `PREROUTING services cluster-ips has 10.96.10.1 . tcp . 80: jump`, of the private table. */
const privateSteps = (path: PacketPath): readonly string[] =>
  allSteps(path)
    .filter(({ table }) => table === 'ip kube-ipvs')
    .map(({ hook, chain, sets, effect }) =>
      [hook, chain, ...sets.map(({ name, entry = 'nothing' }) => `${name} has ${entry}:`), effect.kind].join(' '),
    )

const BOTH = (source: 'own' | 'node'): readonly string[] => [`${HERE}:8080 ${source} 0.5`, `${FAR}:8080 ${source} 0.5`]

describe('the private table of ipvs mode', () => {
  const rows: readonly [what: string, packet: Parameters<typeof explain>[1], ends: readonly string[]][] = [
    ['a client outside to the cluster IP', {}, BOTH('node')],
    ['a Pod to the cluster IP', { source: '10.244.0.20' }, BOTH('own')],
    ['an endpoint to itself', { source: HERE }, [`${HERE}:8080 node 0.5`, `${FAR}:8080 own 0.5`]],
    ['the node to the cluster IP', { source: undefined }, BOTH('node')],
    ['a client in the source ranges', { destination: BALANCER, source: '192.0.2.9' }, BOTH('node')],
    ['a client that is a source range', { destination: BALANCER, source: '198.51.100.7' }, BOTH('node')],
    ['a client outside of the source ranges', { destination: BALANCER, source: '198.51.100.8' }, ['dropped']],
    ['the node, which no range has', { destination: BALANCER, source: undefined }, ['dropped']],
    ['a node port', { destination: NODE, port: 30_080 }, BOTH('node')],
    ['another port', { port: 81 }, ['refused']],
    ['another protocol', { protocol: 'udp' }, ['refused']],
    ['a ping', { port: 0, protocol: 'icmp' }, ['refused']],
    ['a health check at a virtual IP', { destination: BALANCER, port: 31_000 }, ['delivered']],
    ['the node itself', { destination: NODE, port: 22 }, ['delivered']],
    ['an address of nobody', { destination: '198.18.0.1' }, ['forwarded']],
  ]
  for (const [what, packet, ends] of rows)
    it(what, () => assert.deepEqual(endsOf(explain(WORLD, packet)), [...ends].sort()))

  it('policy Local keeps the address of the client', () => {
    const { outcomes } = explain(WORLD, { destination: LOCAL_BALANCER })
    assert.deepEqual(
      outcomes.map(({ end }) => end.kind === 'endpoint' && end.source.kind),
      ['own', 'own'],
    )
  })

  it('names what decided about masquerading', () => {
    assert.deepEqual(privateSteps(explain(WORLD, { source: '192.0.2.9', destination: BALANCER })).slice(0, 6), [
      'PREROUTING nat-prerouting jump',
      `PREROUTING services external-ips has ${BALANCER} . tcp . 80: jump`,
      'PREROUTING mark-for-masquerade mark',
      'PREROUTING mark-for-masquerade jump',
      'PREROUTING keep-destination keep-destination',
      `INPUT filter-input source-ranges has ${BALANCER} . tcp . 80: jump`,
    ])
  })

  it('names the hairpin that masquerades', () => {
    assert.ok(
      privateSteps(explain(WORLD, { source: HERE })).includes(
        `POSTROUTING nat-postrouting hairpins has ${HERE} . tcp . 8080 . ${HERE}: masquerade`,
      ),
    )
  })

  it('names the chain and the source ranges that drop', () => {
    const path = explain(WORLD, { source: '198.51.100.8', destination: BALANCER })
    assert.deepEqual(path.steps.at(-1), {
      hook: 'INPUT',
      table: 'ip kube-ipvs',
      chain: 'ranges-demo/web',
      rule: 'drop',
      sets: [{ name: 'ip saddr { 192.0.2.0/24, 198.51.100.7 }', entry: undefined }],
      effect: { kind: 'drop' },
    })
    assert.equal(path.steps.at(-2)?.rule, 'ip daddr . meta l4proto . th dport vmap @source-ranges')
  })

  it('names the only source range, which the kernel has without a set', () => {
    const only: NftItem = {
      kind: 'chain',
      family: 'IPv4',
      name: 'ranges-demo/web',
      rules: [rule({ kind: 'network', field: 'saddr', cidr: '192.0.2.0/24' }, RETURN), rule(DROP)],
    }
    const { steps } = explain(privateWorld({ items: [only] }), { source: '198.51.100.8', destination: BALANCER })
    assert.deepEqual(steps.at(-1)?.sets, [{ name: 'ip saddr 192.0.2.0/24', entry: undefined }])
  })

  it('prints the beginning of many source ranges', () => {
    const many = Array.from({ length: 20 }, (_, index) => `10.${2 * index}.0.0/16`)
    const world = privateWorld({ items: [rangesChain('IPv4', 'ranges-demo/web', many)] })
    const { steps } = explain(world, { source: '198.51.100.8', destination: BALANCER })
    assert.match(steps.at(-1)?.sets[0]?.name ?? '', /^ip saddr \{ (?:10\.1?\d\.0\.0\/16, ){8}and 12 more \}$/)
  })

  it('drops what the node sends to a closed address before IPVS sees it', () => {
    const step = explain(WORLD, { source: undefined, destination: BALANCER }).steps.at(-1)
    assert.deepEqual([step?.hook, step?.chain, step?.sets[0]?.name], ['OUTPUT', 'filter-output', 'closed-to-node'])
  })

  it('removes the mark of what it masquerades', () => {
    const steps = allSteps(explain(WORLD, { destination: NODE, port: 30_080 }))
    const marks = steps.flatMap(({ hook, effect }) => (effect.kind === 'mark' ? [`${hook} ${effect.mark}`] : []))
    assert.deepEqual(new Set(marks), new Set(['PREROUTING 16384', 'POSTROUTING 0']))
  })

  it('does not refuse before its sets are filled', () => {
    assert.deepEqual(endsOf(explain(privateWorld({ layout: { refuses: false } }), { port: 81 })), ['delivered'])
  })

  for (const [localTraffic, source, expected] of [
    [undefined, '10.244.0.20', 'own'],
    [undefined, CLUSTER_IP, 'node'],
    [{ kind: 'cidr', cidr: '10.244.0.0/16' }, '10.244.0.20', 'own'],
    [{ kind: 'cidr', cidr: '10.244.0.0/16' }, '10.0.2.100', 'node'],
    [{ kind: 'interface', name: 'cni0' }, '10.244.0.20', 'own'],
    [{ kind: 'interface', name: 'cni' }, '10.244.0.20', 'node'],
  ] as const)
    it(`local traffic is ${JSON.stringify(localTraffic ?? 'everything')}: ${source} is seen as ${expected}`, () => {
      const cidr = localTraffic?.kind === 'cidr' ? parseCidr(localTraffic.cidr) : undefined
      const known = localTraffic?.kind === 'cidr' ? cidr && ({ kind: 'cidr', cidr } as const) : localTraffic
      const { outcomes } = explain(privateWorld({ layout: { localTraffic: known } }), { source })
      assert.deepEqual(
        new Set(outcomes.map(({ end }) => end.kind === 'endpoint' && end.source.kind)),
        new Set([expected]),
      )
    })
})

describe('the private table beside rules of iptables', () => {
  const hostPort = [
    '*nat',
    ':PREROUTING ACCEPT [0:0]',
    '-A PREROUTING -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.244.0.99:9',
    'COMMIT',
    '',
  ].join('\n')

  it('keeps a virtual IP from a rule that translates every packet to its port', () => {
    assert.deepEqual(endsOf(explain(privateWorld({ rules: hostPort }), {})), BOTH('node').toSorted())
  })

  it('leaves it to such a rule what another mode still serves', () => {
    const world = privateWorld({ rules: hostPort, layout: { takesAll: false } })
    assert.deepEqual(endsOf(explain(world, {})), ['10.244.0.99:9 node 1'])
  })

  it('is passed before the rules of iptables at one hook', () => {
    const rules = ['*filter', ':INPUT DROP [0:0]', '-A INPUT -j REJECT', 'COMMIT', ''].join('\n')
    const { steps } = explain(privateWorld({ rules }), { source: '192.0.2.9', destination: BALANCER })
    const tables = steps.flatMap(({ hook, table }) => (hook === 'INPUT' ? [table] : []))
    assert.equal(tables.at(-1), 'filter')
    assert.equal(tables[0], 'ip kube-ipvs')
  })

  it('masquerades once while both firewalls are there', () => {
    const rules = [
      '*nat',
      ':PREROUTING ACCEPT [0:0]',
      ':POSTROUTING ACCEPT [0:0]',
      ':KUBE-MARK-MASQ - [0:0]',
      '-A PREROUTING -j KUBE-MARK-MASQ',
      '-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000',
      '-A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE',
      'COMMIT',
      '',
    ].join('\n')
    const path = explain(privateWorld({ rules }), { destination: NODE, port: 30_080 })
    assert.deepEqual(endsOf(path), BOTH('node').toSorted())
    for (const { steps } of path.outcomes)
      assert.equal(steps.filter(({ effect }) => effect.kind === 'masquerade').length, 1)
  })
})

/** A table with one chain at INPUT, and others. */
function inputWorld(rules: readonly NftRule[], items: readonly NftItem[] = []): World {
  const hook = { type: 'filter', hook: 'input', priority: -5 } as const
  const input: NftChain = { kind: 'chain', family: 'IPv4', name: 'in', hook, rules }
  const table: NftItem = { kind: 'table', family: 'IPv4', isOwned: false }
  return worldOf({ more: { privateTables: { IPv4: new PrivateRules('IPv4', [table, ...items, input]) } } })
}

const rule = (...statements: readonly NftStatement[]): NftRule => ({ statements })
const DROP: NftStatement = { kind: 'verdict', action: { kind: 'drop' } }
const RETURN: NftStatement = { kind: 'verdict', action: { kind: 'return' } }
const foreign = (expression: string): NftStatement => ({ kind: 'foreign', expression })
const to = (kind: 'jump' | 'goto', chain: string): NftStatement => ({ kind: 'verdict', action: { kind, chain } })
const chain = (name: string, ...rules: readonly NftRule[]): NftItem => ({ kind: 'chain', family: 'IPv4', name, rules })

describe('what other programs write into a private table', () => {
  it('is followed both ways where it is not understood', () => {
    const { outcomes } = explain(inputWorld([rule(foreign('quota'), DROP)]), PACKET)
    assert.deepEqual(
      outcomes.map(({ end, conditions }) => [end.kind, conditions.map(({ rule: text, matches }) => [text, matches])]),
      [
        ['dropped', [['rule 1 of the chain in: (quota) drop', true]]],
        ['delivered', [['rule 1 of the chain in: (quota) drop', false]]],
      ],
    )
    assert.match(outcomes[0]?.conditions[0]?.because ?? '', /"quota".*nft list table ip kube-ipvs/)
  })

  it('is found where it stands for every value that a set or a map does not have', () => {
    const set: NftItem = { kind: 'set', family: 'IPv4', name: 's', fields: ['daddr', 'l4proto', 'dport'], isMap: false }
    const map: NftItem = { ...set, name: 'm', isMap: true }
    const lookup: NftStatement = { kind: 'lookup', fields: ['daddr', 'l4proto', 'dport'], set: 's' }
    const verdicts: NftStatement = { kind: 'verdict-map', fields: ['daddr', 'l4proto', 'dport'], map: 'm' }
    const every = element('s', '*')
    const drop: NftItem = { kind: 'element', family: 'IPv4', set: 'm', value: '*', action: { kind: 'drop' } }
    for (const [world, found] of [
      [inputWorld([rule(lookup, DROP)], [set, every]), { name: 's', entry: '*' }],
      [inputWorld([rule(verdicts)], [map, drop]), { name: 'm', entry: '*' }],
    ] as const)
      for (const packet of [PACKET, { ...PACKET, protocol: 'icmp' as const }]) {
        const path = explain(world, packet)
        assert.deepEqual(
          path.outcomes.map(({ end }) => end.kind),
          ['dropped'],
        )
        assert.deepEqual(
          allSteps(path).flatMap(({ sets }) => sets),
          [found],
        )
      }
  })

  it('is no element of ours where it has an expression of its own, such as a limit', () => {
    const set: NftItem = { kind: 'set', family: 'IPv4', name: 's', fields: ['l4proto'], isMap: false }
    const limited: NftItem = { kind: 'element', family: 'IPv4', set: 's', value: 'tcp', isForeign: true }
    const lookup: NftStatement = { kind: 'lookup', fields: ['l4proto'], set: 's' }
    const { outcomes } = explain(inputWorld([rule(lookup, DROP)], [set, limited]), PACKET)
    assert.deepEqual(outcomes.map(({ end }) => end.kind).toSorted(), ['delivered', 'dropped'])
  })

  it('is one condition where a packet meets the same rule again', () => {
    const twice = [rule(to('jump', 'a')), rule(to('jump', 'a'))]
    const { outcomes } = explain(inputWorld(twice, [chain('a', rule(foreign('quota'), foreign('x')))]), PACKET)
    assert.deepEqual(
      outcomes.map(({ end, conditions }) => [end.kind, conditions.length]),
      [['delivered', 0]],
    )
  })

  it('is two conditions where two rules look alike', () => {
    const { outcomes } = explain(inputWorld([rule(foreign('quota'), DROP), rule(foreign('quota'), DROP)]), PACKET)
    assert.deepEqual(outcomes.map(({ end, conditions }) => [end.kind, conditions.length]).toSorted(), [
      ['delivered', 2],
      ['dropped', 1],
      ['dropped', 2],
    ])
  })

  it('changes nothing where it only counts', () => {
    assert.deepEqual(endsOf(explain(inputWorld([rule(foreign('counter'), DROP)]), PACKET)), ['dropped'])
  })

  it('may be a set whose elements are not read', () => {
    const items: readonly NftItem[] = [
      { kind: 'set', family: 'IPv4', name: 's', fields: ['saddr'], isMap: false, isForeign: true },
    ]
    const world = inputWorld([rule({ kind: 'lookup', fields: ['saddr'], set: 's' }, DROP)], items)
    assert.match(explain(world, PACKET).outcomes[0]?.conditions[0]?.because ?? '', /^the set s/)
  })

  it('does not multiply without end', () => {
    const many = Array.from({ length: 60 }, () => rule(foreign('quota'), { kind: 'set-mark', mask: 1, to: 'set' }))
    const { limits, outcomes } = explain(inputWorld(many), PACKET)
    assert.match(limits.join(), /cannot be judged/)
    assert.deepEqual(new Set(outcomes.map(({ end }) => end.kind)), new Set(['delivered']))
  })

  it('is followed up to a limit: chains that each jump twice to the next, and long lists of networks', () => {
    const cidrs = Array.from({ length: 10_000 }, (_, index) => `172.16.${index >>> 8}.${index & 0xff}`)
    const depth = 40
    const chains = Array.from({ length: depth }, (_, index) =>
      chain(`c${index}`, rule(to('jump', `c${index + 1}`)), rule(to('jump', `c${index + 1}`))),
    )
    const last = chain(`c${depth}`, rule({ kind: 'networks', field: 'saddr', cidrs }, DROP))
    const began = performance.now()
    const { limits } = explain(inputWorld([rule(to('jump', 'c0'))], [...chains, last]), PACKET)
    assert.match(limits.join(), /longer than can be followed/)
    assert.ok(performance.now() - began < 30_000)
  })

  it('decides nothing in a table that is dormant', () => {
    const items: readonly NftItem[] = [{ kind: 'table', family: 'IPv4', isOwned: false, isForeign: true }]
    assert.deepEqual(endsOf(explain(inputWorld([rule(DROP)], items), PACKET)), ['delivered'])
  })
})

describe('jumps of the private table', () => {
  it('a chain that was jumped to returns to the next rule', () => {
    const world = inputWorld([rule(to('jump', 'a')), rule(DROP)], [chain('a', rule(RETURN), rule({ kind: 'reject' }))])
    assert.deepEqual(endsOf(explain(world, PACKET)), ['dropped'])
  })

  it('a chain that was gone to returns to the chain before', () => {
    const items = [chain('a', rule(to('goto', 'b')), rule({ kind: 'reject' })), chain('b', rule(RETURN))]
    assert.deepEqual(endsOf(explain(inputWorld([rule(to('jump', 'a')), rule(DROP)], items), PACKET)), ['dropped'])
    assert.deepEqual(endsOf(explain(inputWorld([rule(to('goto', 'a')), rule(DROP)], items), PACKET)), ['delivered'])
  })

  it('a map without the packet lets the rule go on', () => {
    const map: NftItem = { kind: 'set', family: 'IPv4', name: 'm', fields: ['saddr'], isMap: true }
    const world = inputWorld([rule({ kind: 'verdict-map', fields: ['saddr'], map: 'm' }), rule(DROP)], [map])
    assert.deepEqual(endsOf(explain(world, PACKET)), ['dropped'])
  })
})
