/**
 * Endpoints are removed one by one and added again while clients connect all the time: with every
 * scheduler no client is refused, and only the remaining endpoints get connections. A scheduler
 * that hashes refuses a client when the server it chose has weight 0, unless a flag prevents it; dh
 * has no such flag, so it refuses every client whose server drains.
 */
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { Cluster, type Outcome, type Pod } from '../support/cluster.ts'
import { type Workbench } from '../support/daemon.ts'
import { virtualServers } from '../support/kernel-state.ts'
import { eventually } from '../support/deadline.ts'
import { bothFamilies, everyKind, frontend } from '../support/every-kind.ts'
import { rowsOfRun } from '../support/extent.ts'
import { Load } from '../support/load.ts'
import { SCHEDULERS } from '../../src/values/schedulers.ts'
import { needs } from './needs.ts'

/** In a quick run one of each class: in turn, by connections, by the client's address, and by a table of hashes. */
const CLASSES: readonly string[] = ['rr', 'wlc', 'sh', 'mh']
/** With ovf a server takes two connections at a time for each unit of its weight, then no more. */
const clientsOf = (scheduler: string): number => (scheduler === 'ovf' ? 2 : 8)
const STEPS: readonly (readonly Pod[])[] = [['b', 'c'], ['c'], ['a', 'b', 'c']]
const PLACES = [
  frontend(1, 'ClusterIP', 'IPv4', 'tcp'),
  frontend(1, 'NodePort', 'IPv4', 'tcp'),
  frontend(1, 'LoadBalancer', 'IPv6', 'tcp'),
  frontend(1, 'ExternalIP', 'IPv6', 'tcp'),
]
/** A refusal over IPv6 takes a second to be seen. */
const placesOf = (scheduler: string): typeof PLACES => (scheduler === 'dh' ? PLACES.slice(0, 2) : PLACES)

describe('scaling under load', () => {
  let cluster: Cluster
  let bench: Workbench
  let load: Load | undefined
  before(() => {
    cluster = Cluster.start()
  })
  afterEach(async () => {
    await load?.stop()
    await bench.close()
  })
  after(() => cluster.stop())

  for (const scheduler of rowsOfRun(SCHEDULERS, (one) => CLASSES.includes(one)))
    it(
      `refuses ${scheduler === 'dh' ? 'the clients of a draining server' : 'no client'} with ${scheduler}`,
      needs(`ip_vs_${scheduler}`),
      async () => {
        bench = bothFamilies({ scheduler })
        /** Until every virtual server has this scheduler, and as many real servers with weight 1. */
        const scale = async (pods: readonly Pod[]): Promise<void> => {
          bench.write('web.yaml', ...everyKind(1, pods))
          await eventually(() => {
            const lines = virtualServers()
            const servers = lines.filter((line) => line.startsWith('-A'))
            assert.ok(servers.length >= 20)
            assert.ok(servers.every((line) => line.includes(` -s ${scheduler}`)))
            assert.equal(lines.filter((line) => line.endsWith(' -w 1')).length, servers.length * pods.length)
            // The others drain or have drained, which may be over before this looks (traffic-draining.test.ts).
            const removed = lines.filter((line) => line.startsWith('-a') && !line.endsWith(' -w 1'))
            assert.ok(removed.every((line) => line.endsWith(' -w 0')))
          })
        }
        bench.start()
        await scale(['a', 'b', 'c'])
        load = new Load(cluster, placesOf(scheduler), clientsOf(scheduler))
        await load.take(50)
        for (const pods of STEPS) {
          await scale(pods)
          // A request that was sent before this may have reached another endpoint.
          const { sentBefore, sentAfter } = await load.take(50)
          const refused: readonly Outcome[] = [...sentBefore, ...sentAfter].filter((one) => !/^[abc] node$/.test(one))
          const expected: readonly Outcome[] = scheduler === 'dh' ? refused.map(() => 'refused') : []
          assert.deepEqual(refused, expected, `with ${pods.join(', ')} left`)
          const left = sentAfter.filter((outcome) => outcome !== 'refused' && !pods.includes(outcome.charAt(0) as Pod))
          assert.deepEqual(left, [], `only ${pods.join(', ')} are left`)
        }
      },
    )
})
