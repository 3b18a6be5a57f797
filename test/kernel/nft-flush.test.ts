/**
 * `nft flush ruleset`, again and again, beside established connections and a steady rate of new
 * ones at every kind of frontend and in both families: the private tables belong to the daemon's
 * socket, so nothing is lost. Tables that belong to no socket are repaired (nftables-firewall.test.ts).
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { after, before, describe, it } from 'node:test'
import { NFT } from '../support/bare-guest.ts'
import { Cluster } from '../support/cluster.ts'
import { ClusterTraffic } from '../support/cluster-traffic.ts'
import { type Workbench } from '../support/daemon.ts'
import { eventually } from '../support/deadline.ts'
import { bothFamilies, everyKind, FAMILIES, frontend, KINDS, settled } from '../support/every-kind.ts'
import { rowsOfRun } from '../support/extent.ts'
import { rulesText } from '../support/kernel-state.ts'
import { run } from '../support/programs.ts'
import { needs } from './needs.ts'

/** `pauseMs`: between two flushes. In a full run 100 a second for 10 s. */
const QUICK = { established: 200, periodMs: 500, fresh: 1000, perSecond: 250, flushes: 40, pauseMs: 30 }
const FULL = { established: 1000, periodMs: 2000, fresh: 10_000, perSecond: 500, flushes: 1000, pauseMs: 10 }
const [EXTENT = QUICK] = rowsOfRun([FULL, QUICK], (row) => row === QUICK)
const PLACES = FAMILIES.flatMap((family) => KINDS.map((kind) => frontend(1, kind, family, 'tcp')))
/** Typed into one nft, because to start one takes longer than 10 ms; it prints the tables that are left. */
const FLUSH = 'flush ruleset\nlist tables\n'

describe('tables that belong to the daemon', needs('nft', 'kernel>=6.9', 'program:gcc'), () => {
  let cluster: Cluster
  let traffic: ClusterTraffic
  let bench: Workbench
  before(async () => {
    cluster = Cluster.start([])
    traffic = await ClusterTraffic.start()
    bench = bothFamilies(
      { syncPeriod: '10s' },
      { clusterCIDR: '10.244.0.0/16,fd00:10:244::/47', kubeIPVS: { firewall: 'nftables' } },
    )
    bench.write('web.yaml', ...everyKind(1, ['a', 'c']))
    bench.start()
    await settled(1, 2)
    await eventually(() => assert.match(rulesText('nft list table ip6 kube-ipvs'), /set node-ports \{[^}]*elements/))
  })
  after(async () => {
    await traffic.close()
    await bench.close()
    assert.equal((await bench.run('cleanup')).code, 0)
    cluster.stop()
  })

  it('survive flushes of all rules: no connection is dropped, none fails, and nothing is repaired', async (t) => {
    const held = await traffic.hold(PLACES, EXTENT.established, EXTENT.periodMs)
    const fresh = await traffic.rate(PLACES, EXTENT.perSecond)
    // With handles, which tables that are written again would not keep.
    const tables = (): string[] => FAMILIES.map((family) => rulesText(`nft -a list table ${nameOf(family)} kube-ipvs`))
    const whole = tables()
    run([NFT, 'add', 'table', 'ip', 'foreign'])
    const flusher = spawn(NFT, ['-i'], { stdio: ['pipe', 'pipe', 'inherit'] })
    t.after(() => flusher.kill())
    let flushes = 0
    createInterface({ input: flusher.stdout }).on('line', (line) => {
      if (line === 'table ip6 kube-ipvs') flushes++
    })
    const start = performance.now()
    const timer = setInterval(() => flusher.stdin.write(FLUSH), EXTENT.pauseMs)
    t.after(() => clearInterval(timer))
    await eventually(async () => {
      assert.ok(flushes >= EXTENT.flushes, `${flushes} flushes`)
      assert.ok((await fresh.report()).made >= EXTENT.fresh)
    }, 120_000)
    const seconds = (performance.now() - start) / 1000
    clearInterval(timer)
    flusher.stdin.end()
    await once(flusher, 'close')
    const [established, made] = [await held.report(), await fresh.report()]
    t.diagnostic(`${flushes} flushes in ${seconds.toFixed(1)} s; ${JSON.stringify([established, made])}`)
    assert.doesNotMatch(run([NFT, 'list', 'tables']), /foreign/)
    assert.deepEqual(
      [established.connections, established.dropped],
      [EXTENT.established, 0],
      held.failures.slice(0, 1000),
    )
    assert.equal(made.failed, 0, fresh.failures.slice(0, 1000))
    assert.deepEqual(tables(), whole)
    assert.doesNotMatch(bench.log, /repair/i)
  })

  it('are lost to a flush as soon as they belong to nobody', async () => {
    await bench.close()
    run([NFT, 'flush', 'ruleset'])
    assert.doesNotMatch(run([NFT, 'list', 'tables']), /kube-ipvs/)
  })
})

const nameOf = (family: (typeof FAMILIES)[number]): string => (family === 'IPv4' ? 'ip' : 'ip6')
