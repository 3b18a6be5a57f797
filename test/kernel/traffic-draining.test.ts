/**
 * Established TCP connections whose endpoint is removed: they continue, new ones reach other
 * endpoints, and the real server is removed when its last connection has ended, with or without a
 * restart in between. The kernel remembers a connection that was reset for ten seconds, and the
 * daemon counts connections at most every 30 s.
 */
import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { after, before, describe, it } from 'node:test'
import { ADDRESSES, Cluster } from '../support/cluster.ts'
import { type Workbench } from '../support/daemon.ts'
import { virtualServers } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'
import {
  bothFamilies,
  everyKind,
  FAMILIES,
  frontend,
  KINDS,
  settled,
  VIRTUAL_ADDRESSES,
} from '../support/every-kind.ts'
import { LiveConnections } from '../support/live-connections.ts'

const PLACES = KINDS.flatMap((kind) => FAMILIES.map((family) => frontend(1, kind, family, 'tcp')))

for (const virtualAddresses of VIRTUAL_ADDRESSES)
  describe(`established connections of a removed endpoint, virtual IPs as ${virtualAddresses}`, () => {
    let cluster: Cluster
    let bench: Workbench
    let daemon: ChildProcess
    const live = new LiveConnections()
    before(async () => {
      cluster = Cluster.start()
      bench = bothFamilies({}, undefined, virtualAddresses)
      bench.write('web.yaml', ...everyKind(1, ['a', 'c']))
      daemon = bench.start()
      await settled(1, 2, virtualAddresses)
      for (const place of PLACES) for (let index = 0; index < 2; index++) await live.open(cluster, 'client', place)
      await live.check()
    })
    after(async () => {
      live.close()
      await bench.close()
      cluster.stop()
    })

    /**
     * Weights of pod a's TCP real servers that have or had connections, one of each virtual server
     * that clients used.
     */
    const weightsOfA = (): string[] => {
      const ofA = new RegExp(`^-a -t (.*) -r \\[?(?:${ADDRESSES.a.IPv4}|${ADDRESSES.a.IPv6})\\]?:.* -w (\\d+)$`)
      const asked = new Set(
        PLACES.map(({ address, port }) => (address.includes(':') ? `[${address}]` : address) + `:${port}`),
      )
      return virtualServers().flatMap((line) => {
        const [, place = '', weight = ''] = ofA.exec(line) ?? []
        return asked.has(place) ? [weight] : []
      })
    }
    const all = (weight: string): string[] => PLACES.map(() => weight)
    const newOnesGoTo = async (...pods: readonly string[]): Promise<void> => {
      for (const place of PLACES) {
        const outcomes = new Set(await cluster.askInTurn('client', place, 4))
        assert.deepEqual(
          [...outcomes].sort(),
          pods.map((pod) => `${pod} node`),
          place.address,
        )
      }
    }

    it('continue while it drains', async () => {
      bench.write('web.yaml', ...everyKind(1, ['c']))
      await eventually(() => assert.deepEqual(weightsOfA(), all('0')))
      await newOnesGoTo('c')
      await live.check()
      assert.equal((await bench.command('diff')).code, 0, 'a drain in progress is no difference')
    })

    it('continue when it is added again, with its weight restored', async () => {
      bench.write('web.yaml', ...everyKind(1, ['a', 'c']))
      await eventually(() => assert.deepEqual(weightsOfA(), all('1')))
      await newOnesGoTo('a', 'c')
      await live.check()
      const connections = sh('ipvsadm -L -n')
        .split('\n')
        .filter((line) => line.includes(ADDRESSES.a.IPv4))
      assert.ok(
        connections.some((line) => Number(line.trim().split(/\s+/).at(-2)) > 0),
        'it was not deleted and added',
      )
    })

    it('continue when the daemon is restarted while it drains', async () => {
      bench.write('web.yaml', ...everyKind(1, ['c']))
      await eventually(() => assert.deepEqual(weightsOfA(), all('0')))
      await bench.stop(daemon)
      bench.start()
      bench.write('other.yaml', ...everyKind(2, ['c']))
      await settled(2)
      assert.deepEqual(weightsOfA(), all('0'))
      await live.check()
    })

    // The kernel and the daemon take their time: one of both ways is enough.
    if (virtualAddresses === 'addresses')
      it('end, and then it is removed', async () => {
        live.close()
        await eventually(() => assert.deepEqual(weightsOfA(), []), 60_000)
      })
  })
