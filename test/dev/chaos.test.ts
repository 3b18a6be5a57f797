/** The pure parts of the evidence `chaos`: what is judged, and what is read of the log, the counters and the tables. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Expectation, Seen } from '../../dev/evidence/chaos/fault.ts'
import { FAULTS } from '../../dev/evidence/chaos/faults.ts'
import { brokenExpectations, rowOf } from '../../dev/evidence/chaos/judge.ts'
import { countersOf, troublesIn, verdictOf } from '../../dev/evidence/chaos/operator.ts'
import { linesOf, without } from '../../dev/evidence/chaos/tables.ts'

const SEEN: Seen = {
  seconds: 20,
  held: { connections: 200, dropped: 0, responses: 4000, longestMs: 120 },
  made: { made: 500, failed: 0, slow: 0, longestMs: 90 },
  changeMs: 50,
  changeAfterEndMs: 0,
  repairedMs: null,
  differences: [],
  operator: { livez: '200', healthz: '200', status: ['fine'], metrics: {}, log: {} },
  notes: [],
  failures: [],
}
const EXPECTATION: Expectation = { text: 'nothing is lost', change: { from: 'fault', withinS: 10 } }

function broken(seen: Partial<Seen>, expectation: Partial<Expectation> = {}): string[] {
  const fault = { name: 'x', expectation: { ...EXPECTATION, ...expectation } }
  return brokenExpectations(fault, { ...SEEN, ...seen }).map(({ text }) => text)
}
const livez = (text: string): Partial<Seen> => ({ operator: { ...SEEN.operator, livez: text } })

describe('the judge of a fault', () => {
  it('finds nothing when everything is as expected', () => assert.deepEqual(broken({}), []))

  it('names lost and failed connections, unless they are expected', () => {
    const held = { ...SEEN.held, dropped: 3 }
    const made = { ...SEEN.made, failed: 2 }
    assert.deepEqual(broken({ held, made }), [
      'x: 3 of 200 connections were lost',
      'x: 2 of 500 new connections failed',
    ])
    assert.deepEqual(broken({ held, made }, { dropped: 'any', failed: 2 }), [])
    assert.equal(broken({ made }, { failed: 1 }).length, 1)
  })

  it('tells lost connections from what a busy machine may cause', () => {
    const seen = { ...SEEN, held: { ...SEEN.held, dropped: 3 }, changeMs: 60_000 }
    const found = brokenExpectations({ name: 'x', expectation: EXPECTATION }, seen)
    assert.deepEqual(
      found.map(({ isLoss }) => isLoss),
      [true, false],
    )
  })

  it('names a change that came too late, from the fault or from its end', () => {
    assert.match(broken({ changeMs: null, changeAfterEndMs: null })[0] ?? '', /served too late, not within 10 s of the/)
    const late = { changeMs: 30_000, changeAfterEndMs: 10_000 }
    assert.match(broken(late)[0] ?? '', /after 30 s, not within 10 s of the fault$/)
    assert.deepEqual(broken(late, { change: { from: 'end', withinS: 10 } }), [])
  })

  it('names what was not repaired, or is not as before', () => {
    assert.equal(broken({ repairedMs: null }, { repairedWithinS: 5 }).length, 1)
    assert.deepEqual(broken({ repairedMs: 4000 }, { repairedWithinS: 5 }), [])
    assert.match(broken({ differences: ['lacks a', 'has b'] })[0] ?? '', /lacks a; has b/)
  })

  it('compares what probes got and what the operator could read', () => {
    assert.equal(broken(livez('200, none after 2 s')).length, 1)
    assert.deepEqual(broken(livez('200, none after 2 s'), { livez: 'silent' }), [])
    assert.equal(broken(livez('200'), { livez: 'fails' }).length, 1)
    assert.deepEqual(broken(livez('200, 503 after 60 s'), { livez: 'fails' }), [])
    assert.equal(broken({}, { reads: /hangs/ }).length, 1)
    const log = { '"It hangs" a=1': 1 }
    assert.deepEqual(broken({ operator: { ...SEEN.operator, log } }, { reads: /hangs/ }), [])
  })

  it('makes a row of the page', () => {
    const row = rowOf({ name: 'x', expectation: EXPECTATION }, { ...SEEN, changeMs: 25_000, changeAfterEndMs: 5_000 })
    assert.equal(row.fault, 'x, 20 s')
    assert.equal(row.lost, '0 of 200 established (longest silence 0.1 s), 0 of 500 new')
    assert.equal(row['a new Service waited'], 'until 5.0 s after the end')
    assert.equal(row['the operator saw'], '/livez 200; status: fine')
  })
})

describe('what the operator sees', () => {
  it('counts warnings and errors by their text, and nothing else', () => {
    const log = `I1126 19:54:57.626078     130 a.ts:6] "Fine"
W1126 19:54:57.626078     130 pass-log.ts:64] "Repaired" key="a"
E1126 19:54:58.626078     130 b.ts:1] "Failed to watch" err="x"
W1126 19:54:59.626078     130 pass-log.ts:64] "Repaired" key="b"
`
    assert.deepEqual(troublesIn(log), { '"Repaired" key="a"': 2, '"Failed to watch" err="x"': 1 })
  })

  it('sums counters over their labels', () => {
    const page = `kubeipvs_read_failures_total{table="a"} 2
kubeipvs_read_failures_total{table="b"} 3
kubeproxy_sync_proxy_rules_iptables_restore_failures_total 4
kubeipvs_services 7`
    assert.deepEqual(Object.fromEntries(countersOf(page)), {
      kubeipvs_read_failures_total: 5,
      kubeproxy_sync_proxy_rules_iptables_restore_failures_total: 4,
    })
  })

  it('reads the verdict of status, and says when there is none', () => {
    assert.deepEqual(verdictOf('{"verdict":{"fine":false,"reasons":["a","b"]}}'), ['not fine', 'a', 'b'])
    assert.deepEqual(verdictOf('{"verdict":{"fine":null,"reasons":[]}}'), ['unknown'])
    assert.deepEqual(verdictOf('undefined'), ['no answer'])
  })
})

describe('the tables of a node', () => {
  it('are compared without counters, and without the braces around elements', () => {
    const before = linesOf(`:KUBE-SERVICES - [1:2]
-A -t 10.96.0.10:80 -s rr
elements = { 10.96.0.1 . 80 }`)
    const after = linesOf(`:KUBE-SERVICES - [10:20]
-A -t 10.96.0.10:80 -s rr
elements = { 10.96.0.1 . 80
10.96.0.2 . 80 }
something else`)
    assert.deepEqual(without(new Set(before), new Set(after)), [])
    assert.deepEqual(without(new Set(after), new Set(before)), ['10.96.0.2 . 80'])
  })
})

describe('the faults', () => {
  it('have names of their own, and promise no loss unless they say so', () => {
    assert.equal(new Set(FAULTS.map(({ name }) => name)).size, FAULTS.length)
    assert.ok(FAULTS.length >= 20)
    for (const { name, expectation } of FAULTS)
      if (expectation.dropped === undefined && expectation.failed === undefined)
        assert.match(expectation.text, /nothing/, name)
  })
})
