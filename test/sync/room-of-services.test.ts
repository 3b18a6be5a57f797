/**
 * The room of the node through DesiredFrontends: who is cut when a namespace grows without measure,
 * who is not, and what is reported.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import type { FrontendSettings } from '../../src/service/contribution.ts'
import { CHAIN_COSTS, VIRTUAL_SERVER_COSTS } from '../../src/service/costs.ts'
import type { Frontend } from '../../src/service/frontends.ts'
import type { NodeContext } from '../../src/service/node-context.ts'
import { DesiredFrontends, type FrontendListener } from '../../src/sync/desired-frontends.ts'
import type { Problem } from '../../src/values/errors.ts'
import { countedBudget } from '../support/budgets.ts'
import { endpoint, service, servicePort, slice, slicePort } from '../support/objects.ts'

const NODE: NodeContext = {
  nodeName: 'node0',
  zone: '',
  nodeIps: {},
  localAddresses: new Set(),
  nodePortAddresses: { IPv4: [], IPv6: [] },
}
const LIMIT = 32_000
const SLACK = LIMIT / 32
/** As a stretch has. */
const ITEMS = 200

interface Shape {
  readonly ports: number
  readonly endpoints: number
  readonly createdAtMs?: number
}

class World {
  limit = LIMIT
  readonly desired: DesiredFrontends
  readonly #budget = countedBudget(ITEMS)
  readonly frontends = new Map<string, Frontend>()
  readonly problems = new Map<string, readonly Problem[]>()
  #addresses = 0

  constructor(settings: Partial<FrontendSettings> = {}) {
    const limits = { maxFrontends: 10_000, maxCost: () => this.limit }
    this.desired = new DesiredFrontends(NODE, { ...limits, ...settings }, this.#budget)
  }

  readonly listener: FrontendListener = {
    frontend: (key: string, frontend: Frontend | undefined): void => {
      if (frontend === undefined) this.frontends.delete(key)
      else this.frontends.set(key, frontend)
    },
    problems: (owner: string, problems: readonly Problem[]): void => void this.problems.set(owner, problems),
  }

  put(owner: string, { ports, endpoints, createdAtMs = 0 }: Shape): void {
    const [namespace = '', name = ''] = owner.split('/')
    const all = Array.from({ length: ports }, (_, index) => ({ name: `p${index}`, port: index + 1 }))
    const known = this.desired.objects.service(owner)
    const value = service({
      namespace,
      name,
      createdAtMs,
      clusterIps: known?.clusterIps ?? { IPv4: `10.96.${this.#addresses >> 8}.${this.#addresses++ & 255}` },
      ports: all.map((port) => servicePort(port)),
    })
    const ownSlice = slice({
      namespace,
      serviceName: name,
      ports: all.map(({ name: port }) => slicePort({ name: port, port: 8080 })),
      endpoints: Array.from({ length: endpoints }, (_, index) =>
        endpoint({ address: `10.1.${index >> 8}.${index & 255}`, nodeName: 'node1' }),
      ),
    })
    this.desired.apply({ kind: 'services', key: owner, value })
    this.desired.apply({ kind: 'endpointslices', key: `${owner}-1`, value: ownSlice })
  }

  remove(owner: string): void {
    this.desired.apply({ kind: 'services', key: owner, value: undefined })
  }

  /** One round, as the loop makes it. */
  round(): void {
    this.#budget.begin()
    this.desired.flush(this.listener)
    this.#budget.begin()
    this.desired.resume(this.listener)
  }

  /** Rounds until nothing is left to do. */
  finish(): number {
    let rounds = 0
    for (; this.desired.isDirty; rounds++) {
      assert.ok(rounds < 5000, 'it never ends')
      this.round()
    }
    return rounds
  }

  /** Frontends of a namespace or a Service, and their real servers. */
  has(start: string): readonly [frontends: number, realServers: number] {
    let [frontends, realServers] = [0, 0]
    for (const { servicePort, selection } of this.frontends.values()) {
      if (!servicePort.name.startsWith(start)) continue
      frontends++
      realServers += selection.endpoints.length
    }
    return [frontends, realServers]
  }
}

/** Two namespaces with ordinary Services: 50 each. */
function ordinary(world: World): void {
  for (const namespace of ['a', 'b'])
    for (let index = 0; index < 50; index++) world.put(`${namespace}/web-${index}`, { ports: 2, endpoints: 5 })
}
/** 100,000 real servers each, in 600 KiB of JSON. */
const HOSTILE: Shape = { ports: 1000, endpoints: 100 }

describe('DesiredFrontends beyond the room of the node', () => {
  for (const order of ['before', 'after'])
    it(`serves every other namespace completely, with Services that arrive ${order} those of the one that is too large`, () => {
      const world = new World()
      if (order === 'after') for (const name of ['x/one', 'x/two']) world.put(name, HOSTILE)
      ordinary(world)
      if (order === 'before') {
        world.finish()
        for (const name of ['x/one', 'x/two']) world.put(name, HOSTILE)
      }
      world.finish()
      assert.deepEqual(
        [world.has('a/'), world.has('b/')],
        [
          [100, 500],
          [100, 500],
        ],
      )
      const [, hostile] = world.has('x/')
      assert.ok(hostile <= LIMIT - 1000 && hostile >= LIMIT - 1000 - 3 * SLACK, `${hostile}`)
      // The older one by name has it all, but for what needed no decision.
      assert.ok(world.has('x/two')[1] <= SLACK, `${world.has('x/two')}`)
      assert.equal(world.desired.room.total, hostile + 1000)
      assert.ok(world.desired.room.total <= LIMIT)
    })

  it('serves a new Service of another namespace within two rounds, although all room is used', () => {
    const world = new World()
    ordinary(world)
    world.put('x/one', HOSTILE)
    world.finish()
    for (let index = 50; index < 500; index++) {
      world.put(`a/web-${index}`, { ports: 2, endpoints: 5 })
      world.round()
      // Each fourth Service to be computed is the one that waits longest.
      if (world.has(`a/web-${index}:`)[0] === 0) world.round()
      assert.deepEqual(world.has(`a/web-${index}:`), [2, 10])
      assert.ok(world.desired.room.total <= LIMIT + SLACK, `${world.desired.room.total}`)
    }
    world.finish()
    assert.equal(world.has('a/')[0], 1000)
    assert.ok(world.desired.room.total <= LIMIT)
  })

  it('takes nothing from older Services of the same namespace, and writes little that it takes back', () => {
    const world = new World()
    const removed: string[] = []
    const { frontend } = world.listener
    world.listener.frontend = (key, changed) => {
      if (changed === undefined) removed.push(key)
      frontend(key, changed)
    }
    for (let index = 0; index < 20; index++) world.put(`x/small-${index}`, { ports: 1, endpoints: 3 })
    world.finish()
    for (const name of ['x/one', 'x/two']) world.put(name, { ...HOSTILE, createdAtMs: 5 })
    world.finish()
    assert.equal(world.has('x/small')[0], 20)
    assert.ok(world.has('x/one')[0] > 300)
    // A thirty-second of the room needs no decision, and the younger Service was judged first.
    assert.ok(removed.length < 80, removed.join())
  })

  it('takes nothing from a Service that grows by much at once, and reports nothing, while there is room', () => {
    const world = new World()
    const removed: string[] = []
    const { frontend, problems } = world.listener
    let reported = 0
    world.listener.frontend = (key, changed) => {
      if (changed === undefined) removed.push(key)
      frontend(key, changed)
    }
    world.listener.problems = (owner, all) => {
      reported += all.length
      problems(owner, all)
    }
    world.put('a/web', { ports: 300, endpoints: 5 })
    world.finish()
    world.put('a/web', { ports: 300, endpoints: 100 })
    world.finish()
    assert.deepEqual(world.has('a/web'), [300, 30_000])
    assert.deepEqual([removed, reported], [[], 0])
    // What it no longer has is gone all the same.
    world.put('a/web', { ports: 10, endpoints: 1000 })
    world.finish()
    assert.deepEqual(world.has('a/web'), [10, 10_000])
    world.remove('a/web')
    world.finish()
    assert.deepEqual([world.frontends.size, world.desired.room.total], [0, 0])
  })

  it('keeps nothing of a Service that is deleted, or wants less, while it is undecided', () => {
    const world = new World()
    for (const change of [() => world.remove('x/one'), () => world.put('x/one', { ports: 2, endpoints: 1 })]) {
      // The older one waits for what the younger one has.
      world.put('x/young', { ports: 300, endpoints: 100, createdAtMs: 1 })
      world.finish()
      world.put('x/one', HOSTILE)
      while (world.has('x/one')[0] === 0 || !world.desired.room.isUndecided('x/one')) world.round()
      change()
      world.finish()
      const left = world.desired.objects.service('x/one') === undefined ? 0 : 2
      assert.deepEqual([world.has('x/one')[0], world.has('x/young')[0]], [left, 300])
      assert.equal(world.desired.room.total, 30_000 + 5 * left)
    }
  })

  it('keeps the frontends of an older Service that grows in a namespace with its share, and takes them from a younger one', () => {
    const world = new World()
    world.put('x/old', { ports: 100, endpoints: 100 })
    world.put('x/young', { ...HOSTILE, createdAtMs: 1 })
    world.finish()
    const removed: string[] = []
    const { frontend } = world.listener
    world.listener.frontend = (key, changed) => {
      if (changed === undefined) removed.push(key)
      frontend(key, changed)
    }
    const old = new Set(world.desired.claimedBy('x/old'))
    world.put('x/old', { ports: 100, endpoints: 150 })
    world.finish()
    assert.deepEqual(world.has('x/old'), [100, 15_000])
    assert.ok(removed.length > 40 && !removed.some((key) => old.has(key)), removed.join())
  })

  it('names the Service, and says how many frontends are left out, until they are served', () => {
    const world = new World()
    world.put('x/one', HOSTILE)
    world.finish()
    world.put('x/young', { ports: 3, endpoints: 10, createdAtMs: 1 })
    world.finish()
    const [served] = world.has('x/one')
    const [problem] = world.problems.get('x/one') ?? []
    assert.deepEqual([problem?.code, problem?.subject], ['no-room', 'service x/one'])
    assert.match(
      problem?.message ?? '',
      new RegExp(`^${1000 - served} of 1000 frontends are left out: .* 32000 real servers`),
    )
    assert.match(world.problems.get('x/young')?.[0]?.message ?? '', /^3 of 3 frontends are left out/)
    const { room } = world.desired
    assert.deepEqual(room.leftOut, { services: 2, frontends: 1003 - served })
    world.put('x/one', { ports: 10, endpoints: 100 })
    world.finish()
    assert.deepEqual(
      [world.has('x/one'), world.has('x/young')],
      [
        [10, 1000],
        [3, 30],
      ],
    )
    assert.deepEqual([world.problems.get('x/one'), world.problems.get('x/young')], [[], []])
    assert.deepEqual(room.leftOut, { services: 0, frontends: 0 })
  })

  it('gives the room of a deleted Service to others without another change', () => {
    const world = new World()
    for (const name of ['x/one', 'y/one', 'y/two']) world.put(name, HOSTILE)
    world.finish()
    const [before] = world.has('y/')
    world.remove('x/one')
    world.finish()
    assert.ok(world.has('y/')[0] > before + 100, `${world.has('y/')} after ${before}`)
    world.remove('y/one')
    world.finish()
    assert.ok(world.has('y/two')[1] > LIMIT - 3 * SLACK)
  })

  it('serves the API server and the DNS of the cluster in any case', () => {
    const world = new World()
    for (const name of ['default/large', 'kube-system/large']) world.put(name, HOSTILE)
    world.finish()
    world.put('default/kubernetes', { ports: 1, endpoints: 3, createdAtMs: 9 })
    world.put('kube-system/dns', { ports: 53, endpoints: 400, createdAtMs: 9 })
    world.finish()
    assert.deepEqual(
      [world.has('default/kubernetes'), world.has('kube-system/dns')],
      [
        [1, 3],
        [53, 21_200],
      ],
    )
  })

  it('has an end for each change, and bounded work for a small one', () => {
    const world = new World()
    ordinary(world)
    for (const name of ['x/one', 'y/one', 'z/one']) world.put(name, HOSTILE)
    world.finish()
    let rounds = 0
    for (let change = 0; change < 100; change++) {
      world.put(`a/web-${change % 50}`, { ports: 2, endpoints: 4 + (change % 3) })
      rounds += world.finish()
    }
    assert.ok(rounds < 150, `${rounds} rounds for 100 changes`)
  })

  it('counts endpoints of a port once in iptables mode, and each as five', () => {
    for (const [costs, expected] of [
      [VIRTUAL_SERVER_COSTS, 2 * 10 * 100],
      [CHAIN_COSTS, 10 * 100 * 5 + 10 * 5],
    ] as const) {
      const world = new World({ costs })
      world.put('a/web', { ports: 10, endpoints: 100 })
      const known = world.desired.objects.service('a/web')
      assert.ok(known)
      const change = { ...known, externalIps: ['198.18.0.1'] }
      world.desired.apply({ kind: 'services', key: 'a/web', value: change })
      world.finish()
      assert.equal(world.frontends.size, 20)
      assert.equal(world.desired.room.total, expected)
    }
  })

  it('follows a limit that changes', () => {
    const world = new World()
    ordinary(world)
    for (const name of ['x/one', 'y/one']) world.put(name, { ports: 100, endpoints: 100 })
    world.finish()
    assert.equal(world.desired.room.total, 21_000)
    world.limit = 11_000
    world.round()
    world.finish()
    assert.ok(world.desired.room.total <= 11_000)
    assert.deepEqual(
      [world.has('a/'), world.has('b/')],
      [
        [100, 500],
        [100, 500],
      ],
    )
    world.limit = LIMIT
    world.round()
    world.finish()
    assert.equal(world.desired.room.total, 21_000)
  })

  it('counts what there is, whatever happens in any order', () => {
    const owner = fc.constantFrom('a/one', 'a/two', 'b/one', 'c/one')
    const shape = fc.record({
      ports: fc.constantFrom(1, 20, 300),
      endpoints: fc.constantFrom(0, 3, 90),
      createdAtMs: fc.nat(2),
    })
    const step = fc.record({ owner, shape: fc.option(shape, { nil: undefined }), rounds: fc.nat(3) })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
        const world = new World()
        for (const { owner: name, shape: wanted, rounds } of steps) {
          if (wanted === undefined) world.remove(name)
          else world.put(name, wanted)
          for (let round = 0; round < rounds; round++) world.round()
        }
        world.finish()
        let cost = 0
        for (const { selection } of world.frontends.values()) cost += Math.max(5, selection.endpoints.length)
        assert.equal(world.desired.room.total, cost)
        assert.ok(cost <= LIMIT)
        for (const [name, problems] of world.problems)
          assert.equal(
            world.desired.room.shortages.has(name),
            problems.some(({ code }) => code === 'no-room'),
            name,
          )
      }),
      { numRuns: 60 },
    )
  })
})
