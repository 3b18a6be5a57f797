/**
 * hostPorts as the CNI plugin portmap writes them: its jump at the top of PREROUTING and OUTPUT
 * takes its port of every address of the node, the API server's included, until ours stands first
 * again. A program that insists is reported.
 */
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { Cluster } from '../support/cluster.ts'
import { Workbench } from '../support/daemon.ts'
import { service, slice } from '../support/manifests.ts'
import { rulesText } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'
import { needs } from './needs.ts'

const VIP = { protocol: 'tcp', address: '10.96.0.1', port: 8443 } as const
const HOST_PORT = { protocol: 'tcp', address: '10.0.2.15', port: 8443 } as const
const CHAINS = ['PREROUTING', 'OUTPUT'] as const
const JUMP = '-m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT'

let cluster: Cluster
let bench: Workbench
before(() => {
  cluster = Cluster.start(['tcp'])
})
after(() => cluster.stop())

for (const backEnd of ['nft', 'legacy'] as const) {
  const need = backEnd === 'nft' ? ('iptables-nft' as const) : ('legacy-iptables' as const)
  const iptables = `iptables-${backEnd}`

  /** A hostPort 8443 of pod b, with its jumps in front of all others. */
  const addHostPort = (): void => {
    sh(`
      ${iptables} -t nat -N CNI-HOSTPORT-DNAT; ${iptables} -t nat -N CNI-DN-b
      for chain in ${CHAINS.join(' ')}; do ${iptables} -t nat -I $chain ${JUMP}; done
      ${iptables} -t nat -A CNI-DN-b -p tcp -m tcp --dport 8443 -j DNAT --to-destination 10.244.0.2:8080
      ${iptables} -t nat -A CNI-HOSTPORT-DNAT -p tcp -m multiport --dports 8443 -j CNI-DN-b`)
  }
  /** The targets of a chain of nat, in order. */
  const targets = (chain: string): string[] =>
    Array.from(rulesText(`${iptables} -t nat -S ${chain}`).matchAll(/ -j (\S+)/g), ([, target = '']) => target)

  for (const mode of ['ipvs', 'iptables'] as const)
    describe(`a hostPort, ${mode} mode with ${iptables}`, needs(need), () => {
      const begin = (): void => {
        bench = new Workbench(
          {},
          {
            mode,
            clusterCIDR: '10.244.0.0/16',
            ipvs: { syncPeriod: '1s' },
            iptables: { syncPeriod: '1s', minSyncPeriod: '0s' },
          },
        )
        const ports = [{ name: 'https', protocol: 'TCP', port: 8443, targetPort: 8080 }]
        const endpoints = [{ name: 'https', protocol: 'TCP', port: 8080 }]
        bench.write(
          'api.yaml',
          service('api', { clusterIP: VIP.address, ports }),
          slice('api', ['10.244.0.1'], { ports: endpoints }),
        )
        // The daemon takes the back end of kubelet.
        sh(`${iptables} -t mangle -N KUBE-IPTABLES-HINT`)
      }
      const clear = async (): Promise<void> => {
        await bench.close()
        sh(`ip link delete kube-ipvs0 2>/dev/null; ipvsadm -C
          nft flush ruleset 2>/dev/null
          for table in $(cat /proc/net/ip_tables_names 2>/dev/null); do printf '*%s\\nCOMMIT\\n' $table | iptables-legacy-restore; done
          ipset destroy 2>/dev/null || true`)
      }
      afterEach(clear)

      it('takes its port of the node and of no Service, whichever came first', async () => {
        begin()
        bench.start()
        await eventually(async () => assert.equal((await cluster.ask('b', VIP)).split(' ')[0], 'a'))
        addHostPort()
        await eventually(() => {
          for (const chain of CHAINS) assert.deepEqual(targets(chain), ['KUBE-SERVICES', 'CNI-HOSTPORT-DNAT'])
        }, 30_000)
        // In iptables mode the node has no route to a cluster IP.
        for (const from of mode === 'ipvs' ? (['client', 'b', 'node'] as const) : (['client', 'b'] as const))
          assert.equal((await cluster.ask(from, VIP)).split(' ')[0], 'a', from)
        assert.equal((await cluster.ask('client', HOST_PORT)).split(' ')[0], 'b')
        assert.doesNotMatch(bench.log, /takes packets of Services/)
      })

      it('that comes while no proxy runs takes no port of a Service after the next start', async () => {
        begin()
        const daemon = bench.start()
        await eventually(async () => assert.equal((await cluster.ask('client', VIP)).split(' ')[0], 'a'))
        await bench.stop(daemon)
        addHostPort()
        for (const chain of CHAINS) assert.equal(targets(chain)[0], 'CNI-HOSTPORT-DNAT')
        bench.start()
        await eventually(() => {
          for (const chain of CHAINS) assert.deepEqual(targets(chain), ['KUBE-SERVICES', 'CNI-HOSTPORT-DNAT'])
        }, 30_000)
        assert.equal((await cluster.ask('client', VIP)).split(' ')[0], 'a')
        assert.equal((await cluster.ask('client', HOST_PORT)).split(' ')[0], 'b')
      })
    })
}

describe('a program that insists on the first place', needs('iptables-nft'), () => {
  afterEach(() => bench.close())

  it('gets it after three rounds, and is reported with its rule and port', async () => {
    sh('iptables-nft -t mangle -N KUBE-IPTABLES-HINT')
    bench = new Workbench({}, { mode: 'ipvs' })
    bench.write('web.yaml', service('web', { clusterIP: '10.96.0.2' }), slice('web', ['10.244.0.1']))
    bench.start()
    const first = (): string => rulesText('iptables-nft -t nat -S PREROUTING').split('\n')[1] ?? ''
    await eventually(() => assert.match(first(), /KUBE-SERVICES/))
    const rival = '-p tcp -m tcp --dport 443 -j REDIRECT --to-ports 8443'
    for (let round = 0; round < 3; round++) {
      sh(`iptables-nft -t nat -D PREROUTING ${rival} 2>/dev/null; iptables-nft -t nat -I PREROUTING ${rival}`)
      await eventually(() => assert.match(first(), /KUBE-SERVICES/), 30_000)
    }
    sh(`iptables-nft -t nat -D PREROUTING ${rival}; iptables-nft -t nat -I PREROUTING ${rival}`)
    await eventually(() => {
      assert.match(
        bench.log,
        /the rule .{1,3}-t nat -A PREROUTING -p tcp .* -j REDIRECT --to-ports 8443.{1,3} takes packets of Services \(443\/tcp, /,
      )
    })
    assert.match(first(), /REDIRECT/)
    await eventually(async () => {
      const { stdout } = await bench.command('status', '--problems')
      assert.match(stdout.replace(/\s+/g, ' '), /stands in front of the jump to KUBE-SERVICES/)
    })
    sh(`iptables-nft -t nat -D PREROUTING ${rival}`)
    await eventually(() => assert.match(bench.log, /Problems with an object resolved" object="order of IPv4"/), 120_000)
  })
})
