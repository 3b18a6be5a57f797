/**
 * A daemon that starts on a kernel that is right already, from an earlier start or from kube-proxy
 * 1.37.2, writes nothing, and no connection ends.
 */
import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, afterEach, before, describe, it } from 'node:test'
import { openNetfilter } from '../../native/open.ts'
import { ensureCounter } from '../../src/modes/iptables/counters.ts'
import { Cluster } from '../support/cluster.ts'
import { ClusterTraffic } from '../support/cluster-traffic.ts'
import { Workbench } from '../support/daemon.ts'
import { service } from '../support/manifests.ts'
import { boundAddresses, kubeLines, virtualServers } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually, until } from '../support/deadline.ts'
import { amountOfRun, rowsOfRun } from '../support/extent.ts'
import { bothFamilies, everyKind, frontend, KINDS, FAMILIES } from '../support/every-kind.ts'
import { IptablesPrograms } from '../support/iptables-programs.ts'
import { LiveConnections } from '../support/live-connections.ts'
import { operations } from '../support/operations.ts'
import { recordingPath } from '../support/recordings.ts'
import { needs } from './needs.ts'

const MODES = ['ipvs', 'iptables'] as const
type Mode = (typeof MODES)[number]
const CASE = 'cases/all-kinds/recorded'
const MARKER = service('marker', { clusterIP: '10.96.9.9' })
const METRICS = '127.0.0.1:10249'
const CONFIGURATION = { iptables: { minSyncPeriod: '0s' }, metricsBindAddress: METRICS }

/** Everything of ours in the kernel, without counters of packets. */
function kernelState(): Readonly<Record<string, readonly string[]>> {
  const rules = (save: string): string[] =>
    kubeLines(save)
      .map((line) => line.replace(/ \[\d+:\d+\]$/, ''))
      // The order counts within our chains; not that of chains, nor where a jump stands among others.
      .sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : keyOf(a) > keyOf(b) ? 1 : 0))
  const keyOf = (line: string): string => /^-A KUBE-\S+/.exec(line)?.[0] ?? line
  return {
    virtualServers: virtualServers(),
    addresses: boundAddresses(),
    sets: kubeLines('ipset save').sort(),
    IPv4: rules('iptables-save'),
    IPv6: rules('ip6tables-save'),
  }
}

/** A daemon whose writes are counted. */
class Counted {
  readonly bench: Workbench
  readonly programs = new IptablesPrograms()

  constructor(bench: Workbench) {
    this.bench = bench
    bench.env = { PATH: this.programs.path }
  }

  get restores(): readonly string[] {
    return this.programs.starts.filter((line) => line.endsWith('restore'))
  }

  /** Resolves when tables and rules of both families have been read and compared. */
  async start(): Promise<ChildProcess> {
    this.programs.forget()
    const daemon = this.bench.start()
    await eventually(async () => void (await operations(METRICS)))
    for (const stem of ['iptables', 'ip6tables'])
      await until(`the rules of ${stem}`, () => this.programs.starts.includes(`${stem} save`))
    return daemon
  }

  /** Waits for a change to be written, which everything before it precedes. */
  async change(): Promise<void> {
    this.bench.write('marker.yaml', MARKER)
    await eventually(() => assert.match(JSON.stringify(kernelState()), /10\.96\.9\.9/))
    this.bench.remove('marker.yaml')
    await eventually(() => assert.doesNotMatch(JSON.stringify(kernelState()), /10\.96\.9\.9/))
  }

  async close(): Promise<void> {
    await this.bench.close()
    assert.equal((await this.bench.run('cleanup')).code, 0)
    this.programs.remove()
  }
}

describe('a start on a kernel that is right already', needs('iptables-nft'), () => {
  let cluster: Cluster
  let counted: Counted
  before(() => {
    cluster = Cluster.start(['tcp'])
  })
  afterEach(() => counted.close())
  after(() => cluster.stop())

  for (const mode of MODES)
    it(`writes nothing in ${mode} mode after its own end, by SIGTERM or by SIGKILL`, async () => {
      const clusterCIDR = '10.244.0.0/16,fd00:10:244::/47'
      counted = new Counted(bothFamilies({}, { ...CONFIGURATION, mode, clusterCIDR }))
      counted.bench.write('web.yaml', ...everyKind(1, ['a', 'c']), ...everyKind(2, ['b']), ...everyKind(3, []))
      let daemon = await counted.start()
      await counted.change()
      assert.ok(counted.restores.length > 0)
      assert.notDeepEqual(await operations(METRICS), {})
      const live = new LiveConnections()
      for (const family of FAMILIES)
        for (const kind of KINDS) await live.open(cluster, 'client', frontend(1, kind, family, 'tcp'))
      const right = kernelState()
      await live.check()
      for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
        await counted.bench.stop(daemon, signal)
        daemon = await counted.start()
        await live.check()
        assert.deepEqual([await operations(METRICS), counted.restores], [{}, []], signal)
        assert.deepEqual(kernelState(), right)
        await counted.change()
        assert.deepEqual(kernelState(), right)
        // The marker is a Service of IPv4: one restore when it comes and one when it goes, in iptables mode.
        assert.deepEqual(
          counted.restores.filter((line) => line !== 'iptables restore'),
          [],
        )
        assert.ok(counted.restores.length <= (mode === 'ipvs' ? 0 : 2), counted.restores.join())
      }
      live.close()
    })
})

/** Pods of the recorded Services that the cluster's namespaces answer for, by pod and link. */
const RECORDED_PODS = { a: ['10.244.0.10', '10.244.0.20', 'fd00:10:244::10'], other: ['10.244.1.20'] }
const CONNECTIONS = amountOfRun(1000, 300)
/** Of the requests on each connection. */
const PERIOD_MS = 2000

describe('a start on what kube-proxy 1.37.2 left', needs('iptables-nft', 'program:gcc'), () => {
  let cluster: Cluster
  let traffic: ClusterTraffic
  let counted: Counted
  before(async () => {
    cluster = Cluster.start([])
    for (const address of RECORDED_PODS.a) {
      const length = address.includes(':') ? '128 nodad' : '32'
      sh(`ip -n a-${process.pid} address add ${address}/${length} dev eth0; ip route add ${address} dev ve-a`)
    }
    for (const address of RECORDED_PODS.other) sh(`ip -n other-${process.pid} address add ${address}/32 dev lo`)
    traffic = await ClusterTraffic.start()
  })
  afterEach(() => counted.close())
  after(async () => {
    await traffic.close()
    cluster.stop()
  })

  /** Loads what kube-proxy left; `cut` makes files or tables of it incomplete. */
  function kubeProxyRan(mode: Mode, cut: (file: string, text: string) => string = (_, text) => text): void {
    const load = (file: string, command: string): void => {
      const path = join(counted.bench.directory, 'state.txt')
      writeFileSync(path, cut(file, readFileSync(recordingPath(`${CASE}/${mode}/1/${file}`), 'utf8')))
      sh(`${command.replaceAll('FILE', path)}; rm ${path}`)
    }
    if (mode === 'ipvs') {
      const settings = 'conntrack expire_nodest_conn expire_quiescent_template'
      sh(`cd /proc/sys/net/ipv4/vs; for name in ${settings}; do echo 1 >$name; done`)
      load('ipset.txt', 'ipset restore < FILE')
      load('ipvs.txt', 'ipvsadm -R < FILE')
      sh('ip link add kube-ipvs0 type dummy')
      load('addresses.txt', 'sed -n "/^#/d; s/.*/address add & dev kube-ipvs0/p" FILE | ip -batch -')
    }
    for (const family of ['iptables', 'ip6tables'])
      load(`${family}.txt`, `${family}-restore < FILE 2>/dev/null || grep -v nfacct FILE | ${family}-restore`)
  }

  async function prepare(mode: Mode, kubeIPVS: object = { firewall: 'iptables' }): Promise<void> {
    // The cluster's node has an address more than the recorded one; in iptables mode that makes no difference.
    const nodePortAddresses = mode === 'ipvs' ? ['10.0.2.0/24', 'fd00:10:0:2::/64'] : null
    const clusterCIDR = '10.244.0.0/16,fd00:10:244::/56'
    counted = new Counted(new Workbench({}, { ...CONFIGURATION, mode, clusterCIDR, nodePortAddresses, kubeIPVS }))
    if (mode === 'iptables') await makeCounters()
    counted.bench.remove('node.yaml')
    const lists = JSON.parse(readFileSync(recordingPath(`${CASE}/ipvs/1/objects.json`), 'utf8')) as object
    for (const [name, list] of Object.entries(lists)) counted.bench.write(`${name}.yaml`, list)
  }

  for (const mode of MODES)
    it(`writes nothing in ${mode} mode and drops none of ${CONNECTIONS} established connections`, async (t) => {
      await prepare(mode)
      kubeProxyRan(mode)
      const { bench } = counted
      const places = ['198.51.100.8', '10.96.10.2'].map((address) => ({ address, port: 80 }))
      const held = await traffic.hold(places, CONNECTIONS, PERIOD_MS)
      const left = kernelState()
      const { stdout } = await bench.command('diff')
      await counted.start()
      assert.equal((await held.report()).dropped, 0, held.failures.slice(0, 1000))
      assert.deepEqual([stdout, await operations(METRICS), counted.restores], ['', {}, []])
      assert.deepEqual(kernelState(), left)
      await counted.change()
      assert.deepEqual(kernelState(), left)
      const report = await held.report()
      t.diagnostic(JSON.stringify(report))
      assert.deepEqual([report.connections, report.dropped], [CONNECTIONS, 0], held.failures.slice(0, 1000))
      await held.close()
    })

  it('with the nftables firewall replaces its sets and chains without a program, and drops no connection', async (t) => {
    await prepare('ipvs', { firewall: 'nftables' })
    kubeProxyRan('ipvs')
    const { bench, programs } = counted
    const places = ['198.51.100.8', '10.96.10.2'].map((address) => ({ address, port: 80 }))
    const held = await traffic.hold(places, CONNECTIONS, PERIOD_MS)
    const { virtualServers: servers, addresses } = kernelState()
    programs.forget()
    bench.start()
    await eventually(() => assert.match(bench.log, /"Removed the rules and sets of iptables"/))
    const { virtualServers: after, addresses: bound, ...rules } = kernelState()
    assert.deepEqual([after, bound], [servers, addresses])
    assert.deepEqual(rules, { sets: [], IPv4: [], IPv6: [] })
    assert.match(sh('nft list tables'), /table ip kube-ipvs\ntable ip6 kube-ipvs/)
    assert.deepEqual(programs.starts, [])
    const report = await held.report()
    t.diagnostic(JSON.stringify(report))
    assert.deepEqual([report.connections, report.dropped], [CONNECTIONS, 0], held.failures.slice(0, 1000))
    await held.close()
  })

  for (const mode of MODES)
    it(`completes in ${mode} mode what a kill left half-written`, async () => {
      await prepare(mode)
      kubeProxyRan(mode)
      const right = kernelState()
      const cuts = mode === 'ipvs' ? { ...RULE_CUTS, ...IPVS_CUTS } : RULE_CUTS
      for (const [name, cut] of rowsOfRun(Object.entries(cuts), ([one]) => ESSENTIAL_CUTS.includes(one))) {
        sh('ipvsadm -C; ip link delete kube-ipvs0 2>/dev/null; nft flush ruleset; ipset destroy')
        kubeProxyRan(mode, cut)
        assert.notDeepEqual(kernelState(), right, name)
        const daemon = counted.bench.start()
        // To look at the kernel takes six processes.
        await eventually(() => assert.deepEqual(kernelState(), right, name), 15_000, 500)
        await counted.bench.stop(daemon, 'SIGKILL')
      }
    })
})

type Cut = (file: string, text: string) => string

const isRules = (file: string): boolean => file.endsWith('tables.txt')
const withoutTable =
  (table: string): Cut =>
  (file, text) =>
    isRules(file) ? text.replace(new RegExp(`^\\*${table}\\n[^*]*?^COMMIT\\n`, 'm'), '') : text
const without =
  (files: RegExp, lines: RegExp): Cut =>
  (file, text) =>
    files.test(file)
      ? text
          .split('\n')
          .filter((line) => !lines.test(line))
          .join('\n')
      : text

/** What is there when iptables-restore was killed between two tables, or other programs took some of it away. */
const RULE_CUTS: Readonly<Record<string, Cut>> = {
  'only filter': withoutTable('nat'),
  'only nat': withoutTable('filter'),
  'only IPv4': (file, text) => (file === 'ip6tables.txt' ? '' : text),
  'chains without rules': without(/tables\.txt$/, /^-A KUBE-/),
  'chains without jumps': without(/tables\.txt$/, /^-A (?!KUBE-)/),
}

const IPVS_CUTS: Readonly<Record<string, Cut>> = {
  // Releases 1.28 to 1.30 have the same sets, chains and jumps but this one.
  'kube-proxy 1.28': without(/tables\.txt$/, /KUBE-IPVS-OUT-FILTER/),
  'sets without entries': without(/ipset/, /^add /),
  'no virtual servers': without(/ipvs\.txt/, /./),
  'virtual servers without real servers': without(/ipvs\.txt/, /^-a/),
  'no addresses': without(/addresses/, /^[0-9a-f]/),
  'half of everything': without(/ipvs\.txt|addresses/, /10\.96\.10\.2|198\.51\.100/),
}

/** Of a quick run: one of each kind of table. */
const ESSENTIAL_CUTS: readonly string[] = [
  'only filter',
  'chains without jumps',
  'sets without entries',
  'half of everything',
]

/**
 * The objects that kube-proxy's rules of iptables mode name; a kernel without them takes the rules
 * without these matches.
 */
async function makeCounters(): Promise<void> {
  const netlink = openNetfilter()
  try {
    for (const name of ['ct_state_invalid_dropped_pkts', 'localhost_nps_accepted_pkts'])
      await ensureCounter(netlink, name)
  } finally {
    netlink.close()
  }
}
