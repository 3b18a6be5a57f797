/** The tables that nftables mode of kube-proxy leaves, on a real kernel: who removes them, and when. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Workbench } from '../support/daemon.ts'
import { service, slice } from '../support/manifests.ts'
import { boundAddresses, freshNode, rulesText } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'
import { needs } from './needs.ts'

const LEFT = ['table ip kube-proxy', 'table ip6 kube-proxy']
/** Of another name, or of another family. */
const FOREIGN = ['table ip mine', 'table inet kube-proxy', 'table ip kube-proxy-2']

let bench: Workbench
beforeEach(() => {
  freshNode()
  bench = new Workbench()
})
afterEach(() => bench.close())

/** As kube-proxy makes them: base chains, Service chains, a verdict map and a set. */
function nftablesModeRan(): void {
  for (const [family, type, address] of [
    ['ip', 'ipv4_addr', '10.96.0.1'],
    ['ip6', 'ipv6_addr', 'fd00:10:96::1'],
  ])
    sh(`nft '
      add table ${family} kube-proxy { comment "rules for kube-proxy"; }
      add chain ${family} kube-proxy nat-prerouting { type nat hook prerouting priority -100; }
      add chain ${family} kube-proxy services
      add chain ${family} kube-proxy service-1
      add set ${family} kube-proxy cluster-ips { type ${type}; }
      add map ${family} kube-proxy service-ips { type ${type} . inet_proto . inet_service : verdict; }
      add element ${family} kube-proxy cluster-ips { ${address} }
      add element ${family} kube-proxy service-ips { ${address} . tcp . 80 : goto service-1 }
      add rule ${family} kube-proxy services ${family} daddr . meta l4proto . th dport vmap @service-ips
      add rule ${family} kube-proxy nat-prerouting jump services
      add rule ${family} kube-proxy service-1 counter'`)
}

const tables = (): string[] =>
  sh('nft list tables')
    .split('\n')
    .filter((line) => [...LEFT, ...FOREIGN].includes(line))

describe('tables of nftables mode', needs('nft'), () => {
  beforeEach(() => {
    for (const table of FOREIGN) sh(`nft add ${table}`)
    nftablesModeRan()
  })

  it('are printed by cleanup --dry-run and removed by cleanup, and others are not', async () => {
    const commands = LEFT.map((table) => `nft delete ${table}\n`)
    const preview = await bench.run('cleanup', '--dry-run')
    assert.equal(preview.code, 0, preview.stderr)
    assert.ok(preview.stdout.startsWith(commands.join('')), preview.stdout)
    assert.deepEqual(tables().sort(), [...LEFT, ...FOREIGN].sort())
    const cleanup = await bench.run('cleanup')
    assert.deepEqual([cleanup.code, cleanup.stderr], [0, ''])
    assert.ok(cleanup.stdout.startsWith(commands.join('')), cleanup.stdout)
    assert.deepEqual(tables().sort(), [...FOREIGN].sort())
    const again = await bench.run('cleanup')
    assert.deepEqual([again.code, again.stdout, again.stderr], [0, '', ''])
  })

  for (const mode of ['ipvs', 'iptables'] as const)
    it(`are removed by a start in ${mode} mode once its own state is complete`, async () => {
      bench.configure({ mode, clusterCIDR: '10.244.0.0/16' })
      bench.write('web.yaml', service('web', { clusterIP: '10.96.0.1' }), slice('web', ['10.244.0.1']))
      bench.start()
      await eventually(() => assert.match(bench.log, /Removed what nftables mode left/))
      assert.deepEqual(tables().sort(), [...FOREIGN].sort())
      if (mode === 'ipvs') assert.deepEqual(boundAddresses(), ['10.96.0.1/32'])
      else assert.match(rulesText('iptables-save -t nat'), /-A KUBE-SEP-\S+ .*--to-destination 10\.244\.0\.1:8080/)
    })

  it('stay when diff only looks', async () => {
    assert.equal((await bench.command('diff')).stderr, '')
    assert.deepEqual(tables().sort(), [...LEFT, ...FOREIGN].sort())
  })
})
