/**
 * How the room of a node is shared: by namespace, then by age. Services here are numbers;
 * `DesiredFrontends` has its own tests below.
 */
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
    services: () => this.#ages(),
    isNeeded: (owner) => this.needed.has(owner),
  })

  /** Changes a Service and computes everything that follows. Returns what was computed, itself included. */
  put(owner: string, frontends: readonly number[], since = 0): readonly string[] {
    this.change(owner, frontends, since)
    return this.settle(owner)
  }

  /** Changes a Service, which `settle` computes. */
  change(owner: string, frontends: readonly number[], since = 0): void {
    const before = this.services.get(owner)
    if (before?.since !== since) this.room.servicesChanged(owner.slice(0, owner.indexOf('/')))
    this.services.set(owner, { frontends, since })
  }

  remove(owner: string): readonly string[] {
    this.services.delete(owner)
    this.room.servicesChanged(owner.slice(0, owner.indexOf('/')))
    return this.settle(owner)
  }

  /** Computes these Services and those that the decisions name, until none is left. */
  settle(...first: readonly string[]): readonly string[] {
    const computed: string[] = []
    for (let due = first; due.length > 0; due = this.room.decide(Number.POSITIVE_INFINITY))
      for (const owner of due) {
        this.#compute(owner)
        computed.push(owner)
        assert.ok(computed.length < 1000, 'the decisions never end')
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

  *#ages() {
    for (const [owner, { since }] of this.services) yield { owner, since }
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

  it('lets no Services take turns while an older one of their namespace has more and less', () => {
    const world = new World()
    world.put('x/old', many(100), 1)
    world.put('x/young', many(300), 2)
    world.put('x/youngest', many(300), 3)
    world.computed.length = 0
    for (let round = 0; round < 100; round++) world.put('x/old', many(round % 2 === 0 ? 107 : 100), 1)
    const others = world.computed.filter((owner) => owner !== 'x/old').length
    assert.ok(others <= 2, `${others} times`)
  })

  it('lets no Service take turns while all want a little more and a little less than there is', () => {
    const world = new World()
    world.put('x/s', many(280), 1)
    world.put('a/s', many(40))
    world.computed.length = 0
    for (let round = 0; round < 100; round++) world.put('a/s', many(round % 2 === 0 ? 43 : 38))
    const large = world.computed.filter((owner) => owner === 'x/s').length
    assert.ok(large <= 2, `${large} times`)
    assert.equal(world.in('a'), 380)
    world.put('a/s', many(20))
    assert.equal(world.in('x'), 2800)
  })

  it('follows a changed limit', () => {
    const world = new World()
    world.put('a/s', many(100))
    world.put('b/s', many(200))
    world.limit = 1600
    world.settle(...world.room.decide(Number.POSITIVE_INFINITY))
    assert.ok(world.room.total <= 1600)
    assert.ok(Math.abs(world.in('a') - world.in('b')) <= 100)
    world.limit = 6400
    world.settle(...world.room.decide(Number.POSITIVE_INFINITY))
    assert.deepEqual([world.in('a'), world.in('b')], [1000, 2000])
    assert.equal(world.room.shortages.size, 0)
  })

  it('shares equally among namespaces that want more, whether one has all or many Services arrive at once', () => {
    const world = new World()
    world.put('x/s', many(307))
    const names = Array.from({ length: 60 }, (_, index) => `y/s${index}`)
    for (const name of names) world.change(name, many(3))
    world.settle(...names)
    assert.ok(world.in('x') <= LIMIT / 2 && world.in('x') >= LIMIT / 2 - SLACK, `${world.in('x')}`)
    assert.ok(world.in('y') <= LIMIT / 2 && world.in('y') >= LIMIT / 2 - SLACK, `${world.in('y')}`)
  })

  it('says that a Service is undecided from the refusal to the decision', () => {
    const world = new World()
    world.services.set('a/s', { frontends: many(100), since: 0 })
    assert.equal(world.room.allows('a/s', 1000), false)
    assert.equal(world.room.isUndecided('a/s'), true)
    world.room.settle('a/s', 0, { frontends: 100, wants: 1000, next: 10 })
    assert.equal(world.room.isUndecided('a/s'), true)
    assert.deepEqual(world.room.decide(0), ['a/s'])
    assert.equal(world.room.isUndecided('a/s'), false)
    assert.equal(world.room.allows('a/s', 1000), true)
  })

  it('counts what an undecided Service had as long as no decision takes it', () => {
    const world = new World()
    world.put('a/s', many(50))
    world.services.set('a/s', { frontends: many(50, 20), since: 0 })
    for (let total = 20; world.room.allows('a/s', total); total += 20);
    world.room.settle('a/s', 300, { frontends: 35, wants: 1000, next: 320 })
    assert.equal(world.room.total, 600)
  })

  it('makes no decision soon after one that took long, and looks through all Services at most once in each', () => {
    let walks = 0
    const owners = Array.from({ length: 20_000 }, (_, index) => `ns${index % 2000}/s${index}`)
    const room = new NodeRoom({
      limit: () => 3200,
      services: () => {
        walks++
        return owners.map((owner, since) => ({ owner, since }))
      },
      isNeeded: () => false,
    })
    const compute = (owner: string, cost: number): void => {
      if (room.allows(owner, cost)) room.settle(owner, cost, undefined)
      else room.settle(owner, 0, { frontends: 1, wants: cost, next: cost })
    }
    for (const owner of owners) compute(owner, 5)
    const again = room.decide(1000)
    assert.equal(walks, 1)
    assert.ok(room.total <= LIMIT + SLACK)
    for (const owner of again) compute(owner, 5)
    const dueMs = room.nextDecisionMs ?? 0
    assert.ok(dueMs > 1400 && dueMs < 3000, `${dueMs}`)
    assert.deepEqual(room.decide(dueMs - 1), [])
    room.decide(dueMs)
    assert.ok((room.nextDecisionMs ?? Number.POSITIVE_INFINITY) > dueMs)
    assert.equal(walks, 1)
  })

  it('keeps its laws whatever happens', () => {
    const namespace = fc.constantFrom('a', 'b', 'c', 'd')
    const step = fc.record({
      owner: fc.tuple(namespace, fc.nat(4)).map(([name, number]) => `${name}/s${number}`),
      count: fc.constantFrom(0, 1, 5, 20, 60, 300),
      cost: fc.constantFrom(5, 10, 50, 90),
      since: fc.nat(3),
      // With the next one, as changes that arrive together.
      isTogether: fc.boolean(),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const world = new World()
        const together: string[] = []
        for (const { owner, count, cost, since, isTogether } of steps) {
          if (count === 0) world.remove(owner)
          else world.change(owner, many(count, cost), since)
          together.push(owner)
          if (isTogether) continue
          world.settle(...together.splice(0))
          checkLaws(world)
        }
      }),
      { numRuns: 500 },
    )
  })
})

/** The dearest frontend of the laws. */
const DEAREST = 90

function checkLaws(world: World): void {
  let sum = 0
  const wantsIn = new Map(['a', 'b', 'c', 'd'].map((name) => [name, 0]))
  for (const [name, { frontends }] of world.services) {
    const own = frontends.reduce((total, one) => total + one, 0)
    const used = world.has.get(name) ?? 0
    assert.equal(world.room.shortages.has(name), used < own)
    sum += used
    const [space = ''] = name.split('/')
    wantsIn.set(space, (wantsIn.get(space) ?? 0) + own)
  }
  assert.equal(world.room.total, sum)
  assert.ok(sum <= LIMIT, `${sum} of ${LIMIT}`)
  // Nobody has less than a fair share, whatever the others want.
  const share = fairShare(Array.from(wantsIn.values()), LIMIT - SLACK)
  for (const [name, wants] of wantsIn) {
    const has = world.in(name)
    if (wants <= share) assert.equal(has, wants, `${name} wants ${wants} of ${share}`)
    else assert.ok(has > share - DEAREST, `${name} has ${has} of ${share}`)
  }
  // What is decided stays decided.
  const before = new Map(world.has)
  for (const owner of world.services.keys()) assert.deepEqual(world.settle(owner), [owner])
  assert.deepEqual(world.has, before)
}

/** Found by halving, which the program does otherwise. */
function fairShare(wants: readonly number[], room: number): number {
  if (wants.reduce((all, one) => all + one, 0) <= room) return Number.POSITIVE_INFINITY
  let [low, high] = [0, room]
  for (let step = 0; step < 60; step++) {
    const middle = (low + high) / 2
    if (wants.reduce((all, one) => all + Math.min(one, middle), 0) <= room) low = middle
    else high = middle
  }
  return low
}
