/**
 * Endpoints that do not answer, on a kernel and its estimator: they get no new connections while
 * others answer, and get them again when they do. Nothing happens where an endpoint refuses, is slow,
 * or where nothing answers at all.
 */
import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'
import { deadline, eventually, until } from '../support/deadline.ts'
import { rowsOfRun } from '../support/extent.ts'
import { ENDPOINTS, OutlierNode, VIRTUAL_SERVER } from '../support/outlier-node.ts'
import { needs } from './needs.ts'

const [DEAD] = ENDPOINTS
const ON = { 'outlier-detection': 'true' }
/** The kernel counts every two seconds; the clients of a slow kernel are slower too. */
const SOON_MS = 30_000
const SUSPECTED = 'An endpoint does not answer and gets no new connections'

describe('an endpoint that does not answer', needs(), () => {
  let world: OutlierNode
  let daemon: ChildProcess
  before(async () => {
    world = await OutlierNode.start()
    world.write(ON)
    daemon = world.bench.start()
    await world.isServed()
    world.connectAllTheTime(10, 8)
  })
  after(() => world.stop())

  it('gets no new connection soon after its last answer, and keeps those it has', async () => {
    const held = await Promise.all(Array.from({ length: 8 }, () => world.hold()))
    const owners = await Promise.all(held.map(({ ask }) => ask()))
    assert.ok(owners.includes(DEAD), owners.join(' '))
    // Enough copies to know how many answers are usual.
    await world.gotConnections(ENDPOINTS, 200)
    world.kill(DEAD)
    const diedMs = performance.now()
    let [lastMs, open] = [diedMs, (await world.seen()).get(DEAD)?.open ?? 0]
    await eventually(
      async () => {
        const { weight = 1, open: now = 0 } = (await world.seen()).get(DEAD) ?? {}
        if (now > open) lastMs = performance.now()
        open = now
        assert.equal(weight, 0)
      },
      SOON_MS,
      20,
    )
    console.log(
      `last new connection after ${Math.round(lastMs - diedMs)} ms, weight 0 after ${Math.round(performance.now() - diedMs)} ms`,
    )
    // Two copies of the counters and the time between two reads, with some room.
    assert.ok(lastMs - diedMs <= deadline(5000), `${lastMs - diedMs} ms`)
    await eventually(() => assert.ok(world.bench.log.includes(SUSPECTED)))
    assert.match(world.bench.log, /Event occurred.*EndpointDoesNotAnswer/)
    assert.deepEqual((await world.weights()).slice(1), [1, 1, 1])
    assert.ok(held.every(({ socket }) => !socket.destroyed))
    for (const { socket } of held) socket.unref()
  })

  it('is shown by status, drain, explain and metrics, and is no difference', async () => {
    await until('a suspect', async () => (await world.weights())[0] === 0, SOON_MS)
    await eventually(async () => {
      const { stdout } = await world.bench.command('status', '--output', 'json')
      assert.match(stdout, /"outlier":\s*\{\s*"state":\s*"suspect"/)
    }, SOON_MS)
    await eventually(async () => {
      const { stdout } = await world.bench.command('drain')
      assert.match(stdout, /^nothing is draining on this node$/m)
      assert.match(stdout, /^10\.2\.1\.1:8080 .* demo\/web:http$/m)
    }, SOON_MS)
    await eventually(async () => {
      const { stdout } = await world.bench.command('explain', 'demo/web')
      assert.match(stdout, /10\.2\.1\.1:8080 weight 0.*it does not\s+answer/s)
    }, SOON_MS)
    const { code, stdout } = await world.bench.command('diff')
    assert.equal(code, 0, stdout)
  })

  it('is given its connections again by the first answer after a trial', async () => {
    world.revive(DEAD)
    // The wait before the next trial may have become 20 s.
    await world.haveWeights([1, 1, 1, 1], 90_000)
    await world.gotConnections([DEAD], 50)
    await until('the line', () => world.bench.log.includes('An endpoint answers again'))
  })

  it('is forgotten by a process that starts', async () => {
    world.kill(DEAD)
    await until('a suspect', async () => (await world.weights())[0] === 0, SOON_MS)
    daemon.kill('SIGTERM')
    await world.bench.ended(daemon)
    assert.equal((await world.weights())[0], 0)
    daemon = world.bench.start()
    await world.haveWeights([1, 1, 1, 1])
    await until('a suspect again', async () => (await world.weights())[0] === 0, SOON_MS)
    world.revive(DEAD)
  })
})

describe('no endpoint is suspected', needs(), () => {
  let world: OutlierNode
  beforeEach(async () => {
    world = await OutlierNode.start({ kubeIPVS: { outlierDetection: true } })
    world.write({})
    world.bench.start()
    await world.isServed()
  })
  afterEach(() => world.stop())
  const nothingHappened = async (): Promise<void> => {
    assert.deepEqual(await world.weights(), [1, 1, 1, 1])
    assert.ok(!world.bench.log.includes(SUSPECTED), world.bench.log)
  }

  it('that refuses connections', async () => {
    world.stopListening(DEAD)
    world.connectAllTheTime(10, 8)
    await world.gotConnections(ENDPOINTS, 250)
    assert.ok(world.outcomes.refused > 100, JSON.stringify(world.outcomes))
    await nothingHappened()
  })

  it('that accepts connections and sends nothing', async () => {
    world.stopListening(DEAD)
    world.listen(DEAD, false)
    world.connectAllTheTime(10, 8)
    await world.gotConnections(ENDPOINTS, 250)
    await nothingHappened()
  })

  it('when all of them are dead', async () => {
    world.connectAllTheTime(10, 8)
    await world.gotConnections(ENDPOINTS, 100)
    for (const endpoint of ENDPOINTS) world.kill(endpoint)
    await world.gotConnections(ENDPOINTS, 150)
    await nothingHappened()
  })

  it('while the kernel does not count, which is said once', async () => {
    const setting = '/proc/sys/net/ipv4/vs/run_estimation'
    assert.equal(readFileSync(setting, 'utf8').trim(), '1')
    world.connectAllTheTime(10, 8)
    await world.gotConnections(ENDPOINTS, 50)
    writeFileSync(setting, '0')
    await until('the problem', () => world.bench.log.includes('estimation-off'), SOON_MS)
    world.kill(DEAD)
    const { none } = world.outcomes
    await until('clients without an answer', () => world.outcomes.none > none + 50, SOON_MS)
    await nothingHappened()
    writeFileSync(setting, '1')
    await until('it counts again', async () => (await world.weights())[0] === 0, SOON_MS)
    assert.equal(world.bench.log.split('estimation-off').length, 2)
  })

  it('of clients that open connections, and close none of them', async () => {
    world.connectAllTheTime(4, 5, false)
    await world.gotConnections(ENDPOINTS, 60)
    await nothingHappened()
  })
})

for (const scheduler of rowsOfRun(['sh', 'mh', 'wlc', 'wrr'] as const, (one) => one === 'sh'))
  describe(`an endpoint that does not answer, with the scheduler ${scheduler}`, needs(`ip_vs_${scheduler}`), () => {
    let world: OutlierNode
    before(async () => {
      world = await OutlierNode.start()
      world.write({ ...ON, scheduler })
      world.bench.start()
      await world.isServed()
    })
    after(() => world.stop())

    it('gets no new connections, and its clients are served by others', async () => {
      world.connectAllTheTime(10, 8)
      await world.gotConnections(ENDPOINTS, 60)
      world.kill(DEAD)
      await until('a suspect', async () => (await world.weights())[0] === 0, SOON_MS)
      const { answered } = world.outcomes
      await until('answers', () => world.outcomes.answered > answered + 200, SOON_MS)
      assert.equal(world.outcomes.refused, 0)
      assert.match(
        world.bench.log,
        new RegExp(`realServer="${DEAD.replaceAll('.', '\\.')}:8080" virtualServer="${VIRTUAL_SERVER}"`),
      )
    })
  })
