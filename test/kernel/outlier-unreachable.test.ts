/**
 * An endpoint whose host is gone from the network of this node. The node says so to its clients with
 * ICMP errors, which IPVS counts as packets of the endpoint.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { until } from '../support/deadline.ts'
import { ENDPOINTS, OutlierNode } from '../support/outlier-node.ts'
import { sh } from '../support/programs.ts'
import { needs } from './needs.ts'

const [DEAD] = ENDPOINTS

describe('an endpoint that the node cannot reach', needs(), () => {
  let world: OutlierNode
  before(async () => {
    world = await OutlierNode.start()
    world.write({ 'outlier-detection': 'true' })
    world.bench.start()
    await world.isServed()
  })
  after(() => world.stop())

  it('is a suspect, and stays one after two trials', async () => {
    world.connectAllTheTime(10, 8)
    await world.gotConnections(ENDPOINTS, 200)
    // Nothing has this address.
    sh(`ip route add ${DEAD}/32 via 10.2.0.3`)
    const { packetsOut = 0 } = (await world.seen()).get(DEAD) ?? {}
    await until('a third suspicion', () => world.bench.log.includes('nextTrial="20s"'), 90_000)
    assert.ok(!world.bench.log.includes('An endpoint answers again'))
    // The errors were counted.
    assert.ok(((await world.seen()).get(DEAD)?.packetsOut ?? 0) > packetsOut)
  })
})
