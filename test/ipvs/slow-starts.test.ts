import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { acceptStarting, SlowStarts, stepMs } from '../../src/ipvs/slow-starts.ts'
import { sameVirtualServer } from '../../src/ipvs/diff.ts'
import type { RealServer, VirtualServer } from '../../src/ipvs/types.ts'
import { parseWeights, slowStartFactor } from '../../src/service/weights.ts'

const KEY = '10.96.0.1:80/tcp'

/** A virtual server with real servers of these weights, by the last number of their addresses. */
function serverOf(weights: Readonly<Record<number, number>>): VirtualServer {
  const realServers = Object.entries(weights).map(
    ([last, weight]): RealServer => ({
      address: `10.244.0.${last}`,
      port: 8080,
      weight,
      forwarding: 'masquerade',
      upperThreshold: 0,
      lowerThreshold: 0,
    }),
  )
  return {
    family: 'IPv4',
    address: '10.96.0.1',
    port: 80,
    protocol: 'tcp',
    scheduler: 'wlc',
    flags: 0,
    timeoutSeconds: 0,
    netmask: 0xffffffff,
    persistenceEngine: '',
    realServers,
  }
}

const weightsIn = (server: VirtualServer | undefined): Readonly<Record<string, number>> | undefined =>
  server && Object.fromEntries(server.realServers.map(({ address, weight }) => [address.split('.')[3], weight]))

describe('stepMs', () => {
  it('makes 10 to 15 steps of any duration, with few different waits', () => {
    const waits = new Set<number>()
    for (let durationMs = 1000; durationMs <= 3_600_000; durationMs += 500) {
      const waitMs = stepMs(durationMs)
      const steps = Math.ceil(durationMs / waitMs)
      assert.ok(steps >= 10 && steps <= 15, `${durationMs}: ${waitMs}`)
      waits.add(waitMs)
    }
    assert.ok(waits.size < 32, String(waits.size))
    assert.deepEqual([1000, 30_000, 3_600_000].map(stepMs), [100, 3000, 300_000])
  })
})

describe('SlowStarts', () => {
  const start = (starts: SlowStarts, atMs: number, full: VirtualServer, before?: VirtualServer, durationMs = 10_000) =>
    weightsIn(starts.render(KEY, full, before, durationMs, atMs))

  it('begin only beside a real server that stays', () => {
    const rows: readonly (readonly [
      Readonly<Record<number, number>>,
      Readonly<Record<number, number>> | undefined,
      object,
    ])[] = [
      [{ 1: 10, 2: 10 }, undefined, { 1: 10, 2: 10 }],
      [{ 1: 10 }, {}, { 1: 10 }],
      [{ 1: 10, 2: 10 }, { 1: 10 }, { 1: 10, 2: 1 }],
      [{ 1: 10, 2: 10 }, { 2: 10 }, { 1: 1, 2: 10 }],
      [{ 2: 10, 3: 10 }, { 1: 10 }, { 2: 10, 3: 10 }],
      [{ 1: 10 }, { 1: 10, 2: 10 }, { 1: 10 }],
      [{}, { 1: 10 }, {}],
    ]
    for (const [full, before, expected] of rows) {
      const starts = new SlowStarts()
      assert.deepEqual(start(starts, 0, serverOf(full), before && serverOf(before)), expected)
      assert.equal(starts.nextDueMs() === undefined, starts.count === 0)
    }
  })

  it('change the weight only at steps, whatever else changes meanwhile', () => {
    const starts = new SlowStarts()
    const full = serverOf({ 1: 1000, 2: 1000 })
    const first = starts.render(KEY, full, serverOf({ 1: 1000 }), 10_000, 0)
    assert.deepEqual(weightsIn(starts.render(KEY, full, first, 10_000, 999)), { 1: 1000, 2: 1 })
    assert.deepEqual(weightsIn(starts.render(KEY, full, first, 10_000, 1999)), { 1: 1000, 2: 100 })
    // Its full weight changes while it starts.
    const heavier = serverOf({ 1: 1000, 2: 5000 })
    assert.deepEqual(weightsIn(starts.render(KEY, heavier, first, 10_000, 5500)), { 1: 1000, 2: 2500 })
    // Another duration counts for what has begun, too.
    assert.deepEqual(weightsIn(starts.render(KEY, heavier, first, 100_000, 20_000)), { 1: 1000, 2: 1000 })
    assert.equal(starts.nextDueMs(), 30_000)
    // Without the annotation it ends.
    assert.deepEqual(weightsIn(starts.render(KEY, heavier, first, undefined, 20_000)), { 1: 1000, 2: 5000 })
    assert.deepEqual([starts.count, starts.nextDueMs()], [0, undefined])
  })

  it('of several real servers of a virtual server share its steps, and each has its own begin', () => {
    const starts = new SlowStarts()
    const one = serverOf({ 1: 100 })
    const two = serverOf({ 1: 100, 2: 100 })
    const three = serverOf({ 1: 100, 2: 100, 3: 100 })
    starts.render(KEY, two, one, 10_000, 0)
    starts.render(KEY, three, two, 10_000, 2500)
    const seen: unknown[] = []
    for (let dueMs = starts.nextDueMs(); dueMs !== undefined; dueMs = starts.nextDueMs()) {
      assert.equal(starts.takeDue(dueMs - 1), undefined)
      assert.equal(starts.takeDue(dueMs), KEY)
      if (dueMs % 4000 === 0 || dueMs > 12_000) seen.push([dueMs, weightsIn(starts.step(KEY, dueMs))])
      else starts.step(KEY, dueMs)
    }
    assert.deepEqual(seen, [
      [4000, { 1: 100, 2: 40, 3: 10 }],
      [8000, { 1: 100, 2: 80, 3: 50 }],
      [12_000, { 1: 100, 2: 100, 3: 90 }],
      [13_000, { 1: 100, 2: 100, 3: 100 }],
    ])
  })

  it('begin again when the real server leaves and comes back, and are forgotten with their virtual server', () => {
    const starts = new SlowStarts()
    const one = serverOf({ 1: 10 })
    const two = serverOf({ 1: 10, 2: 10 })
    start(starts, 0, two, one)
    start(starts, 3000, one, two)
    assert.deepEqual([starts.count, starts.nextDueMs()], [0, undefined])
    assert.deepEqual(start(starts, 6000, two, one), { 1: 10, 2: 1 })
    assert.equal(starts.begun, 2)
    starts.forget(KEY)
    assert.deepEqual([starts.count, starts.nextDueMs(), starts.step(KEY, 9000)], [0, undefined, undefined])
  })

  it('of thousands of virtual servers cost only what is due, in few queues, in turns', () => {
    const starts = new SlowStarts()
    const [one, two] = [serverOf({ 1: 10 }), serverOf({ 1: 10, 2: 10 })]
    for (let index = 0; index < 10_000; index++) starts.render(`key${index}`, two, one, 1000 + index * 100, 0)
    assert.equal(starts.count, 10_000)
    const beganMs = performance.now()
    let steps = 0
    for (let key = starts.takeDue(100_000); key !== undefined && steps < 2000; key = starts.takeDue(100_000)) {
      starts.step(key, 100_000)
      steps++
    }
    assert.equal(steps, 2000)
    assert.ok(performance.now() - beganMs < 2000)
  })

  it('never lower a weight as time passes, stay from 1 to the full weight, and end', () => {
    const weight = fc.integer({ min: 1, max: 65_535 })
    fc.assert(
      fc.property(weight, fc.integer({ min: 1000, max: 3_600_000 }), (full, durationMs) => {
        const starts = new SlowStarts()
        let last = weightsIn(
          starts.render(KEY, serverOf({ 1: full, 2: full }), serverOf({ 1: full }), durationMs, 7),
        )?.[2]
        assert.equal(last, 1)
        let steps = 0
        for (let dueMs = starts.nextDueMs(); dueMs !== undefined; dueMs = starts.nextDueMs()) {
          starts.takeDue(dueMs)
          const now = weightsIn(starts.step(KEY, dueMs))?.[2] ?? 0
          assert.ok(now >= (last ?? 0) && now <= full)
          last = now
          steps++
        }
        assert.equal(last, full)
        assert.ok(steps <= 15)
      }),
    )
  })
})

describe('acceptStarting', () => {
  it('takes a live weight from 1 to the full one, and no other', () => {
    const wanted = serverOf({ 1: 10, 2: 10, 3: 10, 4: 10 })
    const found = acceptStarting(wanted, serverOf({ 1: 1, 2: 0, 3: 11 }))
    assert.deepEqual(weightsIn(found), { 1: 1, 2: 10, 3: 10, 4: 10 })
    assert.ok(sameVirtualServer(acceptStarting(wanted, undefined), wanted))
  })
})

describe('slowStartFactor', () => {
  it('keeps every weight within the largest one', () => {
    assert.equal(slowStartFactor(undefined), 10)
    for (const [text, factor] of [
      ['other=1', 10],
      ['same-zone=6553', 10],
      ['same-zone=6554', 9],
      ['zone:a=40000,other=1', 1],
      ['other=65535', 1],
    ] as const)
      assert.equal(slowStartFactor(parseWeights(text)), factor, text)
  })
})
