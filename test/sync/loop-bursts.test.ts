/** How the loop spreads a burst of changes over its rounds, and which changes go first, counted and not timed. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { NodeContext } from '../../src/service/node-context.ts'
import type { Service } from '../../src/service/objects.ts'
import { DesiredFrontends } from '../../src/sync/desired-frontends.ts'
import { DirtyOwners } from '../../src/sync/dirty-owners.ts'
import { SyncLoop } from '../../src/sync/loop.ts'
import { Budget } from '../../src/values/budget.ts'
import { service } from '../support/objects.ts'

const BURST = 3000
/** Frontends without endpoints in a stretch, where the clock stands still. */
const STRETCH = 200

const NODE: NodeContext = {
  nodeName: 'node0',
  zone: '',
  nodeIps: {},
  localAddresses: new Set(),
  nodePortAddresses: { IPv4: [], IPv6: [] },
}
const serviceOf = (index: number): Service =>
  service({ name: `burst-${index}`, clusterIps: { IPv4: `10.97.${index >> 8}.${index & 255}` } })

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/**
 * A loop over a dataplane that records the keys that it was given before each pass. Each takes
 * `keyMs`, and each pass `passMs`.
 */
class World {
  readonly passes: string[][] = []
  /** For each pass, whether everything had been computed before it. */
  readonly complete: boolean[] = []
  #keys: string[] = []
  #nowMs = 0
  #isReady = false
  #onPass: () => void = () => undefined
  readonly loop: SyncLoop

  constructor(hasCheapPasses: boolean, { keyMs = 0, passMs = 0 } = {}) {
    this.loop = new SyncLoop({
      dataplane: {
        hasCheapPasses,
        frontend: (key) => {
          this.#nowMs += keyMs
          this.#keys.push(key)
        },
        pass: async () => {
          this.#nowMs += passMs
          this.passes.push(this.#keys)
          this.complete.push(this.#isReady)
          this.#keys = []
          this.#isReady = false
          return { applied: 0, failures: [], repairs: [], unreadable: [] }
        },
        nextDueMs: () => undefined,
      },
      desired: new DesiredFrontends(NODE, {}, new Budget({ now: () => this.#nowMs, nextTurn: turn })),
      // Longer than a test may take: the rest of a burst ignores it.
      minSyncPeriodMs: () => (this.passes.length === 0 ? 0 : 3_600_000),
      now: () => this.#nowMs,
      listener: {
        passBegins: () => undefined,
        frontendChanged: () => undefined,
        serviceProblems: () => undefined,
        frontendsReady: () => {
          this.#isReady = true
        },
        tablesPassed: () => this.#onPass(),
        passFailed: assert.ifError,
      },
    })
  }

  wait(ms: number): void {
    this.#nowMs += ms
  }

  /** Opens the loop and waits for its first pass. */
  async open(): Promise<void> {
    this.loop.open(true)
    await this.until(() => this.passes.length > 0)
  }

  put(...services: readonly Service[]): void {
    this.loop.apply(
      services.map((service) => ({
        kind: 'services',
        key: `${service.namespace}/${service.name}`,
        value: service,
      })),
    )
  }

  async until(isIt: () => boolean): Promise<void> {
    while (!isIt())
      await new Promise<void>((resolve) => {
        this.#onPass = resolve
      })
  }
}

const burst = Array.from({ length: BURST }, (_, index) => serviceOf(index))
const sizesOf = (passes: readonly (readonly string[])[]): readonly number[] => passes.map((keys) => keys.length)

describe('SyncLoop with a dataplane whose passes are cheap', () => {
  it('computes everything before its first pass', async () => {
    const world = new World(true)
    world.put(...burst)
    await world.open()
    assert.deepEqual(sizesOf(world.passes), [BURST])
    await world.loop.close()
  })

  it('applies a later burst in parts, and reports only before the last that all is computed', async () => {
    const world = new World(true)
    await world.open()
    world.put(...burst)
    world.loop.resume()
    await world.until(() => world.passes.flat().length === BURST)
    const sizes = sizesOf(world.passes).slice(1)
    assert.ok(Math.max(...sizes) <= STRETCH, `${sizes}`)
    assert.equal(new Set(world.passes.flat()).size, BURST)
    const complete = world.complete.slice(1)
    assert.deepEqual([complete.indexOf(true), complete.at(-1)], [complete.length - 1, true])
    await world.loop.close()
  })

  for (const keyMs of [0.1, 5])
    it(`computes for some milliseconds before each pass, and at least one Service, when each takes ${keyMs} ms`, async () => {
      const world = new World(true, { keyMs })
      await world.open()
      world.put(...burst.slice(0, 100))
      world.loop.resume()
      await world.until(() => world.passes.flat().length === 100)
      const sizes = sizesOf(world.passes).slice(1)
      assert.ok(Math.max(...sizes) <= Math.max(1, 2 / keyMs), `${sizes}`)
      assert.ok(sizes.length <= 100 / Math.max(1, 1.5 / keyMs), `${sizes}`)
      await world.loop.close()
    })

  for (const [pieces, [least, most], what] of [
    [
      [50],
      [2, 4],
      'reads what keeps arriving before it begins another round, but not for longer than some milliseconds',
    ],
    [[50, 50, 0], [2, 4], 'begins a round as soon as nothing arrives'],
  ] as const)
    it(what, async () => {
      const world = new World(true)
      await world.open()
      const before = world.passes.length
      let turns = 0
      // One piece arrives in each turn of the event loop, the last ones as large as the last that
      // is named, and 1 ms passes.
      for (let from = 0; world.passes.length === before; turns++) {
        assert.ok(turns < 20, 'no round came')
        const size = pieces[Math.min(turns, pieces.length - 1)] ?? 0
        if (size > 0) world.put(...burst.slice(from, from + size))
        from += size
        world.loop.resume()
        world.wait(1)
        await turn()
      }
      assert.ok(turns >= least && turns <= most, `${turns} turns before a round`)
      await world.loop.close()
    })

  it('applies each of many single changes after one turn', async () => {
    const world = new World(true)
    await world.open()
    for (let index = 0; index < 40; index++) {
      const before = world.passes.length
      world.put(serviceOf(index))
      world.loop.resume()
      await turn()
      await turn()
      assert.equal(world.passes.length, before + 1)
    }
    await world.loop.close()
  })

  it('applies a single change that comes during a burst with the next part, and the oldest of the burst too', async () => {
    const world = new World(true, { passMs: 1000 })
    await world.open()
    world.put(...burst)
    world.loop.resume()
    await world.until(() => world.passes.length > 6)
    const left = BURST - world.passes.flat().length
    assert.ok(left > BURST / 2, `${left}`)
    const before = world.passes.length
    world.put(service({ name: 'single' }))
    await world.until(() => world.passes.flat().includes('10.96.0.1:80/tcp'))
    assert.ok(world.passes.length - before <= 1, `it waited for ${world.passes.length - before} passes`)
    const done = new Set(world.passes.flat())
    for (let index = 0; index < 3; index++) assert.ok(done.has(`10.97.0.${index}:80/tcp`), `${index}`)
    await world.loop.close()
  })
})

it('SyncLoop with another dataplane applies a burst in one pass', async () => {
  const world = new World(false)
  await world.open()
  world.put(...burst)
  world.loop.resume()
  await world.until(() => world.passes.length > 1)
  assert.deepEqual(sizesOf(world.passes), [0, BURST])
  await world.loop.close()
})

/** Takes owners until none is left, or the limit is reached. */
function takeAll(take: () => string | undefined, limit = Number.POSITIVE_INFINITY): readonly string[] {
  const taken: string[] = []
  for (let owner = take(); owner !== undefined; owner = taken.length < limit ? take() : undefined) taken.push(owner)
  return taken
}

describe('DirtyOwners', () => {
  const dirtyOf = (...owners: readonly string[]): DirtyOwners<never> => {
    const dirty = new DirtyOwners<never>()
    for (const owner of owners) dirty.mark(owner)
    return dirty
  }

  it('gives each owner once, three of the newest and then the oldest, or in the order in which they became dirty', () => {
    const owners = ['a', 'b', 'c', 'a', 'd', 'e']
    const [one, other] = [dirtyOf(...owners), dirtyOf(...owners)]
    assert.deepEqual([one.size, ...one.keys()], [5, 'a', 'b', 'c', 'd', 'e'])
    assert.deepEqual(
      takeAll(() => one.takeFromBothEnds()),
      ['e', 'd', 'c', 'a', 'b'],
    )
    assert.deepEqual(
      takeAll(() => other.takeOldest()),
      ['a', 'b', 'c', 'd', 'e'],
    )
    assert.deepEqual([one.size, other.size], [0, 0])
  })

  it('gives an owner that was taken or deleted and became dirty again its new place', () => {
    const dirty = dirtyOf('a', 'b', 'c')
    dirty.delete('a')
    dirty.mark('a')
    assert.equal(dirty.takeFromBothEnds(), 'a')
    assert.equal(dirty.takeOldest(), 'b')
    dirty.mark('b')
    assert.deepEqual(
      takeAll(() => dirty.takeFromBothEnds()),
      ['b', 'c'],
    )
  })

  it('lets no owner wait forever, whatever the size of stretches, while newer ones keep coming', () => {
    for (const size of [1, 2, 3, 4, 5]) {
      const dirty = dirtyOf('a', 'b', 'c')
      let stretches = 0
      for (let isWaiting = true; isWaiting && stretches < 100; stretches++) {
        for (let index = 0; index < size; index++) dirty.mark(`new-${stretches}-${index}`)
        if (takeAll(() => dirty.takeFromBothEnds(), size).includes('c')) isWaiting = false
      }
      assert.ok(stretches <= 12, `${stretches} stretches of ${size}`)
    }
  })

  it('gives every owner exactly once while others come in between', () => {
    const dirty = new DirtyOwners<never>()
    const seen: string[] = []
    for (let round = 0; round < 300; round++) {
      for (let index = 0; index < 20; index++) dirty.mark(`${round}-${index}`)
      seen.push(...takeAll(() => dirty.takeFromBothEnds(), 15))
    }
    seen.push(...takeAll(() => dirty.takeFromBothEnds()))
    assert.equal(seen.length, 6000)
    assert.equal(new Set(seen).size, 6000)
  })
})

describe('SyncLoop with a dataplane that writes everything at once', () => {
  it('needs a pass or two for a burst of Services that are longer than a stretch', async () => {
    const world = new World(false, { keyMs: 1 })
    await world.open()
    // Four frontends of 1 ms each: two stretches.
    const externalIps = (index: number): string[] => [1, 2, 3].map((last) => `198.18.${index}.${last}`)
    world.put(...burst.slice(0, 50).map((service, index) => ({ ...service, externalIps: externalIps(index) })))
    world.loop.resume()
    await world.until(() => world.passes.flat().length === 200)
    assert.ok(world.passes.length <= 4, `${world.passes.length} passes`)
    await world.loop.close()
  })
})
