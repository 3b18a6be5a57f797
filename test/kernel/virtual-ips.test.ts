/** Which externalIPs and load-balancer addresses a Service may have, on a real kernel: a refused address is in no table. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Workbench } from '../support/daemon.ts'
import { service, slice } from '../support/manifests.ts'
import { boundAddresses, freshNode, setsText, virtualServers } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'

const REFUSED = ['8.8.8.8', '10.96.0.10', '203.0.114.1']
const DNS = service(
  'kube-dns',
  { clusterIP: '10.96.0.10', ports: [{ name: 'dns', protocol: 'UDP', port: 53 }] },
  { metadata: { namespace: 'kube-system' } },
)
const WEB = service(
  'web',
  {
    type: 'LoadBalancer',
    clusterIP: '10.96.0.1',
    externalIPs: ['203.0.113.5', '8.8.8.8', '10.96.0.10'],
    loadBalancerSourceRanges: ['10.0.0.0/8'],
  },
  { status: { loadBalancer: { ingress: [{ ip: '203.0.113.6' }, { ip: '203.0.114.1' }] } } },
)
const SERVERS = ['10.96.0.10:53', '10.96.0.1:80', '203.0.113.5:80', '203.0.113.6:80']

/** Addresses and ports that are served, without real servers. */
const served = (): string[] =>
  virtualServers().flatMap((line) => (line.startsWith('-A') ? (/-[tu] (\S+)/.exec(line)?.[1] ?? []) : []))

/** Everything of ours in the kernel, as text. */
const everything = (): string => [setsText('save'), ...virtualServers(), ...boundAddresses()].join('\n')

let bench: Workbench
beforeEach(freshNode)
afterEach(() => bench.close())

describe('allowedExternalIPs and allowedLoadBalancerIPs', () => {
  it('keep refused addresses out of every table and name the field', async () => {
    const kubeIPVS = {
      allowedExternalIPs: ['203.0.113.0/24', '10.96.0.0/16'],
      allowedLoadBalancerIPs: ['203.0.113.0/24'],
    }
    bench = new Workbench({}, { kubeIPVS })
    bench.write('web.yaml', DNS, WEB, slice('web', ['10.244.0.1']))
    const daemon = bench.start()
    await eventually(() => assert.deepEqual(served().toSorted(), SERVERS.toSorted()))
    await eventually(() => assert.equal(boundAddresses().length, 4))
    const state = everything()
    for (const address of ['8.8.8.8', '203.0.114.1']) assert.ok(!state.includes(address), state)
    assert.ok(!state.includes('10.96.0.10,tcp:80') && !served().includes('10.96.0.10:80'), state)
    for (const address of REFUSED) assert.ok(bench.log.includes(`${address} is refused`), bench.log)
    await eventually(() =>
      assert.match(
        bench.log,
        /field="spec\.externalIPs"[^\n]*8\.8\.8\.8 is refused: it is in no range of kubeIPVS\.allowedExternalIPs/,
      ),
    )
    await eventually(() =>
      assert.match(bench.log, /field="status\.loadBalancer\.ingress"[^\n]*203\.0\.114\.1 is refused/),
    )
    await bench.stop(daemon)
  })

  it('work as flags in addition to the file too, and remove what they no longer allow', async () => {
    bench = new Workbench()
    bench.write('web.yaml', DNS, WEB, slice('web', ['10.244.0.1']))
    const free = bench.start('--allow-protected-external-ips')
    await eventually(() => assert.equal(served().length, 7))
    await bench.stop(free)
    const bound = bench.start(
      '--allowed-external-ips=203.0.113.0/24',
      '--allowed-load-balancer-ips=203.0.113.0/24,203.0.114.0/24',
    )
    await eventually(() => assert.deepEqual(served().toSorted(), [...SERVERS, '203.0.114.1:80'].toSorted()))
    await eventually(() => assert.ok(!boundAddresses().includes('8.8.8.8/32')))
    await bench.stop(bound)
  })
})

describe('externalIPs that the node depends on', () => {
  const NODE_IP = '10.0.2.15'
  const GATEWAY = '10.0.2.2'
  const at = (...externalIPs: string[]) => service('ext', { clusterIP: '10.96.0.1', externalIPs })

  it('are refused without any option: its own addresses, its gateway, the addresses of DNS', async () => {
    sh(`ip route replace default via ${GATEWAY} dev eth0`)
    bench = new Workbench()
    bench.write('ext.yaml', DNS, at(NODE_IP, GATEWAY, '10.96.0.10', '203.0.113.5'), slice('ext', ['10.244.0.1']))
    bench.start()
    await eventually(() => assert.deepEqual(served().toSorted(), ['10.96.0.10:53', '10.96.0.1:80', '203.0.113.5:80']))
    for (const [address, owner] of [
      [NODE_IP, 'this node'],
      [GATEWAY, 'the default gateways of this node'],
      ['10.96.0.10', 'the resolvers of this cluster'],
    ])
      await eventually(() =>
        assert.ok(bench?.log.includes(`${address} is refused: it is an address of ${owner}`), owner),
      )
  })

  it('change with the node: a new address of the node is refused from then on, a former gateway is not', async () => {
    sh('ip route replace default via 10.0.2.3 dev eth0')
    bench = new Workbench()
    bench.write('ext.yaml', at('198.18.0.1', '10.0.2.3'), slice('ext', ['10.244.0.1']))
    bench.start()
    await eventually(() => assert.deepEqual(served().toSorted(), ['10.96.0.1:80', '198.18.0.1:80']))
    sh(`ip route replace default via ${GATEWAY} dev eth0; ip address add 198.18.0.1/24 dev eth0`)
    await eventually(() => assert.deepEqual(served().toSorted(), ['10.0.2.3:80', '10.96.0.1:80']))
  })

  it('do not concern load-balancer addresses: a VIP that this node has is served inside its list', async () => {
    sh('ip address add 203.0.113.6/32 dev eth0')
    bench = new Workbench({}, { kubeIPVS: { allowedLoadBalancerIPs: ['203.0.113.0/24'], allowedExternalIPs: [] } })
    bench.write('web.yaml', WEB, slice('web', ['10.244.0.1']))
    bench.start()
    await eventually(() => assert.deepEqual(served().toSorted(), ['10.96.0.1:80', '203.0.113.6:80']))
    assert.deepEqual(boundAddresses(), ['10.96.0.1/32'])
  })
})
