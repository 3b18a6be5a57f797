/**
 * Rules that nft makes in tables of iptables-nft, so that iptables-save cannot print the table:
 * Services work all the same, at a start, at a restart and for new Services, and a cleanup removes
 * what is ours and nothing else.
 */
import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Workbench } from '../support/daemon.ts'
import { service, slice } from '../support/manifests.ts'
import { boundAddresses, freshNode, rulesText, virtualServers } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'
import { needs } from './needs.ts'

const MODES = ['ipvs', 'iptables'] as const
type Mode = (typeof MODES)[number]

/**
 * A rule of nft by how iptables-nft fails over it: it names the table in a comment, or ends. Both
 * in front of our jumps and behind them.
 */
const NATIVE = {
  'is named by iptables-save': { table: 'filter', chain: 'INPUT', rule: 'ct state established,related accept' },
  'ends iptables-save': { table: 'filter', chain: 'INPUT', rule: 'meta skuid 0 accept' },
  'is in the table nat': { table: 'nat', chain: 'POSTROUTING', rule: 'oifname "eth9" masquerade' },
} as const
const BASE = {
  INPUT: '{ type filter hook input priority 0; }',
  POSTROUTING: '{ type nat hook postrouting priority srcnat; }',
} as const

let bench: Workbench
beforeEach(freshNode)
afterEach(() => bench.close())

const workbench = (mode: Mode): Workbench => new Workbench({}, { mode, iptables: { minSyncPeriod: '0s' } })

function write(name: string, address: string, endpoint: string): void {
  bench.write(`${name}.yaml`, service(name, { clusterIP: address }), slice(name, [endpoint]))
}

/** Rejects unless the Service is served, with everything that its traffic needs. */
function assertServed(mode: Mode, address: string, endpoint: string): void {
  const ruleset = rulesText('nft list ruleset ip')
  assert.match(ruleset, /chain POSTROUTING \{[^}]*jump KUBE-POSTROUTING/)
  assert.match(ruleset, /chain PREROUTING \{[^}]*jump KUBE-SERVICES/)
  if (mode === 'iptables') return assert.match(ruleset, new RegExp(`${endpoint}:8080|${endpoint}`))
  assert.ok(virtualServers().some((line) => line.includes(`${address}:80 -r ${endpoint}:8080 -m -w 1`)))
  assert.ok(boundAddresses().includes(`${address}/32`))
}

/** How often a chain jumps to one of ours. */
const jumps = (chain: string, to: string): number =>
  rulesText('nft list ruleset ip')
    .split(`chain ${chain} {`)
    .slice(1)
    .flatMap((text) => text.split('}')[0]?.match(new RegExp(`jump ${to}\\b`, 'g')) ?? []).length

function addNative({ table, chain, rule }: (typeof NATIVE)[keyof typeof NATIVE], verb: 'add' | 'insert' = 'add'): void {
  sh(`nft add table ip ${table}; nft add chain ip ${table} ${chain} '${BASE[chain]}'`)
  sh(`nft ${verb} rule ip ${table} ${chain} ${rule}`)
}

for (const mode of MODES)
  for (const [how, native] of Object.entries(NATIVE))
    describe(`a rule of nft that ${how}, in ${mode} mode`, needs('iptables-nft', 'nft'), () => {
      async function started(): Promise<ChildProcess> {
        const daemon = bench.start()
        await eventually(() => assertServed(mode, '10.96.0.1', '10.244.0.1'), 30_000)
        return daemon
      }

      it('stops neither a start nor changes nor a restart, is reported, and stays through a cleanup', async () => {
        bench = workbench(mode)
        addNative(native)
        write('web', '10.96.0.1', '10.244.0.1')
        const daemon = await started()
        write('two', '10.96.0.2', '10.244.0.2')
        await eventually(() => assertServed(mode, '10.96.0.2', '10.244.0.2'))
        const remedy = new RegExp(
          `cannot print the table ${native.table}, .*nft delete rule ip ${native.table} ${native.chain} handle \\d+`,
        )
        await eventually(() => assert.match(bench.log, remedy))
        assert.doesNotMatch(bench.log, /Cannot read a table|Failed to execute/)
        addNative(native, 'insert')
        await bench.stop(daemon)
        await bench.close()

        bench = workbench(mode)
        write('web', '10.96.0.1', '10.244.0.1')
        write('three', '10.96.0.3', '10.244.0.3')
        const again = bench.start()
        await eventually(() => assertServed(mode, '10.96.0.3', '10.244.0.3'), 30_000)
        await eventually(() => {
          if (mode === 'ipvs') assert.equal(jumps('INPUT', 'KUBE-IPVS-FILTER'), 1)
          assert.equal(jumps('POSTROUTING', 'KUBE-POSTROUTING'), 1)
        })
        await eventually(() => assert.doesNotMatch(rulesText('nft list ruleset ip'), /10\.244\.0\.2\b/))
        await bench.stop(again)

        const { code, stderr } = await bench.command('cleanup')
        assert.deepEqual([code, stderr], [0, ''])
        const left = sh('nft list ruleset ip; ip link; ipset list -n; ipvsadm -Sn')
        // The guard of 127.0.0.1 stays: it may be of kubelet.
        assert.doesNotMatch(left, /KUBE-(?!FIREWALL)|kube-ipvs0|10\.244/)
        assert.equal(left.split(native.rule.replace(/,related/, ',related')).length - 1, 2, left)
      })
    })

describe('a rule of nft that is made while the daemon runs', needs('iptables-nft', 'nft'), () => {
  for (const mode of MODES)
    it(`keeps repairs working in ${mode} mode, and the problem ends with it`, async () => {
      bench = workbench(mode)
      write('web', '10.96.0.1', '10.244.0.1')
      bench.start()
      await eventually(() => assertServed(mode, '10.96.0.1', '10.244.0.1'))
      sh('nft insert rule ip nat KUBE-SERVICES ct state established accept')
      await eventually(() => assert.doesNotMatch(rulesText('nft list ruleset ip'), /ct state established accept/))
      await eventually(() => assertServed(mode, '10.96.0.1', '10.244.0.1'))
      addNative(NATIVE['is named by iptables-save'], 'insert')
      sh(
        'iptables-nft -t nat -F KUBE-SERVICES; nft delete rule ip filter INPUT handle $(nft -a list chain ip filter INPUT | sed -n "s/.*KUBE-.*handle //p" | head -1)',
      )
      const jump = mode === 'ipvs' ? 'KUBE-IPVS-FILTER' : 'KUBE-FIREWALL'
      await eventually(() => assert.equal(jumps('INPUT', jump), 1, sh('nft list chain ip filter INPUT')))
      await eventually(() => assert.match(bench.log, /cannot print the table filter/))
      sh(
        'nft delete rule ip filter INPUT handle $(nft -a list chain ip filter INPUT | sed -n "s/.*established,related.*handle //p")',
      )
      sh('iptables-nft -t nat -F KUBE-SERVICES')
      await eventually(() => assert.match(bench.log, /Problems with an object resolved" object="printing IPv4"/))
      await eventually(() => assertServed(mode, '10.96.0.1', '10.244.0.1'))
    })
})

describe('a base chain of nft that iptables cannot use', needs('iptables-nft', 'nft'), () => {
  it('delays Services of ipvs mode and does not stop them', async () => {
    bench = workbench('ipvs')
    sh('nft add table ip nat; nft add chain ip nat PREROUTING "{ type nat hook prerouting priority 0; }"')
    write('web', '10.96.0.1', '10.244.0.1')
    bench.start()
    await eventually(() => {
      assert.ok(virtualServers().some((line) => line.includes('10.96.0.1:80 -r 10.244.0.1:8080')))
      assert.deepEqual(boundAddresses(), ['10.96.0.1/32'])
    }, 60_000)
    assert.match(bench.log, /Rules are still missing; adding virtual servers without them" ipFamily="IPv4"/)
    assert.match(sh('nft list chain ip nat POSTROUTING'), /jump KUBE-POSTROUTING/)
  })
})
