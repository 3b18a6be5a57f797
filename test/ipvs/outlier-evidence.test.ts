import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { type Counters, ENOUGH, Evidence } from '../../src/ipvs/outlier-evidence.ts'

const counters = (connections: number, packetsIn: number, packetsOut: number, active = connections): Counters => ({
  connections,
  packetsIn,
  packetsOut,
  bytesIn: packetsIn * 60,
  bytesOut: packetsOut * 60,
  active,
  open: active,
})

/** The evidence of copies two seconds apart, each read four times. */
function evidenceOf(copies: readonly Counters[]): { readonly evidence: Evidence; readonly nowMs: number } {
  const evidence = new Evidence()
  let nowMs = 0
  for (const copy of copies)
    for (let read = 0; read < 4; read++) {
      evidence.observe(copy, nowMs)
      nowMs += 500
    }
  return { evidence, nowMs: nowMs - 500 }
}

describe('Evidence', () => {
  it('has points for connections without an answer by their age', () => {
    const points = (copies: readonly Counters[], protocol: 'tcp' | 'udp' | 'sctp' = 'tcp') => {
      const { evidence, nowMs } = evidenceOf(copies)
      return evidence.points(protocol, nowMs)
    }
    const one = counters(1, 2, 0)
    assert.equal(points([counters(0, 0, 0), one]), 0)
    assert.equal(points([counters(0, 0, 0), one, counters(1, 3, 0)]), 1)
    assert.equal(points([counters(0, 0, 0), one, counters(1, 3, 0), counters(1, 4, 0)]), 2)
    assert.equal(points([counters(0, 0, 0), counters(5, 5, 0), counters(5, 10, 0)]), 5)
    // Any packet out is an answer: SYN-ACK, data, and RST, which also ends the wait of the client.
    assert.equal(points([counters(0, 0, 0), counters(5, 5, 0), counters(5, 10, 1)]), 0)
    assert.equal(points([counters(0, 0, 0), counters(5, 5, 0), counters(5, 10, 0)], 'sctp'), 0)
    // Nothing is known of a UDP service that has not answered before.
    assert.equal(points([counters(0, 0, 0), counters(50, 50, 0), counters(90, 90, 0), counters(99, 99, 0)], 'udp'), 0)
  })

  it('knows from the exact count when connections had arrived, and takes the others for the newest', () => {
    const points = (actives: readonly number[], last: Counters): number => {
      const evidence = new Evidence()
      let nowMs = 0
      for (let read = 0; read < 16; read++)
        evidence.observe(counters(read < 8 ? 90 : 100, 400, read < 8 ? 300 : 400, 10), (nowMs += 250))
      for (const active of actives) evidence.observe(counters(100, 400, 400, active), (nowMs += 250))
      evidence.observe(last, (nowMs += 250))
      return evidence.points('tcp', nowMs)
    }
    // Seen 1.5 to 0.75 s before the earliest moment of the copy: 800 ms are one point.
    assert.equal(points([11, 12, 13, 14, 14, 14, 14], counters(104, 408, 400, 14)), 3)
    assert.equal(points([10, 10, 10, 10, 10, 10, 14], counters(104, 408, 400, 14)), 0)
    // Of those that end nothing is known.
    assert.equal(points([11, 10, 10, 10, 10, 10, 10], counters(104, 408, 400, 10)), 1)
    assert.equal(points([11, 12, 13, 14, 14, 14, 14], counters(104, 408, 401, 14)), 0)
  })

  it('has no more points than packets came: a client that gives up repeats nothing', () => {
    const silent = Array.from({ length: 20 }, () => counters(1, 1, 0))
    const { evidence, nowMs } = evidenceOf([counters(0, 0, 0), ...silent])
    assert.equal(evidence.points('tcp', nowMs), 1)
    assert.ok(!evidence.isDoubtful('tcp', nowMs))
  })

  it('takes no ICMP error that quotes a first packet for an answer', () => {
    const points = (bytesIn: number, bytesOut: number, protocol: 'tcp' | 'udp' = 'tcp') => {
      const evidence = new Evidence()
      let nowMs = 0
      const read = (copy: Counters): void => {
        for (let reads = 0; reads < 4; reads++) evidence.observe(copy, (nowMs += 500), protocol)
      }
      read(counters(0, 0, 0))
      read({ ...counters(5, 5, 0), bytesIn: 5 * bytesIn })
      read({ ...counters(5, 10, 4), bytesIn: 10 * bytesIn, bytesOut: 4 * bytesOut })
      // The errors for the last first packets come when no more of these do.
      read({ ...counters(5, 10, 8), bytesIn: 10 * bytesIn, bytesOut: 8 * bytesOut })
      return [evidence.points(protocol, nowMs) >= ENOUGH, evidence.answerMs === undefined]
    }
    assert.deepEqual(points(60, 88), [true, true])
    assert.deepEqual(points(80, 128), [true, true])
    // SYN-ACK, RST, the data of a connection of before, a request of UDP with an answer of this size.
    assert.deepEqual(points(60, 60), [false, false])
    assert.deepEqual(points(60, 40), [false, false])
    assert.deepEqual(points(60, 1500), [false, false])
    assert.deepEqual(points(300, 328), [false, false])
    assert.deepEqual(points(60, 88, 'udp'), [false, false])
  })

  it('believes the silence of UDP only after three copies with answers, and three times as late', () => {
    const answered = [0, 1, 2, 3].map((copy) => counters(copy * 5, copy * 5, copy * 5))
    const silent = [1, 2, 3, 4, 5].map((copy) => counters(15 + copy * 5, 15 + copy * 5, 15))
    const at = (copies: readonly Counters[]) => {
      const { evidence, nowMs } = evidenceOf(copies)
      return evidence.points('udp', nowMs)
    }
    assert.ok(at([...answered, ...silent.slice(0, 3)]) < ENOUGH)
    assert.ok(at([...answered, ...silent]) >= ENOUGH)
    assert.equal(at([...answered.slice(0, 2), ...silent]), 0)
  })

  it('needs no second copy for connections that were repeated and did not all come just before the first', () => {
    const before = counters(100, 400, 400, 10)
    const silentOf = (reads: readonly number[], last: Counters) => {
      const evidence = new Evidence()
      let nowMs = 0
      for (const copy of [counters(90, 360, 360, 10), before])
        for (let read = 0; read < 8; read++) evidence.observe(copy, (nowMs += 250))
      for (const active of reads) evidence.observe({ ...before, active, open: active }, (nowMs += 250))
      evidence.observe(last, (nowMs += 250))
      return evidence.points('tcp', nowMs)
    }
    const early = [10, 12, 13, 14, 15, 16, 17]
    assert.equal(silentOf(early, counters(108, 414, 400, 18)), ENOUGH)
    // A burst just before the copy; too few repetitions; too few connections; an answer.
    assert.equal(silentOf([10, 10, 10, 10, 10, 10, 10], counters(108, 414, 400, 18)), 0)
    assert.ok(silentOf(early, counters(108, 410, 400, 18)) < ENOUGH)
    assert.ok(silentOf(early, counters(103, 412, 400, 13)) < ENOUGH)
    assert.equal(silentOf(early, counters(108, 414, 401, 18)), 0)
  })

  it('begins again where counters were set to 0', () => {
    const { evidence, nowMs } = evidenceOf([counters(90, 300, 300), counters(9, 9, 0), counters(9, 18, 0)])
    assert.equal(evidence.points('tcp', nowMs), 0)
    assert.equal(evidence.unanswered, 0)
  })

  it('never has a point while no connection arrives, whatever packets do', () => {
    const packets = fc.array(fc.tuple(fc.nat(50), fc.nat(3)), { maxLength: 30 })
    fc.assert(
      fc.property(packets, fc.constantFrom('tcp' as const, 'udp' as const), (steps, protocol) => {
        let [packetsIn, packetsOut] = [0, 0]
        const copies = steps.map(([more, out]) => counters(7, (packetsIn += more), (packetsOut += out), 7))
        const { evidence, nowMs } = evidenceOf(copies)
        assert.equal(evidence.points(protocol, nowMs + 600_000), 0)
      }),
    )
  })

  it('keeps few groups, and never takes a connection to be older than it is', () => {
    const evidence = new Evidence()
    evidence.observe(counters(0, 0, 0), 0)
    for (let copy = 1; copy <= 1000; copy++) evidence.observe(counters(copy, copy * 3, 0), copy * 2000)
    assert.equal(evidence.unanswered, 1000)
    assert.ok(evidence.points('tcp', 2_000_000) < 7 * 6 + 993 * 6)
    assert.ok(evidence.silenceMs(2_000_000) <= 2_000_000 - 2000)
  })
})
