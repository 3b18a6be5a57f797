/** What doctor keeps of a predicted path: whether the packet passes, and what decided. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pathFact } from '../../src/doctor/read-paths.ts'
import type { End, Outcome, PacketPath, PathStep } from '../../src/explain/types.ts'
import { makeVirtualServer } from '../support/virtual-servers.ts'

const SERVER = makeVirtualServer('10.96.0.1')
const step = (changes: Partial<PathStep>): PathStep => ({
  hook: 'INPUT',
  table: 'filter',
  chain: 'INPUT',
  rule: '',
  sets: [],
  effect: { kind: 'drop' },
  ...changes,
})
const DROP = step({ chain: 'wall', rule: '-A wall -j DROP' })
const POLICY = step({ effect: { kind: 'policy', policy: 'DROP' } })
const CONDITION = { hook: 'INPUT', table: 'filter', rule: '-m owner', matches: true, because: 'unknown' } as const
const ENDPOINT: End = {
  kind: 'endpoint',
  by: 'ipvs',
  address: '10.244.0.5',
  port: 8080,
  source: { kind: 'own', address: '10.244.0.9' },
  isLocal: false,
  answer: { kind: 'returns' },
}
const outcome = (end: End, steps: readonly PathStep[] = [], isConditional = false): Outcome => ({
  end,
  share: 1,
  conditions: isConditional ? [CONDITION] : [],
  steps,
})
const path = (outcomes: readonly Outcome[], steps: readonly PathStep[] = []): PacketPath => ({
  source: '10.244.0.9',
  arrivesAt: 'pod0',
  steps,
  outcomes,
  choice: undefined,
  affinitySeconds: 0,
  limits: [],
})

test('pathFact says what decided, where every outcome is the same, and that it is unsure where they differ', () => {
  const dropped: End = { kind: 'dropped' }
  const rows: readonly (readonly [path: PacketPath, result: string, decided: string])[] = [
    [path([outcome(ENDPOINT), outcome(ENDPOINT)]), 'passes', ''],
    [path([outcome(dropped)], [DROP]), 'dropped', 'INPUT filter wall -j DROP'],
    [path([outcome(dropped, [POLICY], true), outcome(dropped, [POLICY], true)]), 'dropped', 'INPUT filter INPUT '],
    [path([outcome(dropped, [DROP], true), outcome(ENDPOINT)]), 'unsure', ''],
    [
      path([
        outcome({ kind: 'refused', by: 'icmp-port-unreachable' }, [step({ effect: { kind: 'refuse', by: 'x' } })]),
      ]),
      'refused',
      'INPUT filter INPUT ',
    ],
    // Nobody is there to answer, which is no matter of rules.
    [
      path([
        outcome({ kind: 'refused', by: 'icmp-port-unreachable' }, [
          step({ table: 'ipvs', chain: '', effect: { kind: 'no-real-server', virtualServer: '10.96.0.1:80/tcp' } }),
        ]),
      ]),
      'passes',
      '',
    ],
    [
      path([outcome({ ...ENDPOINT, answer: { kind: 'dropped', steps: [DROP] } })]),
      'no-answer',
      'INPUT filter wall -j DROP',
    ],
    [path([]), 'unsure', ''],
  ]
  for (const [predicted, result, decided] of rows) {
    const fact = pathFact('pod', SERVER, predicted)
    const { hook, table, chain, rule } = fact
    assert.deepEqual(
      [fact.result, hook === '' ? '' : `${hook} ${table} ${chain} ${rule}`],
      [result, decided],
      JSON.stringify(predicted),
    )
    assert.deepEqual([fact.source, fact.destination], ['10.244.0.9', '10.96.0.1:80/tcp'])
  }
})
