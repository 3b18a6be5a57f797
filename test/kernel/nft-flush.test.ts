/**
 * `nft flush ruleset`, again and again, beside established connections and a steady rate of new
 * ones at every kind of frontend and in both families: the private tables belong to the daemon's
 * socket, so nothing is lost. Tables that belong to no socket are repaired (nftables-firewall.test.ts).
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { after, before, describe, it } from 'node:test'
import { NFT } from '../support/bare-guest.ts'
import { Cluster } from '../support/cluster.ts'
import { ClusterTraffic } from '../support/cluster-traffic.ts'
import { type Workbench } from '../support/daemon.ts'
import { eventually } from '../support/deadline.ts'
import { bothFamilies, everyKind, FAMILIES, frontend, KINDS, settled } from '../support/every-kind.ts'
import { rulesText } from '../support/kernel-state.ts'
import { run } from '../support/programs.ts'
import { needs } from './needs.ts'

const ESTABLISHED = 200
const NEW = 1000
const PER_SECOND = 250
const PERIOD_MS = 500
/** Between two flushes, without the time that one takes. */
const PAUSE_S = 0.03
const FLUSHES = 40
const PLACES = FAMILIES.flatMap((family) => KINDS.map((kind) => frontend(1, kind, family, 'tcp')))
/** Flushes until the input ends; prints a line for each. */
const FLUSHER = `while read -t ${PAUSE_S}; [ $? -gt 128 ]; do
  ${NFT} flush ruleset 2>&1 && echo flushed
done`

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
    const held = await traffic.hold(PLACES, ESTABLISHED, PERIOD_MS)
    const fresh = await traffic.rate(PLACES, PER_SECOND)
    // With handles, which tables that are written again would not keep.
    const tables = (): string[] => FAMILIES.map((family) => rulesText(`nft -a list table ${nameOf(family)} kube-ipvs`))
    const whole = tables()
    run([NFT, 'add', 'table', 'ip', 'foreign'])
    const flusher = spawn('bash', ['-c', FLUSHER], { stdio: ['pipe', 'pipe', 'inherit'] })
    t.after(() => flusher.kill())
    let printed = ''
    flusher.stdout.on('data', (chunk) => {
      printed += chunk
    })
    const flushes = (): number => printed.match(/^flushed$/gm)?.length ?? 0
    const start = performance.now()
    await eventually(async () => {
      assert.ok(flushes() >= FLUSHES, printed.slice(-1000))
      assert.ok((await fresh.report()).made >= NEW)
    }, 60_000)
    const seconds = (performance.now() - start) / 1000
    flusher.stdin.end()
    await once(flusher, 'close')
    const [established, made] = [await held.report(), await fresh.report()]
    t.diagnostic(`${flushes()} flushes in ${seconds.toFixed(1)} s; ${JSON.stringify([established, made])}`)
    assert.doesNotMatch(run([NFT, 'list', 'tables']), /foreign/)
    assert.deepEqual([established.connections, established.dropped], [ESTABLISHED, 0], held.failures.slice(0, 1000))
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
