/** The whole daemon on a kernel without IPv6 (ipv6.disable=1): IPv4 is complete, and nothing of IPv6 is tried. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { Workbench } from '../../support/daemon.ts'
import { service, slice } from '../../support/manifests.ts'
import { boundAddresses, freshNode, kubeLines, setsText, virtualServers } from '../../support/kernel-state.ts'
import { isMet } from '../needs.ts'
import { eventually } from '../../support/deadline.ts'

const suffix = isMet('iptables-nft') ? '' : '-legacy'

describe('daemon on a kernel without IPv6', () => {
  let bench: Workbench
  before(() => {
    assert.ok(!existsSync('/proc/net/if_inet6'), 'this kernel has IPv6')
    freshNode()
    bench = new Workbench()
    bench.write(
      'both.yaml',
      service('both', {
        clusterIPs: ['10.96.0.1', 'fd00:10:96::1'],
        ipFamilies: ['IPv4', 'IPv6'],
        externalIPs: ['192.0.2.10', '2001:db8::10'],
      }),
      slice('both', ['10.244.0.1']),
      service('six', { clusterIP: 'fd00:10:96::2', clusterIPs: ['fd00:10:96::2'], ipFamilies: ['IPv6'] }),
    )
    bench.start()
  })
  after(() => bench.close())

  it('writes the frontends of IPv4 and their addresses', async () => {
    await eventually(() =>
      assert.deepEqual(virtualServers(), [
        '-A -t 10.96.0.1:80 -s rr',
        '-A -t 192.0.2.10:80 -s rr',
        '-a -t 10.96.0.1:80 -r 10.244.0.1:8080 -m -w 1',
        '-a -t 192.0.2.10:80 -r 10.244.0.1:8080 -m -w 1',
      ]),
    )
    await eventually(() => assert.deepEqual(boundAddresses(), ['10.96.0.1/32', '192.0.2.10/32']))
  })

  it('writes sets and rules of IPv4 only', async () => {
    await eventually(() =>
      assert.match(kubeLines(`iptables${suffix}-save`).join('\n'), /-A KUBE-POSTROUTING .*MASQUERADE/),
    )
    const sets = setsText('list', '-n').split('\n').filter(Boolean)
    assert.equal(sets.filter((name) => name.startsWith('KUBE-6-')).length, 0)
    assert.equal(sets.filter((name) => name.startsWith('KUBE-')).length, 17)
  })

  it('logs once that IPv6 is not served', async () => {
    await eventually(() => assert.match(bench.log, /"kube-proxy running in single-stack mode" ipFamily="IPv4"/))
    assert.equal(bench.log.split('"No kernel support for family" ipFamily="IPv6"').length, 2)
  })

  it('tries nothing of IPv6, and has no work left', async () => {
    assert.doesNotMatch(bench.log, /^[EW].*IPv6/m)
    await eventually(async () => {
      const { code, stdout } = await bench.command('diff')
      assert.equal(code, 0, stdout)
    })
    const status = await bench.command('status', '--output', 'json')
    assert.equal(status.code, 0, status.stderr)
  })
})
