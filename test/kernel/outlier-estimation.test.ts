/**
 * What outlier detection forgets: a daemon that starts has no suspects, and a kernel that does not
 * count has none either.
 */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { it } from 'node:test'
import { until } from '../support/deadline.ts'
import { OutlierNode } from '../support/outlier-node.ts'
import { needs } from './needs.ts'

const SOON_MS = 30_000
const SETTING = '/proc/sys/net/ipv4/vs/run_estimation'

it(
  'all suspects are forgotten by a process that starts, and while the kernel does not count, which is said once',
  needs(),
  async (t) => {
    const world = await OutlierNode.start()
    t.after(() => world.stop())
    const web = world.add('web', { annotations: { 'outlier-detection': 'true' } })
    let daemon = world.bench.start()
    await world.isServed()
    const isSuspected = (): Promise<void> =>
      until('a suspect', async () => (await web.weights()).join() === '0,1,1,1', SOON_MS)
    assert.equal(readFileSync(SETTING, 'utf8').trim(), '1')
    web.connectAllTheTime(80)
    await web.gotConnections(50)
    web.kill()
    await isSuspected()
    writeFileSync(SETTING, '0')
    await until('the problem', () => world.bench.log.includes('estimation-off'), SOON_MS)
    const { none } = web.outcomes
    await until('clients without an answer', () => web.outcomes.none > none + 50, SOON_MS)
    assert.deepEqual(await web.weights(), [1, 1, 1, 1])
    writeFileSync(SETTING, '1')
    await isSuspected()
    assert.equal(world.bench.log.split('estimation-off').length, 2)
    daemon.kill('SIGTERM')
    await world.bench.ended(daemon)
    assert.equal((await web.weights())[0], 0)
    daemon = world.bench.start()
    await web.haveWeights([1, 1, 1, 1])
    await isSuspected()
  },
)
