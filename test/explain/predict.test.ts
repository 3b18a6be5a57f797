/**
 * Paths through the rules that kube-proxy wrote in recorded cases, in both modes, and through rules
 * of other programs beside them.
 */
import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import { endsOf, explain, recordedWorld, worldOf } from './world.ts'

const VIP = '203.0.113.10'
const NODE = '10.0.2.15'
/** Endpoints of the recorded case: two on this node and one on another. */
const [A, B, FAR] = ['10.244.0.10:8080', '10.244.0.11:8080', '10.244.1.10:8080']

describe('ipvs mode: a Service with external policy Local and endpoints here and elsewhere', () => {
  const world = recordedWorld('lb-local-health', 'ipvs')
  const rows: readonly [what: string, packet: Parameters<typeof explain>[1], ends: readonly string[]][] = [
    ['a client outside to the cluster IP', {}, [`${A} node 0.333`, `${B} node 0.333`, `${FAR} node 0.333`]],
    ['a client outside to the load balancer', { destination: VIP }, [`${A} own 0.5`, `${B} own 0.5`]],
    ['a client outside to the node port', { destination: NODE, port: 30_080 }, [`${A} own 0.5`, `${B} own 0.5`]],
    ['a Pod to the cluster IP', { source: '10.244.0.20' }, [`${A} own 0.333`, `${B} own 0.333`, `${FAR} own 0.333`]],
    ['an endpoint to itself', { source: '10.244.0.10' }, [`${A} node 0.333`, `${B} own 0.333`, `${FAR} own 0.333`]],
    ['a process of the node', { source: undefined }, [`${A} node 0.333`, `${B} node 0.333`, `${FAR} node 0.333`]],
    ['another port', { port: 81 }, ['refused']],
    ['a ping', { port: 0, protocol: 'icmp' }, ['refused']],
    ['udp to a port of tcp', { protocol: 'udp' }, ['refused']],
    ['the node itself', { destination: NODE, port: 22 }, ['delivered']],
    ['an address of nobody', { destination: '198.18.0.1' }, ['forwarded']],
  ]
  for (const [what, packet, ends] of rows) it(what, () => assert.deepEqual(endsOf(explain(world, packet)), ends))

  it('names what decided', () => {
    const { steps, choice } = explain(world, {})
    assert.equal(choice, 'turns')
    assert.deepEqual(
      steps.map(({ hook, table, sets, effect }) =>
        [hook, table, sets.map(({ entry }) => entry).join(), effect.kind].join(' '),
      ),
      [
        'PREROUTING nat  jump',
        'PREROUTING nat 10.96.10.1,tcp:80 jump',
        'PREROUTING nat  mark',
        'PREROUTING nat 10.96.10.1,tcp:80 accept',
        'PREROUTING routing  route',
        'INPUT filter  jump',
        'INPUT filter 10.96.10.1,tcp:80 return',
      ],
    )
  })

  it('a policy of FORWARD drops the answers, unless a rule accepts them', () => {
    const strict = (rules: string) => worldOf({ ...texts, rules })
    const texts = {
      servers: '-A -t 10.96.10.1:80 -s rr\n-a -t 10.96.10.1:80 -r 10.244.0.10:8080 -m -w 1',
      addresses: '10.96.10.1/32',
    }
    const accept = '-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n'
    assert.deepEqual(endsOf(explain(strict('*filter\n:FORWARD DROP [0:0]\nCOMMIT\n'), {})), [`${A} own 1 dropped`])
    assert.deepEqual(endsOf(explain(strict(`*filter\n:FORWARD DROP [0:0]\n${accept}COMMIT\n`), {})), [`${A} own 1`])
  })

  it('without forwarding the endpoint is reached, and its answer is lost', () => {
    const closed = recordedWorld('lb-local-health', 'ipvs', 1, { forwards: { IPv4: false, IPv6: false } })
    assert.deepEqual(endsOf(explain(closed, { destination: VIP })), [`${A} own 0.5 dropped`, `${B} own 0.5 dropped`])
  })

  it('without connection tracking by IPVS nothing is masqueraded', () => {
    const untracked = recordedWorld('lb-local-health', 'ipvs', 1, { ipvsTracksConnections: false })
    assert.deepEqual(
      endsOf(explain(untracked, {})).map((end) => end.split(' ')[1]),
      ['own', 'own', 'own'],
    )
  })
})

describe('iptables mode: the same Service', () => {
  const world = recordedWorld('lb-local-health', 'iptables')
  const thirds = (source: string): string[] => [A, B, FAR].map((endpoint) => `${endpoint} ${source} 0.333`)
  const rows: readonly [what: string, packet: Parameters<typeof explain>[1], ends: readonly string[]][] = [
    ['a client outside to the cluster IP', {}, thirds('node')],
    ['a client outside to the load balancer', { destination: VIP }, [`${A} own 0.5`, `${B} own 0.5`]],
    ['a client outside to the node port', { destination: NODE, port: 30_080 }, [`${A} own 0.5`, `${B} own 0.5`]],
    ['a Pod to the load balancer', { source: '10.244.0.20', destination: VIP }, thirds('own')],
    ['a process of the node to the load balancer', { source: undefined, destination: VIP }, thirds('node')],
    [
      'a process of the node to 127.0.0.1',
      { source: undefined, destination: '127.0.0.1', port: 30_080 },
      thirds('node'),
    ],
    ['another port', { port: 81 }, ['forwarded']],
    ['a ping', { port: 0, protocol: 'icmp' }, ['forwarded']],
    ['the health check', { destination: NODE, port: 32_001 }, ['delivered']],
  ]
  for (const [what, packet, ends] of rows) it(what, () => assert.deepEqual(endsOf(explain(world, packet)), ends))

  it('drops what comes from outside when no endpoint is on this node', () => {
    const ends = endsOf(explain(recordedWorld('lb-local-health', 'iptables', 4), { destination: VIP }))
    assert.equal(ends.length, 1)
    assert.match(ends[0] ?? '', /dropped|refused/)
  })

  it('choice and affinity are told', () => {
    assert.equal(explain(world, {}).choice, 'random')
    assert.equal(explain(recordedWorld('affinity-on', 'iptables'), {}).affinitySeconds > 0, true)
    assert.equal(explain(recordedWorld('affinity-on', 'ipvs'), {}).affinitySeconds > 0, true)
  })
})

describe('source ranges of 192.0.2.0/24 and 198.51.100.128/25', () => {
  for (const mode of ['ipvs', 'iptables'] as const)
    it(`let only their clients pass in ${mode} mode`, () => {
      const world = recordedWorld('lb-ranges-outside', mode)
      const ends = (source: string | undefined): readonly string[] =>
        Array.from(new Set(endsOf(explain(world, { source, destination: VIP })).map((end) => end.split(' ')[0] ?? '')))
      for (const outside of ['10.0.2.100', '198.51.100.127', '10.244.0.10', undefined])
        assert.deepEqual(ends(outside), ['dropped'], outside)
      for (const inside of ['192.0.2.7', '198.51.100.128'])
        assert.ok(
          ends(inside).every((end) => end.startsWith('10.244.')),
          inside,
        )
    })
})

test('an endpoint of another node answers a client that it can see directly', () => {
  const world = worldOf({
    servers: '-A -t 203.0.113.10:80 -s rr\n-a -t 203.0.113.10:80 -r 10.244.1.10:8080 -m -w 1',
    addresses: '203.0.113.10/32',
  })
  assert.deepEqual(endsOf(explain(world, { destination: VIP })), [`${FAR} own 1 bypasses`])
  assert.deepEqual(endsOf(explain(world, { source: '10.244.0.20', destination: VIP })), [`${FAR} own 1`])
  // The node uses the virtual IP as its source, which other nodes have too.
  assert.deepEqual(endsOf(explain(world, { source: undefined, destination: VIP })), [`${FAR} own 1 unsure`])
})

test('Pods at one bridge are answered past this node unless rules see what passes it', () => {
  const servers = '-A -t 10.96.10.1:80 -s rr\n-a -t 10.96.10.1:80 -r 10.244.0.10:8080 -m -w 1'
  const bridge = (seen: boolean) =>
    worldOf({ servers, addresses: '10.96.10.1/32', more: { seesBridged: { IPv4: seen, IPv6: seen } } })
  assert.deepEqual(endsOf(explain(bridge(false), { source: '10.244.0.20' })), [`${A} own 1 bypasses`])
  assert.deepEqual(endsOf(explain(bridge(true), { source: '10.244.0.20' })), [`${A} own 1`])
})

test('an endpoint in the network of this node is reached without masquerading, and from the node with it', () => {
  const rules = [
    '*nat',
    ':OUTPUT ACCEPT [0:0]',
    ':PREROUTING ACCEPT [0:0]',
    ':POSTROUTING ACCEPT [0:0]',
    '-A PREROUTING -d 10.96.0.1/32 -j MARK --set-xmark 0x4000/0x4000',
    '-A OUTPUT -d 10.96.0.1/32 -j MARK --set-xmark 0x4000/0x4000',
    '-A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE',
    'COMMIT',
    '',
  ].join('\n')
  const servers = '-A -t 10.96.0.1:443 -s rr\n-a -t 10.96.0.1:443 -r 10.0.2.15:6443 -m -w 1'
  const world = worldOf({ rules, servers, addresses: '10.96.0.1/32' })
  const to = { destination: '10.96.0.1', port: 443 }
  assert.deepEqual(endsOf(explain(world, to)), ['10.0.2.15:6443 own 1'])
  assert.deepEqual(endsOf(explain(world, { ...to, source: undefined })), ['10.0.2.15:6443 node 1'])
})

describe('a rule that iptables cannot print', () => {
  const servers = '-A -t 10.96.10.1:80 -s rr\n-a -t 10.96.10.1:80 -r 10.244.0.10:8080 -m -w 1'
  const pathWith = (...rules: readonly string[]) => {
    const text = ['*filter', ':INPUT ACCEPT [0:0]', ...rules, 'COMMIT', ''].join('\n')
    return explain(worldOf({ rules: text, servers, addresses: '10.96.10.1/32' }), {})
  }

  it('is no certain drop: both ways are outcomes, and the rule is named as one that cannot be judged', () => {
    const path = pathWith('-A INPUT -m nft --handle 7 -j DROP')
    assert.deepEqual(
      path.outcomes.map(({ end, conditions }) => [
        end.kind,
        ...conditions.map(({ matches, rule }) => `${matches} ${rule}`),
      ]),
      [
        ['dropped', 'true -A INPUT -m nft --handle 7 -j DROP'],
        ['endpoint', 'false -A INPUT -m nft --handle 7 -j DROP'],
      ],
    )
    const [step] = path.outcomes[0]?.steps ?? []
    assert.ok(step?.effect.kind === 'unjudged' && step.effect.because.includes('"handle 7"'))
  })

  it('of unknown effect is a condition of the outcome', () => {
    const { outcomes } = pathWith('-A INPUT -m nft --handle 7 -j NFT')
    assert.deepEqual(
      outcomes.map(({ end, conditions }) => [end.kind, conditions[0]?.rule]),
      Array.from(outcomes, () => ['endpoint', '-A INPUT -m nft --handle 7 -j NFT']),
    )
  })
})
