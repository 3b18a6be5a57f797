/** How the room of a node is shared: by namespace, then by age. Services here are numbers; `DesiredFrontends` has its own tests below. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { NodeRoom } from '../../src/sync/node-room.ts'

const LIMIT = 3200
/** A thirty-second. */
const SLACK = 100

interface Service {
  readonly since: number
  /** What each frontend costs. */
  readonly frontends: readonly number[]
}

/** Services that are computed as the room decides, as DesiredFrontends does it. */
class World {
  limit = LIMIT
  readonly services = new Map<string, Service>()
  readonly needed = new Set<string>()
  readonly has = new Map<string, number>()
  /** Services that were computed, in order. */
  readonly computed: string[] = []
  largest = 0
  readonly room = new NodeRoom({
    limit: () => this.limit,
    servicesIn: (namespace) => this.#servicesIn(namespace),
    isNeeded: (owner) => this.needed.has(owner),
  })

  /** Changes a Service and computes everything that follows. Returns what was computed, itself included. */
  put(owner: string, frontends: readonly number[], since = 0): readonly string[] {
    const before = this.services.get(owner)
    if (before?.since !== since) this.room.servicesChanged(owner.slice(0, owner.indexOf('/')))
    this.services.set(owner, { frontends, since })
    return this.settle(owner)
  }

  remove(owner: string): readonly string[] {
    this.services.delete(owner)
    this.room.servicesChanged(owner.slice(0, owner.indexOf('/')))
    return this.settle(owner)
  }

  settle(...first: readonly string[]): readonly string[] {
    const computed: string[] = []
    const queue = new Set(first)
    for (const owner of queue) {
      queue.delete(owner)
      this.#compute(owner)
      computed.push(owner)
      assert.ok(computed.length < 1000, 'the decisions never end')
      for (const again of this.room.decide()) queue.add(again)
    }
    this.computed.push(...computed)
    return computed
  }

  #compute(owner: string): void {
    const frontends = this.services.get(owner)?.frontends ?? []
    let used = 0
    let index = 0
    for (const cost of frontends) {
      if (!this.room.allows(owner, used + cost)) break
      used += cost
      index++
      this.largest = Math.max(this.largest, this.room.total)
    }
    const left = frontends.slice(index)
    const wants = frontends.reduce((sum, cost) => sum + cost, 0)
    const shortage = left.length === 0 ? undefined : { frontends: left.length, wants, next: used + (left[0] ?? 0) }
    this.room.settle(owner, used, shortage)
    if (this.services.has(owner)) this.has.set(owner, used)
    else this.has.delete(owner)
  }

  *#servicesIn(namespace: string) {
    for (const [owner, { since }] of this.services) if (owner.startsWith(`${namespace}/`)) yield { owner, since }
  }

  in(namespace: string): number {
    let sum = 0
    for (const [owner, used] of this.has) if (owner.startsWith(`${namespace}/`)) sum += used
    return sum
  }
}

const many = (count: number, cost = 10): readonly number[] => Array.from({ length: count }, () => cost)

describe('NodeRoom', () => {
  it('gives every Service what it wants while there is room', () => {
    const world = new World()
    for (let index = 0; index < 30; index++) {
      assert.deepEqual(world.put(`a/s${index}`, many(10), index), [`a/s${index}`])
      assert.equal(world.has.get(`a/s${index}`), 100)
    }
    assert.equal(world.room.shortages.size, 0)
    // The last of the room is for those who need it, one more step later.
    world.put('b/late', many(19))
    assert.equal(world.has.get('b/late'), 190)
    assert.equal(world.room.total, 3190)
  })

  it('cuts the namespace that grows, and no other', () => {
    const world = new World()
    for (let index = 0; index < 5; index++) world.put(`a/s${index}`, many(10))
    for (let index = 0; index < 5; index++) world.put(`b/s${index}`, many(20))
    const computed = world.put('hostile/big', many(1000))
    assert.ok(
      computed.every((owner) => owner === 'hostile/big'),
      computed.join(),
    )
    assert.deepEqual([world.in('a'), world.in('b')], [500, 1000])
    const before = world.in('hostile')
    assert.ok(before >= LIMIT - 1500 - 2 * SLACK && before <= LIMIT - 1500, `${before}`)
    // Services of others that come later get their room at once, and it is taken from the large namespace alone.
    for (let index = 5; index < 10; index++) {
      const others = world.put(`a/s${index}`, many(10))
      assert.ok(
        others.every((owner) => owner === `a/s${index}` || owner === 'hostile/big'),
        others.join(),
      )
      assert.equal(world.has.get(`a/s${index}`), 100)
    }
    assert.deepEqual([world.in('a'), world.in('b')], [1000, 1000])
    assert.ok(world.in('hostile') <= LIMIT - 2000 && world.in('hostile') >= LIMIT - 2000 - 3 * SLACK)
    assert.ok(world.largest <= LIMIT + SLACK, `${world.largest}`)
  })

  it('shares what small namespaces leave equally among the large ones, whoever was first', () => {
    for (const order of [
      ['x', 'y', 'small'],
      ['small', 'y', 'x'],
      ['y', 'small', 'x'],
    ]) {
      const world = new World()
      for (const namespace of order) world.put(`${namespace}/s`, many(namespace === 'small' ? 20 : 1000))
      assert.equal(world.in('small'), 200)
      const [x, y] = [world.in('x'), world.in('y')]
      assert.ok(Math.abs(x - y) <= 2 * SLACK, `${order}: ${x} and ${y}`)
      assert.ok(x + y >= 3000 - 3 * SLACK && x + y <= 3000, `${x + y}`)
    }
  })

  it('serves the oldest Services of a namespace first, whichever were there before', () => {
    const world = new World()
    world.put('other/s', many(100))
    world.put('a/young', many(150), 3)
    world.put('a/middle', many(100), 2)
    world.put('a/old', many(100), 1)
    assert.equal(world.has.get('a/old'), 1000)
    assert.ok((world.has.get('a/middle') ?? 0) >= 900, `${world.has.get('a/middle')}`)
    assert.ok((world.has.get('a/young') ?? 0) <= 200)
    assert.equal(world.in('other'), 1000)
  })

  it('gives what becomes free to those who lack it', () => {
    const world = new World()
    world.put('a/s', many(250), 1)
    world.put('b/s', many(1000), 1)
    world.put('b/young', many(10), 2)
    assert.equal(world.has.get('b/young'), 0)
    world.remove('a/s')
    assert.ok(world.in('b') > LIMIT - 3 * SLACK, `${world.in('b')}`)
    world.put('b/s', many(20), 1)
    assert.equal(world.has.get('b/young'), 100)
    assert.equal(world.room.shortages.size, 0)
  })

  it('has what it needs of the Services that the cluster needs first', () => {
    const world = new World()
    world.needed.add('kube-system/dns')
    world.put('kube-system/other', many(1000), 1)
    world.put('a/s', many(1000), 1)
    world.put('kube-system/dns', many(30), 2)
    assert.equal(world.has.get('kube-system/dns'), 300)
  })

  it('does not compute large Services again for each change of a small one', () => {
    const world = new World()
    for (let index = 0; index < 20; index++) world.put(`a/s${index}`, many(10))
    world.put('hostile/big', many(1000, 7))
    world.put('hostile2/big', many(1000, 7))
    world.computed.length = 0
    for (let round = 0; round < 200; round++) world.put(`a/s${round % 20}`, many(10 + (round % 3) - 1))
    const again = world.computed.filter((owner) => owner.startsWith('hostile')).length
    assert.ok(again <= 4, `${again} times`)
  })

  it('follows a changed limit', () => {
    const world = new World()
    world.put('a/s', many(100))
    world.put('b/s', many(200))
    world.limit = 1600
    world.settle(...world.room.decide())
    assert.ok(world.room.total <= 1600)
    assert.ok(Math.abs(world.in('a') - world.in('b')) <= 100)
    world.limit = 6400
    world.settle(...world.room.decide())
    assert.deepEqual([world.in('a'), world.in('b')], [1000, 2000])
    assert.equal(world.room.shortages.size, 0)
  })

  it('keeps its laws whatever happens', () => {
    const namespace = fc.constantFrom('a', 'b', 'c', 'd')
    const step = fc.record({
      owner: fc.tuple(namespace, fc.nat(4)).map(([name, number]) => `${name}/s${number}`),
      count: fc.constantFrom(0, 1, 5, 20, 60, 300),
      cost: fc.constantFrom(5, 10, 50, 90),
      since: fc.nat(3),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const world = new World()
        for (const { owner, count, cost, since } of steps) {
          if (count === 0) world.remove(owner)
          else world.put(owner, many(count, cost), since)
          let [sum, wants] = [0, 0]
          const wantsIn = new Map<string, number>()
          for (const [name, { frontends }] of world.services) {
            const own = frontends.reduce((total, one) => total + one, 0)
            const used = world.has.get(name) ?? 0
            assert.equal(world.room.shortages.has(name), used < own)
            sum += used
            wants += own
            const [space = ''] = name.split('/')
            wantsIn.set(space, (wantsIn.get(space) ?? 0) + own)
          }
          assert.equal(world.room.total, sum)
          assert.ok(sum <= LIMIT + SLACK, `${sum} of ${LIMIT}`)
          // Nothing is left out while all fits.
          if (wants <= LIMIT) assert.equal(sum, wants)
          // A namespace within an equal part of the room has all that it wants.
          for (const [space, own] of wantsIn)
            if (own <= (LIMIT - SLACK) / 4 - 90) assert.equal(world.in(space), own, `${space} wants ${own}`)
        }
      }),
      { numRuns: 300 },
    )
  })
})
