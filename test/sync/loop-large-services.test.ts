/** How a Service with very many frontends is spread over the rounds of the loop, counted and not timed. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { NodeContext } from '../../src/service/node-context.ts'
import type { Service } from '../../src/service/objects.ts'
import { DesiredFrontends } from '../../src/sync/desired-frontends.ts'
import { SyncLoop } from '../../src/sync/loop.ts'
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
  #minSyncPeriodMs: number
  readonly loop = new SyncLoop({
    dataplane: {
      frontend: (key) => void this.#keys.push(key),
      pass: async () => {
        this.passes.push(this.#keys)
        this.#keys = []
        return { applied: 0, failures: [], repairs: [], unreadable: [] }
      },
      nextDueMs: () => undefined,
    },
    desired: new DesiredFrontends(CONTEXT),
    minSyncPeriodMs: () => this.#minSyncPeriodMs,
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

  /** @param minSyncPeriodMs default: longer than a test may take, because large Services ignore it */
  constructor(minSyncPeriodMs = 3_600_000) {
    this.#minSyncPeriodMs = minSyncPeriodMs
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
  const keyCount = (): number => world.passes.reduce((sum, keys) => sum + keys.length, 0)
  await world.pass(() => keyCount() > 1000)
  assert.ok(keyCount() < FRONTENDS / 2)
  world.put(service({ clusterIps: { IPv4: '10.96.0.1' } }))
  const before = world.passes.length
  await world.pass(() => world.passes.flat().includes('10.96.0.1:80/tcp'))
  assert.ok(world.passes.length - before <= 2, `it waited for ${world.passes.length - before} passes`)
  await world.pass(() => keyCount() === FRONTENDS + 1)
  const sizes = world.passes.slice(1).map((keys) => keys.length)
  assert.ok(Math.max(...sizes) <= 450, `${sizes}`)
  await world.loop.close()
})

test('SyncLoop makes passes although a large Service changes all the time', async () => {
  const world = new World(0)
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

test('SyncLoop spends at most half of its time on a large Service that changes all the time', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let [nowMs, workMs] = [0, 0]
  let keys: string[] = []
  const passes: string[][] = []
  const loop = new SyncLoop({
    dataplane: {
      frontend: (key) => void keys.push(key),
      pass: async () => {
        // Ten frontends take a millisecond.
        nowMs += keys.length / 10
        workMs += keys.length / 10
        passes.push(keys)
        keys = []
        return { applied: 0, failures: [], repairs: [], unreadable: [] }
      },
      nextDueMs: () => undefined,
    },
    desired: new DesiredFrontends(CONTEXT),
    minSyncPeriodMs: () => 0,
    now: () => nowMs,
    listener: {
      passBegins: () => undefined,
      frontendChanged: () => undefined,
      serviceProblems: () => undefined,
      frontendsReady: () => undefined,
      tablesPassed: () => undefined,
      passFailed: assert.ifError,
    },
  })
  t.after(() => loop.close())
  const pass = async (milliseconds: number): Promise<void> => {
    nowMs += milliseconds
    t.mock.timers.tick(milliseconds)
    for (let turns = 0; turns < 10; turns++) await turn()
  }
  loop.open(true)
  await pass(1)
  const [beganMs, workBeforeMs] = [nowMs, workMs]
  for (let port = 80; nowMs < beganMs + 1000; port++) {
    const service = { ...large(port), externalIps: large(port).externalIps.slice(0, 150) }
    loop.apply([{ kind: 'services', key: 'demo/large', value: service }])
    await pass(1)
  }
  const share = (workMs - workBeforeMs) / (nowMs - beganMs)
  assert.ok(share > 0.3 && share < 0.52, `${share}`)
  // Another Service does not wait for the rest of the large one.
  loop.apply([{ kind: 'services', key: 'demo/web', value: service({ clusterIps: { IPv4: '10.96.0.1' } }) }])
  await pass(0)
  assert.ok(passes.at(-1)?.includes('10.96.0.1:80/tcp'))
})
