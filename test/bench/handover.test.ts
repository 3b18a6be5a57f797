/** The results of handovers: which events are measured, the table, and the verdict. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { planOf } from '../../dev/bench/handover.ts'
import { formatHandover, type Handover, type HandoverPoint, isWithoutLoss } from '../../dev/bench/handover-result.ts'

const POINT: HandoverPoint = {
  event: 'adopt',
  mode: 'iptables',
  stateOf: 'kube-proxy',
  eventMs: 4_321,
  operations: 0,
  held: { connections: 1_000, dropped: 0, responses: 20_000, longestMs: 81.4 },
  made: { made: 10_050, failed: 0, slow: 2, longestMs: 1_033.2 },
  failures: [],
}
const LOSS: HandoverPoint = {
  ...POINT,
  event: 'switch',
  mode: 'ipvs',
  operations: null,
  held: { ...POINT.held, dropped: 1 },
  made: { ...POINT.made, failed: 3 },
  failures: ['failed: 10.96.0.10 80 after 3 ms, 0 responses: Connection refused'],
}
const HANDOVER: Handover = {
  at: '2026-11-22T15:30:00.000Z',
  commit: null,
  kernel: { kind: 'uml', release: '7.2.13' },
  services: 1_000,
  endpoints: 5,
  rate: 500,
  points: [POINT],
}

describe('planOf', () => {
  it('has every event in every mode, and the events that pass through both modes once', () => {
    const plan = planOf(['ipvs', 'iptables']).map(({ event, mode }) => `${event}, ${mode}`)
    assert.deepEqual(plan, [
      'adopt, ipvs',
      'adopt, iptables',
      'restart, ipvs',
      'restart, iptables',
      'kill, ipvs',
      'kill, iptables',
      'upgrade, ipvs',
      'upgrade, iptables',
      'switch, ipvs',
      'switch by restart, ipvs',
      'fallback, ipvs',
    ])
    assert.ok(planOf(['iptables']).every(({ mode }) => mode === 'iptables'))
  })
})

describe('formatHandover', () => {
  it('shows a line for each event, aligned', () =>
    assert.equal(
      formatHandover(HANDOVER),
      `1,000 Services with 5 endpoints each, 500 new connections a second, kernel uml 7.2.13

                                         established                       new                          operations  event
                                   mode         open  dropped  longest    made  failed  slow   longest   on tables
adopt the state of kube-proxy  iptables        1,000        0    81 ms  10,050       0     2  1,033 ms           0  4.3 s

No established connection was dropped, and no new one failed.`,
    ))

  it('shows what was lost, and why', () => {
    const text = formatHandover({ ...HANDOVER, points: [POINT, LOSS] })
    assert.match(text, /^to iptables and back +ipvs +1,000 +1 +81 ms +10,050 +3 +2 +1,033 ms +- +4\.3 s$/m)
    assert.match(text, /^to iptables and back, ipvs: failed: 10\.96\.0\.10 80 .* Connection refused$/m)
    assert.match(text, /\nConnections were dropped or failed\.$/)
  })
})

describe('isWithoutLoss', () => {
  it('is false when a connection was dropped or failed', () => {
    assert.equal(isWithoutLoss(HANDOVER), true)
    assert.equal(isWithoutLoss({ ...HANDOVER, points: [POINT, LOSS] }), false)
    assert.equal(isWithoutLoss({ ...HANDOVER, points: [{ ...LOSS, made: POINT.made }] }), false)
    assert.equal(isWithoutLoss({ ...HANDOVER, points: [{ ...LOSS, held: POINT.held }] }), false)
  })
})
