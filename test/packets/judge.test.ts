/** The judge of the packet oracle, on worlds that answer as the test says. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseDifferences } from './differences.ts'
import { forbidden, formatDifferences, judge, type Observed, Ports } from './judge.ts'
import type { Packet } from './packets.ts'
import { EVERY_RULE } from './scenario.ts'
import { outcomeOf, Summary } from './summary.ts'
import type { Observation } from './world.ts'

const PACKET: Packet = {
  kind: 'LoadBalancer',
  from: 'client',
  family: 'IPv4',
  to: { protocol: 'tcp', address: '198.51.100.1', port: 80 },
  service: 1,
}
const PING: Packet = { ...PACKET, kind: 'ping', to: { protocol: 'ping', address: '198.51.100.1', port: 0 } }
const ANSWERED: Observation = { verdict: 'answered by a', source: 'its own', mark: '', flow: 'tcp CLOSE' }
const LOST: Observation = { verdict: 'nothing', source: '', mark: '', flow: '' }

/** In each round the world shows the next of these, and at last always the last one; `rounds` has what was sent. */
function worldOf(name: string, ...shown: readonly [Observation, ...Observation[]]) {
  const rounds: (readonly Packet[])[] = []
  const world: Observed = {
    firewall: { name },
    send: async (packets, firstPort) => {
      rounds.push(packets)
      return packets.map((packet, index) => ({ packet, port: firstPort + index, answer: 'nothing' }))
    },
    observe: (sent) => sent.map(() => shown[rounds.length - 1] ?? shown.at(-1) ?? LOST),
  }
  return { world, rounds }
}

describe('the judge', () => {
  it('finds nothing where worlds are equal, and sends once', async () => {
    const [first, second] = [worldOf('one', ANSWERED), worldOf('two', ANSWERED)]
    const judged = await judge([first.world, second.world], [PACKET, PING], new Ports())
    assert.deepEqual([judged.differences, judged.unsteady], [[], []])
    assert.deepEqual(judged.reference, [
      [PACKET, ANSWERED],
      [PING, ANSWERED],
    ])
    assert.deepEqual([first.rounds.length, second.rounds.length], [1, 1])
  })

  for (const aspect of ['verdict', 'source', 'mark', 'flow'] as const)
    it(`finds a difference of ${aspect} that shows every time`, async () => {
      const [first, second] = [worldOf('one', ANSWERED), worldOf('two', { ...ANSWERED, [aspect]: 'other' })]
      const { differences, unsteady } = await judge([first.world, second.world], [PACKET], new Ports())
      assert.deepEqual(
        differences.map((one) => [one.firewall, one.aspect, one.reference, one.found]),
        [['two', aspect, ANSWERED[aspect], 'other']],
      )
      assert.deepEqual(unsteady, [])
      assert.equal(second.rounds.length, 3)
    })

  it('counts a difference that does not show again as unsteady', async () => {
    const [first, second] = [worldOf('one', ANSWERED), worldOf('two', LOST, ANSWERED)]
    const { differences, unsteady } = await judge([first.world, second.world], [PACKET], new Ports())
    assert.deepEqual(differences, [])
    assert.deepEqual(
      unsteady.map(({ aspect }) => aspect),
      ['verdict', 'source', 'flow'],
    )
  })

  it('gives no source port twice, and none at which a server listens', () => {
    const ports = new Ports()
    const ranges = Array.from({ length: 100 }, () => ports.take(500))
    for (const [index, first] of ranges.entries()) {
      assert.ok(first >= 10_300 && (first + 500 <= 30_000 || first >= 33_000), `${first}`)
      assert.ok(index === 0 || first >= (ranges[index - 1] ?? 0) + 500, `${first}`)
    }
    assert.throws(() => ports.take(5000), /no more source ports/)
  })

  it('says what differs, for whom, and what it met', async () => {
    const [first, second] = [worldOf('one', ANSWERED), worldOf('two', LOST)]
    const { differences } = await judge([first.world, second.world], [PACKET], new Ports())
    const [packet, verdict, other, ...rest] = formatDifferences(differences, EVERY_RULE, 'one')
    assert.equal(packet, 'tcp from client to 198.51.100.1 80 (LoadBalancer)')
    assert.deepEqual([verdict, other], ['  verdict with one: answered by a', '  verdict with two: nothing'])
    assert.match(rest.at(-2) ?? '', /^Service s1: \{"type":"LoadBalancer"/)
    assert.match(rest.at(-1) ?? '', /^Settings: \{"configuration":.*"forward":"DROP"/)
  })
})

describe('allowed differences', () => {
  const entry = (more: string): string => `- firewall: two\n  reason: it is so\n  ${more}\n`

  it('allow what all their patterns match as a whole', async () => {
    const [first, second] = [worldOf('one', ANSWERED), worldOf('two', LOST)]
    const { differences } = await judge([first.world, second.world], [PACKET], new Ports())
    const left = (text: string): readonly string[] =>
      forbidden(differences, EVERY_RULE, parseDifferences(text), new Set()).map(({ aspect }) => aspect)
    assert.deepEqual(left(''), ['verdict', 'source', 'flow'])
    assert.deepEqual(left(entry('aspect: source|flow')), ['verdict'])
    assert.deepEqual(left(entry('verdicts: answered by . -> nothing')), [])
    assert.deepEqual(left(entry('kind: Load')), ['verdict', 'source', 'flow'])
    assert.deepEqual(left(entry('policies: INPUT DROP FORWARD DROP')), [])
    assert.deepEqual(left(entry('ranges: none')), [])
    assert.deepEqual(left(entry('ranges: the client')), ['verdict', 'source', 'flow'])
    assert.deepEqual(left(entry('found: nothing')), ['source', 'flow'])
    assert.deepEqual(left(entry('aspect: .*').replace('two', 'three')), ['verdict', 'source', 'flow'])
  })

  it('are told when they are used', async () => {
    const [first, second] = [worldOf('one', ANSWERED), worldOf('two', LOST)]
    const { differences } = await judge([first.world, second.world], [PACKET], new Ports())
    const list = parseDifferences(entry('kind: ping') + entry('kind: LoadBalancer'))
    const used = new Set<(typeof list)[number]>()
    forbidden(differences, EVERY_RULE, list, used)
    assert.deepEqual([...used], [list[1]])
  })

  it('need a firewall, a reason and known patterns', () => {
    for (const text of ['- firewall: two', '- reason: it is so', entry('other: 1'), entry('kind: 1'), 'firewall: two'])
      assert.throws(() => parseDifferences(text), /differences\.yaml/, text)
  })
})

describe('the summary', () => {
  it('counts packets by what became of them', () => {
    const refused: Observation = { ...LOST, verdict: 'refused by ICMP' }
    const masqueraded: Observation = { ...ANSWERED, source: '10.0.2.15' }
    const failed: Observation = { ...LOST, verdict: 'EPERM' }
    const all = [ANSWERED, masqueraded, refused, LOST, failed]
    assert.deepEqual(all.map(outcomeOf), ['own', 'masqueraded', 'refused', 'dropped', 'error'])
    const summary = new Summary()
    const flow = { packet: PACKET, firewall: 'two', aspect: 'flow', reference: '', found: '' } as const
    summary.add(
      all.map((observation) => [PACKET, observation]),
      [{ ...flow, verdicts: ['nothing', 'nothing'] }],
    )
    assert.equal(summary.packets, 5)
    assert.equal(summary.total('refused'), 1)
    const row = summary.table.find((line) => line.startsWith('LoadBalancer'))
    assert.deepEqual(row?.trim().split(/\s+/), ['LoadBalancer', '1', '1', '1', '1', '1', '1'])
  })
})
