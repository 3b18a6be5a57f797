import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Drains } from '../../src/ipvs/drains.ts'

const KEY = '10.96.0.1:80/tcp'
const busy = (...servers: string[]) => new Map(servers.map((server) => [server, { active: 1, inactive: 0 }]))
const idle = (...servers: string[]) => new Map(servers.map((server) => [server, { active: 0, inactive: 0 }]))

describe('Drains', () => {
  it('are checked after a second, then at growing intervals of up to 30 s', () => {
    const drains = new Drains()
    drains.observe(KEY, ['a'], 0)
    const dueMs: number[] = []
    for (let nowMs = 0; nowMs <= 120_000; nowMs += 500) if (drains.takeDue(nowMs, 1).length > 0) dueMs.push(nowMs)
    assert.deepEqual(dueMs, [1000, 3000, 7000, 15_000, 31_000, 61_000, 91_000])
  })

  it('are checked soon again when another real server begins to drain', () => {
    const drains = new Drains()
    drains.observe(KEY, ['a'], 0)
    for (let nowMs = 0; nowMs <= 40_000; nowMs += 500) drains.takeDue(nowMs, 1)
    drains.observe(KEY, ['a', 'b'], 40_000)
    assert.equal(drains.nextDueMs(), 41_000)
  })

  it('are checked a few at a time, in turns', () => {
    const drains = new Drains()
    for (let index = 0; index < 100; index++) drains.observe(`10.96.0.${index}:80/tcp`, ['a'], 0)
    const checked = new Set<string>()
    for (let passes = 0; passes < 4; passes++) for (const key of drains.takeDue(1000 + passes, 25)) checked.add(key)
    assert.equal(checked.size, 100)
    assert.equal(drains.nextDueMs(), 3000)
  })

  it('end when no active or inactive connection is left', () => {
    const drains = new Drains()
    drains.observe(KEY, ['a', 'b', 'c'], 0)
    const counts = new Map([...idle('a'), ...busy('b'), ['c', { active: 0, inactive: 1 }] as const])
    assert.deepEqual(drains.finished(KEY, counts, 1000), new Set(['a']))
  })

  it('do not end when the kernel does not list the real server', () => {
    const drains = new Drains()
    drains.observe(KEY, ['a'], 0)
    assert.deepEqual(drains.finished(KEY, new Map(), 1000), new Set())
  })

  it('never end with connections without a deadline, and otherwise end at the deadline, counted from the first observation', () => {
    const forever = new Drains()
    const drains = new Drains(() => 60_000)
    for (const nowMs of [0, 30_000]) {
      forever.observe(KEY, ['a'], nowMs)
      drains.observe(KEY, ['a'], nowMs)
    }
    assert.deepEqual(forever.finished(KEY, busy('a'), 1e9), new Set())
    assert.deepEqual(drains.finished(KEY, busy('a'), 59_999), new Set())
    assert.deepEqual(drains.finished(KEY, busy('a'), 60_000), new Set(['a']))
  })

  it('end within a second of a deadline, each virtual server by its own', () => {
    const drains = new Drains((key) => (key === KEY ? 20_000 : 5_500))
    const other = '10.96.0.2:80/tcp'
    for (const key of [KEY, other]) drains.observe(key, ['a'], 0)
    const endedMs = new Map<string, number>()
    for (let nowMs = 0; nowMs <= 60_000; nowMs += 250)
      for (const key of drains.takeDue(nowMs, 9))
        if (!endedMs.has(key) && drains.finished(key, busy('a'), nowMs).size > 0) endedMs.set(key, nowMs)
    const [late = 0, soon = 0] = [endedMs.get(KEY), endedMs.get(other)]
    assert.ok(late >= 20_000 && late <= 21_000, String(late))
    assert.ok(soon >= 5500 && soon <= 6500, String(soon))
    assert.deepEqual(drains.ended, { idle: 0, deadline: 2 })
  })

  it('are forgotten when no real server drains any more', () => {
    const drains = new Drains()
    drains.observe(KEY, ['a'], 0)
    drains.forget(KEY)
    assert.deepEqual([drains.count, drains.nextDueMs(), drains.takeDue(10_000, 1)], [0, undefined, []])
  })
})
