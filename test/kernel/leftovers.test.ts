/** What ipvs mode left is found in iptables mode also where another program has deleted the device. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Workbench } from '../support/daemon.ts'
import { eventually } from '../support/deadline.ts'
import { boundAddresses, freshNode, kubeLines, localRoutes, setsText, virtualServers } from '../support/kernel-state.ts'
import { service, slice } from '../support/manifests.ts'
import { sh } from '../support/programs.ts'

describe('iptables mode removes what ipvs mode left', () => {
  let bench: Workbench
  beforeEach(freshNode)
  afterEach(() => bench.close())

  for (const virtualAddresses of ['addresses', 'routes'] as const)
    it(`when kube-ipvs0 is gone (virtual IPs as ${virtualAddresses})`, async () => {
      bench = new Workbench({}, { kubeIPVS: { virtualAddresses } })
      bench.write('web.yaml', service('web', { clusterIP: '10.96.0.1' }), slice('web', ['10.244.0.1']))
      let daemon = bench.start()
      const bound = virtualAddresses === 'routes' ? localRoutes : boundAddresses
      await eventually(() => assert.deepEqual(bound(), ['10.96.0.1/32']))
      assert.equal(await bench.stop(daemon), 143)
      sh('ip link delete kube-ipvs0 2>/dev/null || true')
      assert.equal(virtualServers().length, 2)
      bench.configure({ mode: 'iptables' })
      daemon = bench.start()
      await eventually(() => {
        assert.deepEqual([virtualServers(), boundAddresses(), localRoutes()], [[], [], []])
        assert.doesNotMatch(setsText('list', '-n'), /KUBE-/)
      })
      await eventually(() => assert.ok(kubeLines('iptables-save').some((line) => line.includes('KUBE-SVC-'))))
      await eventually(() => assert.match(bench.log, /"Removed what ipvs mode left"/))
    })

  it('and looks no further on a node without any of it', async () => {
    bench = new Workbench()
    bench.configure({ mode: 'iptables' })
    bench.write('web.yaml', service('web', { clusterIP: '10.96.0.1' }), slice('web', ['10.244.0.1']))
    bench.start()
    await eventually(() => assert.ok(kubeLines('iptables-save').some((line) => line.includes('KUBE-SVC-'))))
    assert.doesNotMatch(bench.log, /what ipvs mode left/)
  })
})
