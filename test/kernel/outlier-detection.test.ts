/**
 * Endpoints that do not answer, on a kernel and its estimator: they get no new connections while
 * others answer, and get them again when they do. Nothing happens where an endpoint refuses, is slow
 * or silent, or where nothing answers at all. The kernel counts every two seconds, so that all of it
 * waits; Services of their own let the cases wait at the same time.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { eventually, until } from '../support/deadline.ts'
import { rowsOfRun } from '../support/extent.ts'
import { OutlierNode } from '../support/outlier-node.ts'
import type { OutlierService } from '../support/outlier-service.ts'
import { sh } from '../support/programs.ts'
import { needs } from './needs.ts'

/** The clients of a slow kernel are slower too. */
const SOON_MS = 30_000
const SUSPECTED = 'An endpoint does not answer and gets no new connections'
/** Of the clients of a Service, a second: each endpoint gets a quarter. */
const OFTEN = 60
/** Connections to each endpoint after which a wrong decision would have been made. */
const MANY = 120
const SCHEDULERS = rowsOfRun(['sh', 'mh', 'wlc', 'wrr'] as const, (one) => one === 'sh')
/** Seconds on a network that loses and delays. */
const [IMPAIRED_S = 0] = rowsOfRun([120, 8], (seconds) => seconds === 8)

describe('outlier detection', needs(...SCHEDULERS.map((one) => `ip_vs_${one}` as const)), () => {
  let world: OutlierNode
  const services = new Map<string, OutlierService>()
  const named = (name: string): OutlierService => {
    const found = services.get(name)
    assert.ok(found, name)
    return found
  }
  const suspicions = ({ key }: OutlierService): readonly string[] =>
    world.bench.log.split('\n').filter((line) => line.includes(SUSPECTED) && line.includes(`"${key}"`))
  const nothingHappened = async (one: OutlierService): Promise<void> => {
    assert.deepEqual(await one.weights(), [1, 1, 1, 1])
    assert.deepEqual(suspicions(one), [])
    await one.stopClients()
  }

  before(async () => {
    world = await OutlierNode.start({ kubeIPVS: { outlierDetection: true } })
    for (const name of ['web', 'unreachable', 'refuses', 'mute', 'slow', 'half-closed', 'idle', 'all-dead'])
      services.set(name, world.add(name))
    services.set('off', world.add('off', { annotations: { 'outlier-detection': 'false' } }))
    services.set('one-way', world.add('one-way', { protocol: 'udp' }))
    for (const scheduler of SCHEDULERS) services.set(scheduler, world.add(scheduler, { annotations: { scheduler } }))
    world.bench.start()
    await world.isServed()
  })
  after(() => world.stop())

  describe('with Services beside each other', { concurrency: true }, () => {
    describe('an endpoint that dies', { concurrency: false }, () => {
      it('gets no new connection soon after its last answer, and keeps those it has', async (t) => {
        const web = named('web')
        web.connectAllTheTime(80)
        const held = await Promise.all(Array.from({ length: 8 }, () => web.hold()))
        const owners = await Promise.all(held.map(({ ask }) => ask()))
        assert.ok(owners.includes(web.dead), owners.join(' '))
        // Enough copies to know how many answers are usual.
        await web.gotConnections(200)
        web.kill()
        const diedMs = performance.now()
        let [lastMs, open] = [diedMs, (await web.seen()).get(web.dead)?.open ?? 0]
        await eventually(
          async () => {
            const { weight = 1, open: now = 0 } = (await web.seen()).get(web.dead) ?? {}
            if (now > open) lastMs = performance.now()
            open = now
            assert.equal(weight, 0)
          },
          SOON_MS,
          20,
        )
        // How soon is measured, and not asserted: on a busy machine the clients and the daemon wait as well.
        t.diagnostic(`the last new connection came ${Math.round(lastMs - diedMs)} ms after the death`)
        await eventually(() => assert.equal(suspicions(web).length, 1))
        assert.match(world.bench.log, /Event occurred.*EndpointDoesNotAnswer/)
        assert.deepEqual((await web.weights()).slice(1), [1, 1, 1])
        assert.ok(held.every(({ socket }) => !socket.destroyed))
      })

      it('is shown by status, drain and explain, and is no difference', async () => {
        const web = named('web')
        await until('a suspect', async () => (await web.weights())[0] === 0, SOON_MS)
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
        const web = named('web')
        web.revive()
        // The wait before the next trial may have become 20 s.
        await web.haveWeights([1, 1, 1, 1], 90_000)
        await web.gotConnections(30, [web.dead])
        await until('the line', () => world.bench.log.includes('An endpoint answers again'))
        await web.stopClients()
      })
    })

    // The node says so to its clients with ICMP errors, which IPVS counts as packets of the endpoint.
    it('an endpoint that the node cannot reach is a suspect, and stays one after two trials', async () => {
      const one = named('unreachable')
      one.connectAllTheTime(OFTEN)
      await one.gotConnections(MANY)
      // Existing connections would repeat data: ICMP errors that quote data and first packets look like answers.
      await one.stopClients()
      await until('the end of all connections', async () => (await one.seen()).get(one.dead)?.open === 0, 120_000)
      // Nothing has this address.
      sh(`ip route add ${one.dead}/32 via 10.2.0.3`)
      one.connectAllTheTime(OFTEN)
      const { packetsOut = 0 } = (await one.seen()).get(one.dead) ?? {}
      await until('a third suspicion', () => suspicions(one).some((line) => line.includes('nextTrial="20s"')), 90_000)
      assert.ok(!world.bench.log.split('\n').some((line) => line.includes('answers again') && line.includes(one.key)))
      // The errors were counted.
      assert.ok(((await one.seen()).get(one.dead)?.packetsOut ?? 0) > packetsOut)
      await one.stopClients()
    })

    for (const scheduler of SCHEDULERS)
      it(`clients of a dead endpoint are served by others, with the scheduler ${scheduler}`, async () => {
        const one = named(scheduler)
        // Where connections end at once, least-connection gives a dead endpoint nearly none, and there is no evidence.
        one.connectAllTheTime(OFTEN, scheduler === 'wlc' ? 'stays' : 'asks')
        await one.gotConnections(60)
        one.kill()
        await until('a suspect', async () => (await one.weights())[0] === 0, SOON_MS)
        const { answered } = one.outcomes
        await until('answers', () => one.outcomes.answered > answered + 150, SOON_MS)
        assert.equal(one.outcomes.refused, 0)
        assert.match(suspicions(one).join('\n'), new RegExp(`realServer="${one.dead.replaceAll('.', '\\.')}:8080"`))
        await one.stopClients()
      })

    it('no endpoint is suspected that refuses connections', async () => {
      const one = named('refuses')
      one.stopListening()
      one.connectAllTheTime(OFTEN)
      await one.gotConnections(MANY)
      assert.ok(one.outcomes.refused > MANY / 2, JSON.stringify(one.outcomes))
      await nothingHappened(one)
    })

    it('no endpoint is suspected that accepts connections and sends nothing', async () => {
      const one = named('mute')
      one.turn('mute', one.dead)
      one.connectAllTheTime(OFTEN)
      await one.gotConnections(MANY)
      await nothingHappened(one)
    })

    it('no endpoint is suspected whose first byte comes after 10 s', async () => {
      const one = named('slow')
      one.turn('slow', ...one.endpoints)
      one.connectAllTheTime(20, 'patient')
      await until('answers', () => one.outcomes.answered > 50, SOON_MS)
      assert.equal(one.outcomes.none, 0)
      await nothingHappened(one)
    })

    it('no endpoint is suspected of clients that close their direction of a connection', async () => {
      const one = named('half-closed')
      one.connectAllTheTime(20, 'half-closed')
      await one.gotConnections(60)
      await nothingHappened(one)
    })

    it('no endpoint is suspected of clients that open connections, and neither use nor close them', async () => {
      const one = named('idle')
      one.connectAllTheTime(20, 'idle')
      await one.gotConnections(60)
      await nothingHappened(one)
      // The kernel has copied the last connections, and copies the counters twice more without a packet.
      let copied: number | undefined
      await until(
        'equal counters for 5 s',
        async () => {
          const before = copied
          copied = (await one.seen()).get(one.dead)?.connections
          await new Promise((resolve) => setTimeout(resolve, 5000))
          return before !== undefined && before === copied
        },
        SOON_MS,
      )
      await nothingHappened(one)
    })

    it('no endpoint is suspected of a protocol that goes one way', async () => {
      const one = named('one-way')
      one.connectAllTheTime(OFTEN, 'datagram')
      await one.gotConnections(MANY)
      await nothingHappened(one)
    })

    it('no endpoint is suspected when all of them are dead', async () => {
      const one = named('all-dead')
      one.connectAllTheTime(OFTEN)
      await one.gotConnections(60)
      for (const endpoint of one.endpoints) one.kill(endpoint)
      await one.gotConnections(MANY)
      await nothingHappened(one)
    })

    it('no endpoint is suspected of a Service that does not want it', async () => {
      const one = named('off')
      one.connectAllTheTime(OFTEN)
      await one.gotConnections(60)
      one.kill()
      await one.gotConnections(MANY)
      assert.ok(one.outcomes.none > MANY / 4, JSON.stringify(one.outcomes))
      await nothingHappened(one)
    })
  })

  it('suspects no endpoint on a network that loses 2 % and delays 300 ms in each direction', async () => {
    const [one, two] = [named('mute'), named('half-closed')]
    world.impair(300, 2)
    one.connectAllTheTime(OFTEN)
    two.connectAllTheTime(20, 'half-closed')
    await new Promise((resolve) => setTimeout(resolve, IMPAIRED_S * 1000))
    assert.ok(one.outcomes.answered > 0)
    await nothingHappened(one)
    await nothingHappened(two)
  })
})
