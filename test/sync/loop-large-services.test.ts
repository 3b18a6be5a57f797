/** How a Service with very many frontends is spread over the rounds of the loop, counted and not timed. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { NodeContext } from '../../src/service/node-context.ts'
import type { Service } from '../../src/service/objects.ts'
import { DesiredFrontends } from '../../src/sync/desired-frontends.ts'
import { SyncLoop } from '../../src/sync/loop.ts'
import { Budget } from '../../src/values/budget.ts'
import { newBudget } from '../../src/values/event-loop.ts'
import { service, servicePort } from '../support/objects.ts'

const CONTEXT: NodeContext = {
  nodeName: 'node0',
  zone: '',
  nodeIps: {},
  localAddresses: new Set(),
  nodePortAddresses: { IPv4: [], IPv6: [] },
}
const FRONTENDS = 5001
const large = (port: number): Service =>
  service({
    name: 'large',
    clusterIps: { IPv4: '10.96.9.9' },
    ports: [servicePort({ port })],
    externalIps: Array.from({ length: FRONTENDS - 1 }, (_, index) => `198.18.${index >> 8}.${index & 255}`),
  })

/** A loop over a dataplane that only records the keys that it was given before each pass. */
class World {
  readonly passes: string[][] = []
  #keys: string[] = []
  #onPass: () => void = () => undefined
  readonly loop: SyncLoop

  /** @param minSyncPeriodMs default: longer than a test may take, because large Services ignore it */
  constructor({ minSyncPeriodMs = 3_600_000, budget = newBudget(), hasCheapPasses = false } = {}) {
    this.loop = new SyncLoop({
      dataplane: {
        hasCheapPasses,
        frontend: (key) => void this.#keys.push(key),
        pass: async () => {
          this.passes.push(this.#keys)
          this.#keys = []
          return { applied: 0, failures: [], repairs: [], unreadable: [] }
        },
        nextDueMs: () => undefined,
      },
      desired: new DesiredFrontends(CONTEXT, {}, budget),
      minSyncPeriodMs: () => minSyncPeriodMs,
      now: () => performance.now(),
      listener: {
        passBegins: () => undefined,
        frontendChanged: () => undefined,
        serviceProblems: () => undefined,
        frontendsReady: () => undefined,
        tablesPassed: () => this.#onPass(),
        passFailed: assert.ifError,
      },
    })
  }

  get keyCount(): number {
    return this.passes.reduce((sum, keys) => sum + keys.length, 0)
  }

  put(service: Service): void {
    this.loop.apply([{ kind: 'services', key: `${service.namespace}/${service.name}`, value: service }])
  }

  /** Resolves after the first pass that `isIt`. */
  async pass(isIt: () => boolean): Promise<void> {
    while (!isIt())
      await new Promise<void>((resolve) => {
        this.#onPass = resolve
      })
  }
}

test('SyncLoop computes all frontends of all Services before its first pass', async () => {
  const world = new World()
  world.put(large(80))
  world.loop.open(true)
  await world.pass(() => world.passes.length > 0)
  assert.equal(world.passes[0]?.length, FRONTENDS)
  await world.loop.close()
})

test('SyncLoop computes a bounded part of a large Service for each later pass, and other changes for the next pass', async () => {
  const world = new World()
  world.loop.open(true)
  world.loop.resume()
  await world.pass(() => world.passes.length > 0)
  world.put(large(80))
  world.loop.resume()
  await world.pass(() => world.keyCount > 1000)
  assert.ok(world.keyCount < FRONTENDS / 2)
  world.put(service({ clusterIps: { IPv4: '10.96.0.1' } }))
  const before = world.passes.length
  await world.pass(() => world.passes.flat().includes('10.96.0.1:80/tcp'))
  assert.ok(world.passes.length - before <= 2, `it waited for ${world.passes.length - before} passes`)
  await world.pass(() => world.keyCount === FRONTENDS + 1)
  const sizes = world.passes.slice(1).map((keys) => keys.length)
  assert.ok(Math.max(...sizes) <= 450, `${sizes}`)
  await world.loop.close()
})

test('SyncLoop makes passes although a large Service changes all the time', async () => {
  const world = new World({ minSyncPeriodMs: 0 })
  world.put(large(80))
  world.loop.open(true)
  let port = 81
  const changing = setInterval(() => world.put(large(port++)), 1)
  try {
    await world.pass(() => world.passes.length > 10)
  } finally {
    clearInterval(changing)
  }
  await world.loop.close()
})

test('SyncLoop gives other Services a stretch of every round, although a large Service changes all the time', async () => {
  // Each look at the clock takes 50 µs.
  let looks = 0
  const budget = new Budget({ now: () => looks++ / 20, nextTurn: () => turn() })
  const world = new World({ minSyncPeriodMs: 0, budget, hasCheapPasses: true })
  world.put(large(80))
  world.loop.open(true)
  await world.pass(() => world.keyCount >= FRONTENDS)
  const others = Array.from({ length: 300 }, (_, index) =>
    service({ name: `other-${index}`, clusterIps: { IPv4: `10.97.${index >> 8}.${index & 255}` } }),
  )
  const before = world.passes.length
  for (const other of others) world.put(other)
  const isOther = (key: string): boolean => key.startsWith('10.97.')
  for (let port = 81; world.passes.flat().filter(isOther).length < others.length; port++) {
    world.put(large(port))
    await turn()
    assert.ok(port < 100_000, 'others wait forever')
  }
  // The first change of the large Service was not known to be long.
  const counts = world.passes.slice(before + 1, -1).map((keys) => keys.filter(isOther).length)
  assert.ok(counts.length > 5)
  const [most, least] = [Math.max(...counts), Math.min(...counts)]
  assert.ok(least > 5 && least >= most - 1, `${counts}`)
  await world.loop.close()
})
