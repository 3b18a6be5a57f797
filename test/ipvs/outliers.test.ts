import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { type Counters, Evidence } from '../../src/ipvs/outlier-evidence.ts'
import { acceptOutliers } from '../../src/ipvs/outlier-states.ts'
import { Outliers } from '../../src/ipvs/outliers.ts'
import type { VirtualServer } from '../../src/ipvs/types.ts'
import { rowsOfRun } from '../support/extent.ts'
import { makeRealServer, makeVirtualServer } from '../support/virtual-servers.ts'
import { EstimatorModel, MODEL_KEY, type ModelOptions, seeded } from './estimator-model.ts'

const KEY = '10.96.0.1:80/tcp'
const DEATH_MS = 20_000

/** A virtual server of which some real servers die. */
function modelOf(options: Partial<ModelOptions>, dead: readonly number[] = [], seed = 1): EstimatorModel {
  const at = DEATH_MS
  return new EstimatorModel({
    servers: 4,
    rate: 80,
    random: seeded(seed),
    dead: (server, atMs) => dead.includes(server) && atMs >= at,
    ...options,
  })
}

const kinds = (model: EstimatorModel): readonly string[] => model.outliers.takeDecisions().map(({ kind }) => kind)

describe('Outliers', () => {
  for (const { perSecond, boundMs, sizes, readMs = 250 } of [
    { perSecond: 20, boundMs: 3500, sizes: [2, 3, 10] },
    // A share that is used up lets fewer reads be.
    { perSecond: 20, boundMs: 6500, sizes: [4], readMs: 2000 },
    { perSecond: 10, boundMs: 3500, sizes: [10] },
    { perSecond: 5, boundMs: 5000, sizes: [4] },
    { perSecond: 2, boundMs: 6500, sizes: [4] },
  ])
    it(`give a dead real server with ${perSecond} connections a second, read every ${readMs} ms, its last one within ${boundMs} ms of its last answer, in 99 of 100 cases`, () => {
      const late: string[] = []
      let runs = 0
      for (const servers of sizes)
        for (let seed = 1; seed <= 20; seed++) {
          // Its death is at another place of the kernel's two seconds in each run.
          const diesMs = DEATH_MS + seed * 97
          const dead = (server: number, atMs: number): boolean => server === 0 && atMs >= diesMs
          const model = modelOf({ servers, rate: servers * perSecond, dead, readMs }, [], seed)
          let lastMs: number | undefined
          model.run(diesMs + (readMs === 250 ? 8000 : 20_000), () => {
            if (model.weights[0] === 0) lastMs ??= model.lastConnectionMs[0]
          })
          runs++
          const took = (lastMs ?? Number.POSITIVE_INFINITY) - (model.lastAnswerMs[0] ?? 0)
          if (took > boundMs) late.push(`${servers} ${seed}: ${took}`)
          assert.deepEqual(
            [...model.outliers.current(model.nowMs)].map(({ realServer }) => realServer),
            ['10.244.0.100:80'],
          )
        }
      assert.ok(late.length <= runs / 100, late.join('\n'))
    })

  it('try it again after 5, 10 and 20 s with one connection, and take it back with the first answer', () => {
    const model = modelOf({ dead: (server, atMs) => server === 0 && atMs >= DEATH_MS && atMs < 105_000 })
    const seen: string[] = []
    const connections: number[] = []
    let before = 0
    model.run(130_000, () => {
      for (const { kind } of model.outliers.takeDecisions()) {
        seen.push(`${kind} ${Math.round(model.nowMs / 1000)}`)
        if (kind === 'tried') before = model.connectionsOf(0)
        if (kind === 'suspected' && seen.length > 1) connections.push(model.connectionsOf(0) - before)
      }
    })
    assert.deepEqual(
      seen.map((text) => text.split(' ')[0]),
      ['suspected', 'tried', 'suspected', 'tried', 'suspected', 'tried', 'suspected', 'tried', 'answered'],
    )
    // Of those that still close as many may end as new ones come between two reads.
    assert.ok((connections[0] ?? 9) <= 5, String(connections))
    assert.deepEqual(connections.slice(1), [1, 1])
    assert.deepEqual(model.weights, [1, 1, 1, 1])
    assert.deepEqual(model.outliers.count, 0)
  })

  it('leave everything as it is when all real servers are silent at once, or the last one is', () => {
    for (let seed = 1; seed <= 10; seed++) {
      const all = modelOf({}, [0, 1, 2, 3], seed)
      all.run(60_000)
      assert.deepEqual([all.weights, kinds(all)], [[1, 1, 1, 1], []], `all, ${seed}`)
      const last = modelOf({ servers: 1, rate: 20 }, [0], seed)
      last.run(60_000)
      assert.deepEqual([last.weights, kinds(last)], [[1], []], `last, ${seed}`)
    }
  })

  it('take at most half of them out', () => {
    for (const [servers, dead, out] of [
      [2, [0], 1],
      [3, [0, 1], 1],
      [4, [0, 1, 2], 2],
      [5, [0, 1, 2, 3], 2],
    ] as const) {
      const model = modelOf({ servers, rate: servers * 20 }, dead)
      let most = 0
      model.run(90_000, () => {
        const outNow = [...model.outliers.current(model.nowMs)].length
        most = Math.max(most, outNow)
      })
      assert.equal(most, out, `${dead.length} of ${servers}`)
    }
  })

  it('never suspect one that answers: with loss and delay, slow, rare, in bursts, or silent after the handshake', () => {
    const burst = (periodMs: number, lengthMs: number, rate: number) => (atMs: number) =>
      atMs % periodMs < lengthMs ? rate : 0
    const bad = { delayMs: 300, loss: 0.02 }
    const rows: readonly Partial<ModelOptions>[] = [
      { ...bad, rate: 15 },
      { ...bad, rate: 150 },
      { ...bad, rate: 2 },
      { ...bad, rate: 40, thinkMs: 10_000 },
      { ...bad, rate: 40, answers: 0 },
      { ...bad, rate: burst(7130, 200, 400) },
      { ...bad, rate: burst(3010, 100, 800), answers: 8 },
      { ...bad, rate: burst(15_010, 400, 100), thinkMs: 3000 },
      { ...bad, rate: 30, protocol: 'udp' },
      // Clients that give up: with so few connections nobody else asks the real server meanwhile.
      { ...bad, servers: 12, rate: 0.3, givesUpMs: 1000 },
      { ...bad, servers: 12, rate: 0.6, givesUpMs: 3000 },
    ]
    let connections = 0
    for (const row of rows)
      for (const seed of rowsOfRun([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16], (one) => one === 1)) {
        const model = modelOf(row, [], seed)
        model.run(300_000)
        connections += model.connections
        assert.equal(model.outliers.counts.suspected, 0, JSON.stringify({ ...row, seed }))
      }
    assert.ok(connections > 90_000, String(connections))
  })

  it('find a dead UDP real server that has answered before, and never one that has not', () => {
    const dies = modelOf({ protocol: 'udp' }, [0])
    dies.run(60_000)
    assert.equal(dies.weights[0], 0)
    const oneWay = modelOf({ protocol: 'udp', dead: (server) => server === 0 })
    oneWay.run(60_000)
    assert.deepEqual([oneWay.weights, kinds(oneWay)], [[1, 1, 1, 1], []])
  })

  it('look at each of many silent real servers only a few times', (test) => {
    const count = 300
    const all = Array.from({ length: count }, (_, index) => makeRealServer(`10.244.${index >> 8}.${index & 255}`))
    const outliers = new Outliers()
    outliers.render(KEY, makeVirtualServer('10.96.0.1', all), 'demo/web')
    const { mock } = test.mock.getter(Evidence.prototype, 'isShort')
    const read = (connections: number, packetsIn: number, nowMs: number): void => {
      const counters = {
        connections,
        packetsIn,
        packetsOut: 0,
        bytesIn: 0,
        bytesOut: 0,
        active: connections,
        open: connections,
      }
      outliers.observe(KEY, new Map(all.map(({ address, port }) => [`${address}:${port}`, counters])), nowMs)
    }
    read(0, 0, 0)
    read(5, 5, 2000)
    read(5, 5, 3800)
    mock.resetCalls()
    read(5, 10, 4000)
    assert.equal(outliers.counts.suspected, 0)
    assert.ok(mock.callCount() <= 4 * count, String(mock.callCount()))
  })

  it('end the limit of one whose few answers are those of idle connections', () => {
    const all = [1, 2, 3].map((last) => makeRealServer(`10.244.0.${last}`))
    const outliers = new Outliers()
    outliers.render(KEY, makeVirtualServer('10.96.0.1', all), 'demo/web')
    const counts = all.map(() => ({
      connections: 0,
      packetsIn: 0,
      packetsOut: 0,
      bytesIn: 0,
      bytesOut: 0,
      active: 0,
      open: 0,
    }))
    let nowMs = 0
    const copy = (pooled: number, idle: number): void => {
      for (const [index, one] of counts.entries()) {
        const pool = index === 0 ? pooled : 0
        const requests = index === 0 ? 20 - pooled - idle : 20
        one.connections += pool + requests
        one.packetsIn += pool * 2 + requests * 6
        one.packetsOut += pool + requests * 5
        one.active += pool
        one.open += pool
      }
      const read = new Map(
        all.map(({ address, port }, index) => [`${address}:${port}`, { ...counts[index] } as Counters]),
      ) // as many as in all
      for (let reads = 0; reads < 8; reads++) outliers.observe(KEY, read, (nowMs += 250))
    }
    for (let copies = 0; copies < 6; copies++) copy(0, 0)
    copy(20, 0)
    assert.deepEqual(
      [...outliers.current(nowMs)].map(({ state, realServer }) => [state, realServer]),
      [['limited', '10.244.0.1:80']],
    )
    for (let copies = 0; copies < 3; copies++) copy(0, 20)
    assert.deepEqual([[...outliers.current(nowMs)], outliers.troubled.size], [[], 0])
    // It is not limited again for a minute.
    copy(20, 0)
    assert.deepEqual([...outliers.current(nowMs)], [])
  })

  it('let none in where two first packets got no answer, and end that when their clients have given up', () => {
    const all = [1, 2, 3].map((last) => makeRealServer(`10.244.0.${last}`))
    const outliers = new Outliers()
    outliers.render(KEY, makeVirtualServer('10.96.0.1', all), 'demo/web')
    const none = { connections: 0, packetsIn: 0, packetsOut: 0, bytesIn: 0, bytesOut: 0, active: 0, open: 0 }
    const counts = all.map(() => ({ ...none }))
    let nowMs = 0
    /** Two seconds, in which the first one gets so many connections; each asks once and gets no answer if `silent`. */
    const copy = (connections: number, silent = false): void => {
      const [first] = counts
      assert.ok(first)
      for (let read = 0; read < 8; read++) {
        if (read === 1 && silent) first.active += connections
        if (read === 7)
          for (const [index, one] of counts.entries()) {
            const isSilent = index === 0 && silent
            const got = index === 0 ? connections : 3
            one.connections += got
            one.packetsIn += got * (isSilent ? 1 : 5)
            one.packetsOut += isSilent ? 0 : got * 4
          }
        const reads = all.map(
          ({ address, port }, index) => [`${address}:${port}`, { ...none, ...counts[index] }] as const,
        )
        outliers.observe(KEY, new Map(reads), (nowMs += 250))
      }
    }
    const limits = () => outliers.rendered(KEY)?.realServers.map(({ upperThreshold }) => upperThreshold)
    for (let copies = 0; copies < 3; copies++) copy(3)
    copy(3, true)
    copy(0)
    assert.deepEqual([[...outliers.current(nowMs)].map(({ state }) => state), limits()], [['limited'], [1, 0, 0]])
    for (let copies = 0; copies < 5; copies++) copy(0)
    assert.deepEqual([[...outliers.current(nowMs)], limits(), outliers.counts.suspected], [[], [0, 0, 0], 0])
    // It is not limited again for a minute, unless more of them get no answer.
    copy(3, true)
    copy(0)
    assert.deepEqual([...outliers.current(nowMs)], [])
    copy(3)
    copy(5, true)
    copy(0)
    assert.deepEqual(
      [...outliers.current(nowMs)].map(({ state }) => state),
      ['limited'],
    )
  })

  it('see what UDP does by all connections, because IPVS counts none of them as active', () => {
    const model = modelOf({ protocol: 'udp' }, [0])
    let [before, ended] = [0, 0]
    model.run(120_000, () => {
      const [one] = model.outliers.current(model.nowMs)
      if (one?.state !== 'on-trial') before = model.connectionsOf(0)
      else if (model.connectionsOf(0) > before) {
        const limit = model.outliers.rendered(MODEL_KEY)?.realServers[0]?.upperThreshold
        assert.equal(limit, 1)
        ended++
      }
    })
    assert.ok(ended > 0)

    const outliers = new Outliers()
    const server = makeRealServer('10.244.0.1')
    const base = { ...makeVirtualServer('10.96.0.1', [server]), protocol: 'udp' } as const
    outliers.render(KEY, base, 'demo/web')
    const still = { connections: 9, packetsIn: 9, packetsOut: 9, bytesIn: 600, bytesOut: 600, active: 0 }
    for (let nowMs = 0; nowMs <= 20_000; nowMs += 250)
      outliers.observe(KEY, new Map([['10.244.0.1:80', { ...still, open: nowMs % 1000 }]]), nowMs)
    assert.ok(outliers.copies.isStalled(20_000))
  })

  it('begin the waits anew after a minute of answers', () => {
    const flaps = (times: readonly (readonly [number, number])[]) => (server: number, atMs: number) =>
      server === 0 && times.some(([from, to]) => atMs >= from && atMs < to)
    const waits = (model: EstimatorModel): readonly (number | undefined)[] => {
      const found: (number | undefined)[] = []
      model.run(260_000, () => {
        for (const { kind, waitMs } of model.outliers.takeDecisions()) if (kind === 'suspected') found.push(waitMs)
      })
      return found
    }
    assert.deepEqual(
      waits(
        modelOf({
          dead: flaps([
            [20_000, 26_000],
            [45_000, 51_000],
            [75_000, 81_000],
          ]),
        }),
      ),
      [5000, 10_000, 20_000],
    )
    assert.deepEqual(
      waits(
        modelOf({
          dead: flaps([
            [20_000, 26_000],
            [160_000, 166_000],
          ]),
        }),
      ),
      [5000, 5000],
    )
  })

  it('follow the API: what it removes is forgotten, and those over the half are released', () => {
    const model = modelOf({}, [0, 1])
    model.run(26_000)
    assert.deepEqual(model.weights, [0, 0, 1, 1])
    const rendered = (servers: readonly number[]): readonly number[] =>
      model.outliers
        .render(
          MODEL_KEY,
          { ...model.virtualServer, realServers: model.servers.filter((_, index) => servers.includes(index)) },
          'demo/web',
        )
        .realServers.map(({ weight }) => weight)
    model.outliers.takeDecisions()
    // Of three only one may be out.
    const three = rendered([0, 1, 2])
    assert.deepEqual(three.toSorted(), [0, 1, 1])
    assert.deepEqual(kinds(model), ['released'])
    const out = three.indexOf(0)
    assert.deepEqual(rendered([out]), [1])
    assert.deepEqual([kinds(model), [...model.outliers.current(0)]], [['released'], []])
    // What the API removes and adds again begins anew.
    assert.deepEqual(rendered([2, 3]), [1, 1])
    assert.deepEqual(rendered([0, 1, 2, 3]), [1, 1, 1, 1])
  })

  it('never leave a virtual server with less than half of its real servers, whatever is read and wanted', () => {
    const step = fc.record({
      read: fc.array(fc.tuple(fc.nat(20), fc.nat(60), fc.nat(2), fc.nat(20)), { minLength: 6, maxLength: 6 }),
      present: fc.array(fc.boolean(), { minLength: 6, maxLength: 6 }),
      afterMs: fc.constantFrom(250, 500, 2000, 7000),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const outliers = new Outliers()
        const all = Array.from({ length: 6 }, (_, index) => makeRealServer(`10.244.0.${100 + index}`))
        const totals = all.map(() => [0, 0, 0, 0])
        let nowMs = 0
        for (const { read, present, afterMs } of steps) {
          nowMs += afterMs
          const base = makeVirtualServer(
            '10.96.0.1',
            all.filter((_, index) => present[index]),
          )
          const check = (server: VirtualServer | undefined): void => {
            const usable = server?.realServers.filter(({ weight }) => weight > 0).length ?? 0
            const length = base.realServers.length
            assert.ok(usable >= Math.ceil(length / 2), `${usable} of ${length}`)
            assert.ok(length === 0 || usable > 0)
          }
          check(outliers.render(KEY, base, 'demo/web'))
          const counters = new Map<string, Counters>()
          for (const [index, [connections, packetsIn, packetsOut, active]] of read.entries()) {
            const total = totals[index] ?? []
            total[0] = (total[0] ?? 0) + connections
            total[1] = (total[1] ?? 0) + connections + packetsIn
            total[2] = (total[2] ?? 0) + (packetsOut === 2 ? connections * 2 : 0)
            counters.set(`10.244.0.${100 + index}:80`, {
              connections: total[0],
              packetsIn: total[1],
              packetsOut: total[2],
              bytesIn: 0,
              bytesOut: 0,
              active,
              open: active,
            })
          }
          outliers.observe(KEY, counters, nowMs)
          check(outliers.rendered(KEY))
          outliers.takeDecisions()
        }
      }),
    )
  })

  it('release all at once, and keep nothing of virtual servers at rest', () => {
    const model = modelOf({}, [0])
    model.run(26_000)
    assert.deepEqual(model.outliers.release(), [MODEL_KEY])
    model.render()
    assert.deepEqual([model.weights, model.outliers.count], [[1, 1, 1, 1], 0])
    assert.equal(kinds(model).at(-1), 'released')
    model.outliers.forget(MODEL_KEY)
    assert.equal(model.outliers.size, 0)
  })

  it('have no say where a Service does not want it', () => {
    const model = modelOf({}, [0])
    model.run(26_000)
    assert.equal(model.weights[0], 0)
    const server = model.outliers.render(MODEL_KEY, model.virtualServer, undefined)
    assert.deepEqual([server, model.outliers.size, [...model.outliers.current(0)]], [model.virtualServer, 0, []])
  })

  it('keep a limit of the Service that is lower', () => {
    const model = modelOf({}, [0])
    model.run(26_000)
    const limited = model.servers.map((server) => ({ ...server, upperThreshold: 1 }))
    const base = { ...model.virtualServer, realServers: limited }
    assert.deepEqual(
      model.outliers.render(MODEL_KEY, base, 'demo/web').realServers.map(({ upperThreshold }) => upperThreshold),
      [1, 1, 1, 1],
    )
  })
})

describe('acceptOutliers', () => {
  it('takes a weight of 0 and a lower limit as they are, and nothing else', () => {
    const wanted = makeVirtualServer(
      '10.96.0.1',
      [1, 2, 3, 4].map((last) => makeRealServer(`10.244.0.${last}`, 10)),
    )
    const [a, b, c] = wanted.realServers
    assert.ok(a && b && c)
    const live = {
      ...wanted,
      realServers: [
        { ...a, weight: 0 },
        { ...b, upperThreshold: 7 },
        { ...c, weight: 3 },
      ],
    }
    assert.deepEqual(
      acceptOutliers(wanted, live).realServers.map(({ weight, upperThreshold }) => [weight, upperThreshold]),
      [
        [0, 0],
        [10, 7],
        [10, 0],
        [10, 0],
      ],
    )
    assert.deepEqual(acceptOutliers(wanted, undefined), wanted)
  })
})
