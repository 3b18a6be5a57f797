/** A node without the programs of iptables and ipset: which firewall runs there by itself, and what it says. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Workbench } from '../support/daemon.ts'
import { eventually } from '../support/deadline.ts'
import { boundAddresses, freshNode, kubeLines, rulesText, virtualServers } from '../support/kernel-state.ts'
import { service, slice } from '../support/manifests.ts'
import { run, sh } from '../support/programs.ts'
import { needs } from './needs.ts'

/** This mount namespace is the test's own. */
const hide = (): void =>
  void sh(
    'folder=$(mktemp -d /run/sbin-XXXXXX) && cp -a /usr/sbin/. $folder && rm -f $folder/*tables* $folder/ipset* && mount --bind $folder /usr/sbin',
  )
const show = (): void => void sh('while grep -q " /usr/sbin " /proc/mounts; do umount /usr/sbin; done')
const DROPS = `add table inet mine
add chain inet mine forwarded { type filter hook forward priority 0; policy drop; }
add chain inet mine ended { type filter hook forward priority 1; }
add rule inet mine ended tcp dport 22 accept
add rule inet mine ended reject
`

let bench: Workbench
beforeEach(() => {
  freshNode()
  bench = new Workbench({}, { clusterCIDR: '10.244.0.0/16' })
  bench.write('web.yaml', service('web', { clusterIP: '10.96.0.1' }), slice('web', ['10.244.0.1']))
})
afterEach(async () => {
  await bench.close()
  show()
})

describe('without a program of iptables', needs('iptables-nft', 'nft'), () => {
  it('ipvs mode runs with the nftables firewall, removes chains of iptables, and names chains that drop', async () => {
    // What a proxy left before its programs were uninstalled.
    run(['iptables-nft-restore'], '*nat\n:KUBE-SERVICES -\n-A PREROUTING -j KUBE-SERVICES\nCOMMIT\n')
    run(['nft', '-f', '-'], DROPS)
    hide()
    bench.start()
    await eventually(() => assert.match(bench.log, /"Removed the rules and sets of iptables" count=3 /))
    assert.match(bench.log, /"Using the firewall" firewall="nftables" configured="auto" reason="[^"]*iptables/)
    assert.equal(virtualServers().length, 2)
    assert.deepEqual(boundAddresses(), ['10.96.0.1/32'])
    assert.match(rulesText('nft list tables'), /table ip kube-ipvs\n/)
    const rules = ['forwarded', 'ended'].map(
      (chain) => `nft insert rule inet mine ${chain} ct state established,related accept`,
    )
    for (const rule of rules) assert.ok(bench.log.includes(rule), bench.log)
    assert.match((await bench.command('status')).stdout, /^firewall +nftables: /m)
    const problems = async (): Promise<string> => (await bench.command('status', '--problems')).stdout
    assert.match(await problems(), /a drop of another table; chain forwarded .* chain ended /)
    // The rules are added, and the problem is over.
    for (const rule of rules) sh(rule)
    await eventually(async () => assert.doesNotMatch(await problems(), /drop of another table/))
    show()
    assert.deepEqual(kubeLines('iptables-nft-save'), [])
  })

  it('cleanup removes the private tables, and chains of iptables over netlink', async () => {
    run(['iptables-nft-restore'], '*nat\n:KUBE-SERVICES -\n-A PREROUTING -j KUBE-SERVICES\nCOMMIT\n')
    run(['nft', '-f', '-'], 'add table ip kube-ipvs; add table ip6 kube-ipvs')
    hide()
    const preview = await bench.run('cleanup', '--dry-run')
    assert.deepEqual([preview.code, preview.stderr], [0, ''])
    for (const line of ['nft delete chain ip nat KUBE-SERVICES', 'nft delete table ip6 kube-ipvs'])
      assert.ok(preview.stdout.split('\n').includes(line), preview.stdout)
    assert.deepEqual((await bench.run('cleanup')).code, 0)
    assert.doesNotMatch(rulesText('nft list tables'), /kube-ipvs/)
    show()
    assert.deepEqual(kubeLines('iptables-nft-save'), [])
  })

  it('kubeIPVS.firewall: iptables ends the start with what is missing', async () => {
    hide()
    bench.configure({ clusterCIDR: '10.244.0.0/16', kubeIPVS: { firewall: 'iptables' } })
    const daemon = bench.start()
    await eventually(() => assert.equal(daemon.exitCode, 1))
    assert.match(bench.log, /"Error running ProxyServer" err="no iptables-save/)
    assert.deepEqual(virtualServers(), [])
  })
})
