/** What outlier detection reads, and how often, on a kernel and a clock of the test. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { CountedDestination } from '../../../src/ipvs/codec-destinations.ts'
import type { OutlierDecision } from '../../../src/ipvs/outlier-states.ts'
import { Outliers } from '../../../src/ipvs/outliers.ts'
import { virtualServerKey } from '../../../src/ipvs/types.ts'
import { OutlierWatch, type OutlierWatchOptions } from '../../../src/modes/ipvs/outlier-watch.ts'
import type { Problem } from '../../../src/values/errors.ts'
import { Budget } from '../../../src/values/budget.ts'
import { recordingLog } from '../../support/recording-log.ts'
import { makeRealServer, makeVirtualServer } from '../../support/virtual-servers.ts'

/** A kernel with virtual servers of some real servers each, whose counters follow the clock. */
class World {
  readonly outliers = new Outliers()
  readonly log = recordingLog()
  readonly reads: { readonly key: string; readonly atMs: number }[] = []
  readonly lists: number[] = []
  readonly decisions: OutlierDecision[] = []
  readonly rejudged: string[] = []
  problems: readonly Problem[] = []
  nowMs = 0
  sleeps = 0
  count = 0
  isEstimating = true
  /** Virtual servers that get 20 connections a second for each real server. */
  busy: (key: string) => boolean = () => false
  /** Real servers that do not answer from then on; the counters stand still from then on. */
  deadFromMs = Number.POSITIVE_INFINITY
  stillFromMs = Number.POSITIVE_INFINITY
  fails: (key: string) => boolean = () => false
  /** Of a list of all virtual servers. */
  listMs = 0
  /** Connections of a virtual server that gets no new ones. */
  idleConnections = 9
  /** Whenever the watch waits. */
  atSleep: () => void = () => undefined
  /** Real servers of each virtual server. */
  size = 3
  readonly #abort = new AbortController()

  get #lasts(): readonly number[] {
    return Array.from({ length: this.size }, (_, index) => index + 1)
  }

  add(count: number): readonly string[] {
    const servers = this.#lasts.map((last) => makeRealServer(`10.244.0.${last}`))
    return Array.from({ length: count }, () => {
      const server = makeVirtualServer(`10.96.${this.count >> 8}.${this.count++ & 255}`, servers)
      const key = virtualServerKey(server)
      this.outliers.render(key, server, 'demo/web')
      return key
    })
  }

  /** Runs the watch until then. */
  async run(untilMs: number): Promise<void> {
    const options: OutlierWatchOptions = {
      ipvs: {
        listCountedDestinations: async (id) => {
          const key = virtualServerKey(id as Parameters<typeof virtualServerKey>[0]) // only these are asked for
          if (this.fails(key)) throw new Error('injected failure')
          this.reads.push({ key, atMs: this.nowMs })
          return this.#lasts.map((last) => this.#destination(key, last))
        },
        visitTraffic: async (visit, { budget } = {}) => {
          this.lists.push(this.nowMs)
          budget?.whole(() => void (this.nowMs += this.listMs))
          for (const key of this.outliers.keys())
            if (this.busy(key)) visit(key, Float64Array.of(Math.floor(this.nowMs / 50), 1, 1, 1, 1))
            else visit(key, Float64Array.of(7, 1, 1, 1, 1))
        },
      },
      outliers: this.outliers,
      rejudged: (key) => void this.rejudged.push(key),
      onJudged: (decisions) => void this.decisions.push(...decisions),
      serverCount: () => this.count,
      problems: { report: (_, __, problems) => void (this.problems = problems) },
      log: this.log,
      now: () => this.nowMs,
      sleep: async (ms) => {
        this.sleeps++
        this.atSleep()
        this.nowMs += Math.max(1, ms)
        if (this.nowMs >= untilMs) this.#abort.abort()
        await new Promise((resolve) => setImmediate(resolve))
      },
      estimates: () => this.isEstimating,
      newBudget: () => new Budget({ now: () => this.nowMs, processor: () => this.nowMs }),
    }
    await new OutlierWatch(options).run(this.#abort.signal)
  }

  stop(): void {
    this.#abort.abort()
  }

  /** Copies are made every two seconds. */
  #destination(key: string, last: number): CountedDestination {
    const isBusy = this.busy(key)
    const copyMs = Math.min(this.stillFromMs, Math.floor((this.nowMs + last * 600) / 2000) * 2000 - last * 600)
    const answersMs = last === 1 ? Math.min(copyMs, this.deadFromMs) : copyMs
    const connections = isBusy ? Math.max(0, Math.floor(copyMs / 50)) : 0
    const answered = isBusy ? Math.max(0, Math.floor(answersMs / 50)) : 0
    return {
      realServer: makeRealServer(`10.244.0.${last}`),
      // Without new connections there are packets all the same.
      traffic: isBusy
        ? Float64Array.of(connections, answered * 4 + (connections - answered) * 2, answered * 4, 0, 0)
        : Float64Array.of(this.idleConnections, Math.max(0, copyMs), Math.max(0, copyMs), 0, 0),
      activeConnections: isBusy ? Math.floor(this.nowMs / 50) : 0,
      inactiveConnections: 0,
      persistentConnections: 0,
    }
  }
}

describe('OutlierWatch', () => {
  it('neither reads nor waits for a time while no Service wants it, and begins with the first one', async () => {
    const world = new World()
    const ended = world.run(10_000)
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
    assert.deepEqual([world.reads, world.lists, world.sleeps], [[], [], 0])
    const [key] = world.add(1)
    await ended
    assert.ok(world.reads.length >= 4)
    assert.deepEqual(new Set(world.reads.map((read) => read.key)), new Set([key]))
  })

  it('ends while no Service wants it', async () => {
    const world = new World()
    const ended = world.run(10_000)
    world.stop()
    await ended
    assert.equal(world.sleeps, 1)
  })

  it('reads few virtual servers every two seconds, and four times a second those with connections', async () => {
    const world = new World()
    const [busy = '', idle = ''] = world.add(2)
    world.busy = (key) => key === busy
    await world.run(20_000)
    const count = (key: string): number => world.reads.filter((read) => read.key === key).length
    assert.deepEqual(world.lists, [])
    assert.ok(count(busy) >= 60, String(count(busy)))
    assert.ok(count(idle) >= 8 && count(idle) <= 11, String(count(idle)))
  })

  it('reads a virtual server once a second that gets no connections any more, until it is not busy', async () => {
    const world = new World()
    const [key = ''] = world.add(100)
    world.busy = (one) => one === key && world.nowMs < 20_000
    await world.run(60_000)
    const between = (fromMs: number, toMs: number): number =>
      world.reads.filter(({ atMs }) => atMs >= fromMs && atMs < toMs).length
    assert.ok(between(15_000, 20_000) >= 18, String(between(15_000, 20_000)))
    // Connections of before may still move the counters for two copies.
    const calm = between(27_000, 32_000)
    assert.ok(calm >= 4 && calm <= 6, String(calm))
    assert.equal(between(45_000, 60_000), 0)
  })

  it('lists many virtual servers more rarely the more there are, and reads only those with connections', async () => {
    for (const [count, lists] of [
      [100, 60],
      [4000, 10],
    ] as const) {
      const world = new World()
      const [busy = ''] = world.add(count)
      world.busy = (key) => key === busy
      await world.run(60_000)
      assert.ok(Math.abs(world.lists.length - lists) <= 2, `${count}: ${world.lists.length}`)
      assert.deepEqual(new Set(world.reads.map(({ key }) => key)), new Set([busy]))
    }
  })

  it('reads those with connections as often beside lists that take long, and lists more rarely then', async () => {
    const world = new World()
    const [busy = ''] = world.add(4000)
    world.busy = (key) => key === busy
    world.listMs = 20
    await world.run(240_000)
    const times = world.reads.map(({ atMs }) => atMs)
    const pauses = times.slice(1).map((atMs, index) => atMs - (times[index] ?? 0))
    assert.ok(Math.max(...pauses) <= 300, String(Math.max(...pauses)))
    // 20 ms in 13.3 s are half of the share.
    assert.ok(world.lists.length >= 17 && world.lists.length <= 20, String(world.lists.length))
  })

  it('rests for all the time that a large virtual server takes, 0.3 % of one core', async () => {
    const world = new World()
    world.size = 100
    world.add(1)
    world.busy = () => true
    const { observe } = world.outliers
    world.outliers.observe = function observed(...read) {
      world.nowMs += 10
      return observe.apply(this, read)
    }
    await world.run(60_000)
    // Each takes 10 ms; the first ones are from the credit.
    const count = world.reads.length
    assert.ok(count >= 15 && count <= 21, String(count))
  })

  it('says what was decided, logs it and asks for a pass', async () => {
    const world = new World()
    const [key = ''] = world.add(1)
    world.busy = () => true
    world.deadFromMs = 20_000
    await world.run(25_000)
    const [decision] = world.decisions
    assert.deepEqual(
      [decision?.kind, decision?.owner, decision?.virtualServer, decision?.realServer, decision?.waitMs],
      ['suspected', 'demo/web', key, '10.244.0.1:80', 5000],
    )
    assert.ok(world.rejudged.includes(key))
    const line = world.log.lines.find(({ level }) => level === 'warn')
    assert.equal(line?.message, 'An endpoint does not answer and gets no new connections')
    assert.equal(line?.fields['nextTrial'], '5s')
    assert.equal(world.outliers.count, 1)
  })

  it('does nothing, and says so, while the kernel does not count', async () => {
    const world = new World()
    world.add(1)
    world.busy = () => true
    world.deadFromMs = 5000
    world.isEstimating = false
    await world.run(60_000)
    assert.deepEqual([world.reads, world.decisions], [[], []])
    assert.deepEqual(
      world.problems.map(({ code, about, subject }) => [code, about, subject]),
      [['estimation-off', 'setting', 'net.ipv4.vs.run_estimation']],
    )
  })

  it('withdraws the problem when no Service wants it any more', async () => {
    const world = new World()
    const [key = ''] = world.add(1)
    world.isEstimating = false
    world.atSleep = () => {
      if (world.nowMs < 20_000 || world.outliers.size === 0) return
      assert.equal(world.problems.length, 1)
      world.outliers.forget(key)
    }
    const ended = world.run(30_000)
    for (let turn = 0; turn < 500; turn++) await new Promise((resolve) => setImmediate(resolve))
    world.stop()
    await ended
    assert.equal(world.outliers.size, 0)
    assert.deepEqual(world.problems, [])
  })

  it('releases all suspects when the kernel stops counting, by its setting or without', async () => {
    const off = new World()
    off.add(1)
    off.busy = () => true
    off.deadFromMs = 20_000
    const notYet = off.run(60_000)
    const { observe } = off.outliers
    off.outliers.observe = function observed(...read) {
      const isChanged = observe.apply(this, read)
      if (this.count > 0) off.isEstimating = false
      return isChanged
    }
    await notYet
    assert.deepEqual(off.decisions.map(({ kind }) => kind).slice(0, 1), ['suspected'])
    assert.equal(off.decisions.at(-1)?.kind, 'released')
    assert.equal(off.outliers.count, 0)

    const still = new World()
    still.add(1)
    still.busy = () => true
    still.stillFromMs = 20_000
    still.deadFromMs = 15_000
    await still.run(60_000)
    assert.match(still.problems[0]?.message ?? '', /^the counters of the kernel stand still/)
    assert.equal(still.outliers.count, 0)
    assert.ok(still.reads.every(({ atMs }) => atMs < 40_000))
  })

  it('tells what it decided before a failure', async () => {
    const world = new World()
    const [, second] = world.add(2)
    world.busy = () => true
    world.deadFromMs = 20_000
    world.fails = (key) => key === second && world.outliers.count > 0
    await world.run(40_000)
    assert.equal(world.decisions[0]?.kind, 'suspected')
  })

  it('remembers nothing of a virtual server that was forgotten', async () => {
    const world = new World()
    const [first = ''] = world.add(2)
    const again = makeVirtualServer(
      '10.96.0.0',
      [1, 2, 3].map((last) => makeRealServer(`10.244.0.${last}`)),
    )
    assert.equal(virtualServerKey(again), first)
    world.atSleep = () => {
      if (world.nowMs < 10_000 || world.idleConnections !== 9) return
      if (world.outliers.size === 2) return world.outliers.forget(first)
      if (world.nowMs < 20_000) return
      world.idleConnections = 10
      world.outliers.render(first, again, 'demo/web')
    }
    await world.run(40_000)
    // It is read every two seconds: its counters have not changed since it is watched again.
    const reads = world.reads.filter(({ key, atMs }) => key === first && atMs >= 20_000)
    assert.ok(reads.length >= 8 && reads.length <= 11, String(reads.length))
  })

  it('goes on after a failure', async () => {
    const world = new World()
    world.add(1)
    world.fails = () => true
    await world.run(12_000)
    const lines = world.log.lines.filter(({ message }) => message === 'Cannot read the counters of real servers')
    assert.equal(lines.length, 3)
    assert.equal(world.reads.length, 0)
  })
})
