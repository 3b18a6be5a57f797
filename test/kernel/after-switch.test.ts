/**
 * What a connection of ipvs mode keeps after a switch to iptables mode: its address, whose other
 * ports lead to no program of the node, and nothing of other Services.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { ADDRESSES, Cluster, NODE, POD_PORT, REFUSAL_MS } from '../support/cluster.ts'
import { ClusterTraffic } from '../support/cluster-traffic.ts'
import { type Workbench } from '../support/daemon.ts'
import { eventually, until } from '../support/deadline.ts'
import { bothFamilies, FAMILIES } from '../support/every-kind.ts'
import { boundAddresses, links, rulesText, setsText, virtualServers } from '../support/kernel-state.ts'
import { service, slice } from '../support/manifests.ts'
import { needs } from './needs.ts'

const PERIOD_MS = 2000
/** IPVS forgets a connection that was reset after 10 s, and connections are counted every 10 s. */
const FORGOTTEN_MS = 40_000

for (const firewall of ['iptables', 'nftables'])
  describe(
    `after a switch from ipvs mode with the ${firewall} firewall`,
    needs('iptables-nft', 'nft', 'program:gcc'),
    () => {
      /** A program of the node answers at these ports of all its addresses. The second one is a port of the Service. */
      const NODES_PORTS = [81, 82]
      const vip = (number: number) => ({ IPv4: `10.96.0.${number}`, IPv6: `fd00:10:96::${number}` })
      const bound = (number: number): string[] => [`${vip(number).IPv4}/32`, `${vip(number).IPv6}/128`]
      const manifests = (number: number) => [
        service(`web-${number}`, {
          clusterIPs: Object.values(vip(number)),
          ipFamilies: FAMILIES,
          ipFamilyPolicy: 'RequireDualStack',
          ports: [
            { name: 'tcp', protocol: 'TCP', port: 80, targetPort: POD_PORT },
            { name: 'none', protocol: 'TCP', port: 82, targetPort: POD_PORT },
          ],
        }),
        ...FAMILIES.map((family) =>
          slice(`web-${number}`, [ADDRESSES.a[family]], {
            addressType: family,
            ports: [{ name: 'tcp', protocol: 'TCP', port: POD_PORT }],
          }),
        ),
      ]
      let cluster: Cluster
      let traffic: ClusterTraffic
      let bench: Workbench
      before(async () => {
        cluster = Cluster.start([])
        for (const port of NODES_PORTS) cluster.serve('node', { protocol: 'tcp', address: '::', port })
        traffic = await ClusterTraffic.start()
        const clusterCIDR = '10.244.0.0/16,fd00:10:244::/47'
        bench = bothFamilies({}, { clusterCIDR, iptables: { minSyncPeriod: '0s' }, kubeIPVS: { firewall } })
        bench.write('web.yaml', ...manifests(1), ...manifests(2))
        bench.start()
        await eventually(() => assert.equal(virtualServers().filter((line) => line.includes(' -r ')).length, 4))
        await eventually(() => assert.deepEqual(boundAddresses(), [...bound(1), ...bound(2)].sort()))
      })
      after(async () => {
        await traffic.close()
        await bench.close()
        cluster.stop()
      })

      it('one connection keeps its address, whose other ports stay refused, and no other address', async () => {
        const places = FAMILIES.map((family) => ({ protocol: 'tcp', address: vip(1)[family], port: 80 }) as const)
        const held = await traffic.hold(places, places.length, PERIOD_MS)
        assert.equal((await held.report()).connections, places.length)
        bench.configure({ mode: 'iptables', kubeIPVS: { firewall } })
        await until('the count of connections', () => /Connections still use virtual servers/.test(bench.log))
        await eventually(() => assert.deepEqual(boundAddresses(), bound(1)))
        await eventually(() => assert.ok(virtualServers().every((line) => !/ -w [1-9]/.test(line))))
        const outcomes = (addresses: Readonly<Record<(typeof FAMILIES)[number], string>>) =>
          Promise.all(
            FAMILIES.flatMap((family) =>
              NODES_PORTS.map((port) =>
                cluster.ask('client', { protocol: 'tcp', address: addresses[family], port }, { withinMs: REFUSAL_MS }),
              ),
            ),
          )
        assert.deepEqual(new Set(await outcomes(NODE)), new Set(['node own']))
        assert.deepEqual(new Set(await outcomes(vip(1))), new Set(['refused']))
        assert.equal((await held.report()).dropped, 0, held.failures.slice(0, 1000))
        await held.close()
        await eventually(() => assert.deepEqual([virtualServers(), boundAddresses()], [[], []]), FORGOTTEN_MS)
        await eventually(() => {
          assert.doesNotMatch(links(), /kube-ipvs0/)
          assert.doesNotMatch(setsText('list', '-n'), /KUBE-/)
          assert.doesNotMatch(rulesText('iptables-save') + rulesText('ip6tables-save'), /KUBE-IPVS/)
          assert.doesNotMatch(rulesText('nft list tables'), /kube-ipvs/)
        })
        assert.doesNotMatch(bench.log, /Cannot remove what ipvs mode left/)
      })
    },
  )
