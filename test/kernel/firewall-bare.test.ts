/**
 * A kernel without xtables and ip_set, and a node without their programs: ipvs mode runs there
 * without being told to, and cleanup removes it.
 * @bare
 */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Diagnosis } from '../../src/doctor/diagnose.ts'
import { Workbench } from '../support/daemon.ts'
import { eventually } from '../support/deadline.ts'
import { boundAddresses, freshNode, rulesText, virtualServers } from '../support/kernel-state.ts'
import { service, slice } from '../support/manifests.ts'

describe('on a node without iptables and ipset', () => {
  let bench: Workbench
  beforeEach(() => {
    freshNode()
    bench = new Workbench({}, { clusterCIDR: '10.244.0.0/16' })
    bench.write('web.yaml', service('web', { clusterIP: '10.96.0.1' }), slice('web', ['10.244.0.1']))
  })
  afterEach(() => bench.close())

  it('auto is the nftables firewall and no fallback, status says so, and cleanup removes it', async () => {
    const daemon = bench.start()
    await eventually(() => assert.deepEqual(boundAddresses(), ['10.96.0.1/32']))
    await eventually(() => assert.match(rulesText('nft list table ip kube-ipvs'), /10\.96\.0\.1 \. tcp \. 80/))
    assert.match(bench.log, /"Using the firewall" firewall="nftables" configured="auto"/)
    assert.doesNotMatch(bench.log, /Falling back/)
    const metrics = await (await fetch('http://127.0.0.1:10249/metrics')).text()
    assert.match(metrics, /^kubeipvs_firewall\{active="nftables",configured="auto",reason="[a-z]+-missing"\} 1$/m)
    const { stdout } = await bench.command('status')
    assert.match(stdout, /^firewall +nftables: /m)
    assert.doesNotMatch(stdout, /^sets /m)
    await bench.stop(daemon)
    const { code, stderr } = await bench.run('cleanup')
    assert.deepEqual([code, stderr], [0, ''])
    assert.deepEqual([virtualServers(), boundAddresses()], [[], []])
    assert.doesNotMatch(rulesText('nft list tables'), /kube-ipvs/)
  })

  it('doctor misses no program of iptables, and no module of it, while no daemon runs', async () => {
    const { stdout } = await bench.run('doctor', '--output', 'json')
    const { checks } = JSON.parse(stdout) as Diagnosis // what our own program prints
    for (const id of ['iptables-programs', 'kernel-modules'])
      assert.deepEqual(
        checks.flatMap((one) => (one.id === id ? [one.severity, one.findings] : [])),
        ['ok', []],
      )
  })

  it('the commands that look miss nothing', async () => {
    bench.start()
    await eventually(async () =>
      assert.match(
        (await bench.command('explain', 'demo/web')).stdout,
        /known from the daemon[^]*ok: 10\.96\.0\.1 in table ip kube-ipvs, set virtual-ips/,
      ),
    )
    const explained = await bench.command('explain', '10.96.0.1:80', '--from', 'node')
    assert.match(explained.stdout, /OUTPUT, ip kube-ipvs services: cluster-ips has 10\.96\.0\.1 \. tcp \. 80:/)
    assert.match(explained.stdout, /OUTPUT, IPVS: virtual server 10\.96\.0\.1:80\/tcp/)
    assert.doesNotMatch(explained.stdout, /not considered/)
    const { stdout: doctor } = await bench.command('doctor', '--socket', bench.socket)
    assert.doesNotMatch(doctor, /docs\/doctor\.md#(?:iptables|ipset|lacks|service-paths|host-ports)/)
    assert.doesNotMatch(doctor, /^error /m)
    assert.deepEqual(await bench.command('diff'), { code: 0, stdout: '', stderr: '' })
    assert.match((await bench.command('top', '--once')).stdout, /^demo\/web +0 /m)
    assert.match((await bench.command('cleanup', '--dry-run')).stdout, /^nft delete table ip kube-ipvs$/m)
  })

  it('kubeIPVS.firewall: iptables ends the start, because iptables mode cannot work either', async () => {
    bench.configure({ clusterCIDR: '10.244.0.0/16', kubeIPVS: { firewall: 'iptables' } })
    const daemon = bench.start()
    await eventually(() => assert.equal(daemon.exitCode, 1))
    assert.match(bench.log, /"Error running ProxyServer" err="/)
    assert.deepEqual(virtualServers(), [])
  })
})
