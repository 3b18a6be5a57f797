/**
 * The core of the kernel tests, for the kernel matrix of the evidence: a daemon with one firewall
 * on a node with pods and clients. Traffic of each kind of Service, source ranges, refusals, a
 * drain, a start on what a killed daemon left, and the removal of everything.
 */
import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { after, before, describe, it } from 'node:test'
import { needs } from '../kernel/needs.ts'
import { ADDRESSES, Cluster, REFUSAL_MS } from './cluster.ts'
import type { Workbench } from './daemon.ts'
import { eventually } from './deadline.ts'
import {
  bothFamilies,
  everyKind,
  FAMILIES,
  frontend,
  inBothFamilies,
  KINDS,
  NEEDS_OF,
  PROTOCOLS,
  settled,
} from './every-kind.ts'
import type { Firewall } from './firewalls.ts'
import { boundAddresses, virtualServers } from './kernel-state.ts'
import { LiveConnections } from './live-connections.ts'
import { operations } from './operations.ts'
import { finish, run, sh } from './programs.ts'

/** The numbers of the Services: pods a and c with policies Cluster and Local, pod a for one client, and no endpoint. */
const [CLUSTER, LOCAL, RANGES, NONE] = [1, 2, 3, 4]
const ONE_CLIENT = [`${ADDRESSES.client.IPv4}/32`, `${ADDRESSES.client.IPv6}/128`]
const METRICS = '127.0.0.1:10249'

/** Tests of a daemon with this firewall; unmet where the kernel lacks it. */
export function coreTests(firewall: Firewall): void {
  describe(`a node with ${firewall.name}`, needs(firewall.need), () => {
    let cluster: Cluster
    let bench: Workbench
    let daemon: ChildProcess
    const live = new LiveConnections()
    before(async () => {
      cluster = Cluster.start(PROTOCOLS)
      // What kubelet leaves in the back end that it uses.
      if (firewall.name !== 'nftables') sh(`iptables-${firewall.backEnd} -t mangle -N KUBE-IPTABLES-HINT`)
      bench = bothFamilies(
        {},
        {
          clusterCIDR: '10.244.0.0/16,fd00:10:244::/47',
          metricsBindAddress: METRICS,
          kubeIPVS: firewall.kubeIPVS,
        },
      )
      bench.write('cluster.yaml', ...everyKind(CLUSTER, ['a', 'c']))
      const policies = { internalTrafficPolicy: 'Local', externalTrafficPolicy: 'Local' }
      bench.write('local.yaml', ...everyKind(LOCAL, ['a', 'c'], policies))
      bench.write('ranges.yaml', ...everyKind(RANGES, ['a'], { loadBalancerSourceRanges: ONE_CLIENT }))
      bench.write('none.yaml', ...everyKind(NONE, []))
      daemon = bench.start()
    })
    after(async () => {
      live.close()
      await bench.close()
      cluster.stop()
    })

    it('has every virtual server, and the rules of this firewall', async () => {
      await settled(4, undefined, undefined, 60_000)
      await eventually(() => void run(firewall.proof))
      const line = firewall.name === 'nftables' ? /"Using the firewall" firewall="nftables"/ : `"${firewall.backEnd}"`
      await eventually(() => assert.match(bench.log, new RegExp(line)))
      await eventually(async () => assert.equal((await bench.command('diff')).stdout, ''))
    })

    for (const protocol of ['tcp', 'udp', 'sctp'] as const)
      describe(protocol, NEEDS_OF[protocol], () => {
        for (const kind of KINDS)
          it(`reaches both endpoints through ${kind}, and with policy Local the one of this node`, () =>
            inBothFamilies(async (family) => {
              const answers = await cluster.askInTurn('client', frontend(CLUSTER, kind, family, protocol), 4)
              assert.deepEqual([...new Set(answers)].sort(), ['a node', 'c node'], family)
              const local = await cluster.askInTurn('client', frontend(LOCAL, kind, family, protocol), 2)
              const seen = kind === 'ClusterIP' ? 'a node' : 'a own'
              assert.deepEqual([...new Set(local)], [seen], family)
            }))
        it('keeps the address of a pod that asks a ClusterIP, unless the pod asks itself', () =>
          inBothFamilies(async (family) => {
            const place = frontend(LOCAL, 'ClusterIP', family, protocol)
            assert.deepEqual(
              [await cluster.ask('b', place), await cluster.ask('a', place)],
              ['a own', 'a node'],
              family,
            )
          }))
        it('gives no answer to a client outside the source ranges', () =>
          inBothFamilies(async (family) => {
            const place = frontend(RANGES, 'LoadBalancer', family, protocol)
            assert.equal(await cluster.ask('client', place), 'a node', family)
            assert.equal(await cluster.ask('other', place, { withinMs: REFUSAL_MS }), 'nothing', family)
            assert.equal(await cluster.ask('other', frontend(RANGES, 'ClusterIP', family, protocol)), 'a node', family)
          }))
        it('is refused where there is no endpoint', () =>
          inBothFamilies(async (family) => {
            for (const kind of KINDS)
              assert.equal(await cluster.ask('client', frontend(NONE, kind, family, protocol)), 'refused', kind)
          }))
      })

    it('keeps connections of an endpoint that drains, and sends new ones elsewhere', async () => {
      const places = KINDS.flatMap((kind) => FAMILIES.map((family) => frontend(CLUSTER, kind, family, 'tcp')))
      for (const place of places) for (let index = 0; index < 2; index++) await live.open(cluster, 'client', place)
      await live.check()
      bench.write('cluster.yaml', ...everyKind(CLUSTER, ['c']))
      const weights = (): readonly string[] =>
        virtualServers().filter((line) => line.startsWith('-a -t 10.96.0.1:80 ') && line.includes(ADDRESSES.a.IPv4))
      await eventually(() => assert.match(weights().join(), / -w 0$/))
      for (const place of places)
        await eventually(async () =>
          assert.deepEqual(await cluster.askInTurn('client', place, 2), ['c node', 'c node']),
        )
      await live.check()
    })

    it('writes nothing at a start after SIGKILL, and no connection ends', async () => {
      bench.write('cluster.yaml', ...everyKind(CLUSTER, ['a', 'c']))
      await eventually(async () => assert.equal((await bench.command('diff')).stdout, ''))
      const state = (): unknown => [virtualServers(), boundAddresses(), finish(firewall.proof).code]
      const right = state()
      await bench.stop(daemon, 'SIGKILL')
      await live.check()
      const starts = (): number => bench.log.split('"Caches are synced"').length
      const started = starts()
      daemon = bench.start()
      await eventually(() => assert.ok(starts() > started))
      await eventually(async () => assert.equal((await bench.command('diff')).stdout, ''))
      await eventually(() => operations(METRICS).then(() => undefined))
      const { nftables = 0, ...others } = await operations(METRICS)
      assert.deepEqual(others, {})
      // It becomes the owner of both tables, where the kernel knows owners.
      assert.ok(nftables <= (firewall.name === 'nftables' ? FAMILIES.length : 0), String(nftables))
      assert.deepEqual(state(), right)
      await live.check()
    })

    it('is empty after cleanup', async () => {
      await bench.stop(daemon)
      const cleanup = await bench.run('cleanup')
      assert.equal(cleanup.code, 0, cleanup.stderr)
      assert.deepEqual([virtualServers(), boundAddresses()], [[], []])
      assert.notEqual(finish(firewall.proof).code, 0)
    })
  })
}
