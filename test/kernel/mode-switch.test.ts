/**
 * From ipvs mode to iptables mode and back on a node with traffic: connections of either mode survive the switch, new ones
 * are answered, and what the other mode left is removed, virtual servers after their last connection. Each step continues
 * with what the step before left.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { ChildProcess } from 'node:child_process'
import { Cluster } from '../support/cluster.ts'
import { boundAddresses, sh, virtualServers, type Workbench } from '../support/daemon.ts'
import { eventually } from '../support/deadline.ts'
import { bothFamilies, everyKind, FAMILIES, frontend, KINDS, settled } from '../support/every-kind.ts'
import { LiveConnections } from '../support/live-connections.ts'
import { NewConnections } from '../support/new-connections.ts'
import { needs } from './needs.ts'

/** IPVS forgets a connection that was reset after 10 s, and connections are counted every 10 s. */
const FORGOTTEN_MS = 40_000

/** At least so many are made during a switch. */
const NEW_CONNECTIONS = 200

describe('a switch between the modes', needs('iptables-nft'), () => {
  let cluster: Cluster
  let ipvs: Workbench
  let iptables: Workbench
  let daemon: ChildProcess
  const ofIpvs = new LiveConnections()
  const ofIptables = new LiveConnections()
  before(() => {
    cluster = Cluster.start(['tcp'])
    const clusterCIDR = '10.244.0.0/16,fd00:10:244::/47'
    ipvs = bothFamilies()
    iptables = bothFamilies({}, { clusterCIDR, mode: 'iptables', iptables: { minSyncPeriod: '0s' } })
    for (const bench of [ipvs, iptables]) bench.write('web.yaml', ...everyKind(1, ['a', 'c']))
  })
  after(async () => {
    ofIpvs.close()
    ofIptables.close()
    await ipvs.close()
    await iptables.close()
    cluster.stop()
  })

  const openEverywhere = async (live: LiveConnections): Promise<void> => {
    for (const family of FAMILIES)
      for (const kind of KINDS) await live.open(cluster, 'client', frontend(1, kind, family, 'tcp'))
    await live.check()
  }
  const places = FAMILIES.flatMap((family) => KINDS.map((kind) => frontend(1, kind, family, 'tcp')))
  /** Another daemon starts, and new connections are made until `isComplete` and for a while more. None of them may fail. */
  const switchTo = async (bench: Workbench, before: Workbench, isComplete: () => void): Promise<void> => {
    const asked = new NewConnections(cluster, 'client', places)
    await before.stop(daemon)
    daemon = bench.start()
    await eventually(isComplete)
    const enough = Math.max(asked.count + places.length, NEW_CONNECTIONS)
    await eventually(() => assert.ok(asked.count >= enough))
    await asked.stop()
    assert.deepEqual(asked.failures, [], `of ${asked.count} new connections`)
  }
  const serviceChains = (): number => sh('iptables-save; ip6tables-save').match(/^:KUBE-S(VC|EP)-/gm)?.length ?? 0
  const chainsOfIpvs = (): number => sh('iptables-save; ip6tables-save').match(/^:KUBE-(IPVS|NODE-PORT)/gm)?.length ?? 0

  it('to iptables mode keeps virtual servers as long as connections use them', async () => {
    daemon = ipvs.start()
    await settled(1)
    await openEverywhere(ofIpvs)
    await switchTo(iptables, ipvs, () => {
      assert.ok(serviceChains() > 0)
      assert.equal(chainsOfIpvs(), 0)
    })
    await eventually(() => assert.match(iptables.log, /Connections still use virtual servers/))
    await ofIpvs.check()
    assert.ok(virtualServers().length > 0)
    assert.ok(boundAddresses().length > 0)
    await openEverywhere(ofIptables)
  })

  it('back to ipvs mode removes every chain of iptables mode', async () => {
    await switchTo(ipvs, iptables, () => assert.equal(serviceChains(), 0))
    await settled(1)
    await ofIpvs.check()
    await ofIptables.check()
  })

  it('to iptables mode again removes everything of ipvs mode after its last connection', async () => {
    await switchTo(iptables, ipvs, () => {
      assert.ok(serviceChains() > 0)
      assert.equal(chainsOfIpvs(), 0)
    })
    await ofIptables.check()
    ofIpvs.close()
    await eventually(() => assert.deepEqual([virtualServers(), boundAddresses()], [[], []]), FORGOTTEN_MS)
    await eventually(() => {
      assert.doesNotMatch(sh('ip link'), /kube-ipvs0/)
      assert.doesNotMatch(sh('ipset list -n'), /KUBE-/)
    })
    await ofIptables.check()
    const place = frontend(1, 'ClusterIP', 'IPv4', 'tcp')
    assert.match(await cluster.ask('client', place), /^[ac] node$/)
  })
})
