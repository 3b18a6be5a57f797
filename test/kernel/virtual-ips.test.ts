/**
 * Which externalIPs and load-balancer addresses a Service may have, on a real kernel: a refused
 * address is in no table.
 */
import assert from 'node:assert/strict'
import { connect, createServer, type Server } from 'node:net'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { ApiServer } from '../../dev/api-server/server.ts'
import { openRtnetlink } from '../../native/open.ts'
import { removeApiServerAddress } from '../../src/modes/leftovers/api-server-addresses.ts'
import { Workbench } from '../support/daemon.ts'
import { node, service, slice } from '../support/manifests.ts'
import { boundAddresses, freshNode, localRoutes, setsText, virtualServers } from '../support/kernel-state.ts'
import { inside, leave } from '../support/net-namespace.ts'
import { sh } from '../support/programs.ts'
import { deadline, eventually } from '../support/deadline.ts'

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

  it('follow the node: a new address of the node and a new gateway are refused from then on, and a former gateway still is', async () => {
    bench = new Workbench()
    bench.write('ext.yaml', at('198.18.0.1', '10.0.2.3', GATEWAY), slice('ext', ['10.244.0.1']))
    bench.start()
    await eventually(() =>
      assert.deepEqual(served().toSorted(), ['10.0.2.2:80', '10.0.2.3:80', '10.96.0.1:80', '198.18.0.1:80']),
    )
    sh('ip address add 198.18.0.1/24 dev eth0')
    await eventually(() => assert.deepEqual(served().toSorted(), ['10.0.2.2:80', '10.0.2.3:80', '10.96.0.1:80']))
    bench.write('ext.yaml', at('198.18.0.1'), slice('ext', ['10.244.0.1']))
    await eventually(() => assert.deepEqual(served().toSorted(), ['10.96.0.1:80']))
    sh('ip route replace default via 10.0.2.3 dev eth0; ip address add 198.18.1.1/24 dev eth0')
    const again = ['198.18.0.1', '10.0.2.3', GATEWAY]
    bench.write('ext.yaml', at(...again), slice('ext', ['10.244.0.1']))
    await eventually(() => assert.deepEqual(served().toSorted(), ['10.0.2.2:80', '10.96.0.1:80']))
    bench.write('ext.yaml', at('10.0.2.3'), slice('ext', ['10.244.0.1']))
    await eventually(() => assert.deepEqual(served().toSorted(), ['10.96.0.1:80']))
    sh(`ip route replace default via ${GATEWAY} dev eth0; ip address add 198.18.2.1/24 dev eth0`)
    bench.write('ext.yaml', at(...again), slice('ext', ['10.244.0.1']))
    await eventually(() => assert.ok(bench.log.includes('10.0.2.3 is refused: it is an address of another node')))
    await eventually(() => assert.deepEqual(served().toSorted(), ['10.96.0.1:80']))
  })

  it('do not concern load-balancer addresses: a VIP that this node has is served inside its list', async () => {
    sh('ip address add 203.0.113.6/32 dev eth0')
    bench = new Workbench({}, { kubeIPVS: { allowedLoadBalancerIPs: ['203.0.113.0/24'], allowedExternalIPs: [] } })
    bench.write('web.yaml', WEB, slice('web', ['10.244.0.1']))
    bench.start()
    await eventually(() => assert.deepEqual(served().toSorted(), ['10.96.0.1:80', '203.0.113.6:80']))
    // An address is bound after its virtual server is there.
    await eventually(() => assert.deepEqual(boundAddresses(), ['10.96.0.1/32']))
  })
})

/** Another host at 10.7.0.2 to 10.7.0.4, with an API server at its port 6443; this node is at 10.7.0.1. */
const API_HOST = `
  ip netns add api; ip link add to-api type veth peer name eth0 netns api
  ip address add 10.7.0.1/24 dev to-api; ip link set to-api up
  ip -n api address add 10.7.0.2/24 dev eth0; ip -n api link set eth0 up; ip -n api link set lo up
  ip -n api address add 10.7.0.3/24 dev eth0; ip -n api address add 10.7.0.4/24 dev eth0`

const KUBERNETES = [
  service(
    'kubernetes',
    { clusterIP: '10.96.0.1', ports: [{ name: 'https', port: 443, protocol: 'TCP' }] },
    {
      metadata: { name: 'kubernetes', namespace: 'default' },
    },
  ),
  slice('kubernetes', ['10.7.0.2'], {
    metadata: {
      name: 'kubernetes',
      namespace: 'default',
      labels: { 'kubernetes.io/service-name': 'kubernetes' },
    },
    ports: [{ name: 'https', port: 6443, protocol: 'TCP' }],
  }),
]

const balanced = (name: string, clusterIP: string, ...ips: string[]) =>
  service(
    name,
    { type: 'LoadBalancer', clusterIP },
    { status: { loadBalancer: { ingress: ips.map((ip) => ({ ip })) } } },
  )

/** The API server of the other host. */
let server: Server
/** Whether a process of this node reaches the other host at this address. */
function reached(address: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: address, port: 6443, timeout: deadline(10_000) }, () => done(true))
    const done = (isSo: boolean): void => {
      socket.destroy()
      resolve(isSo)
    }
    socket.on('error', () => done(false))
    socket.on('timeout', () => done(false))
  })
}

describe('load-balancer addresses of other hosts', () => {
  beforeEach(() => {
    sh(API_HOST)
    server = inside('api', () => createServer((socket) => socket.end()).listen(6443))
  })
  afterEach(() => {
    server.close()
    leave('api')
    sh('ip netns delete api')
  })
  for (const virtualAddresses of ['addresses', 'routes'])
    describe(`as ${virtualAddresses}`, () => {
      const bound = (): string[] => (virtualAddresses === 'routes' ? localRoutes() : boundAddresses())

      it('never become local: the node still reaches the API server, other nodes and gateways', async () => {
        sh('ip route add 10.244.7.0/24 via 10.7.0.4')
        bench = new Workbench({}, { kubeIPVS: { virtualAddresses } })
        bench.write('kubernetes.yaml', ...KUBERNETES)
        bench.write(
          'balanced.yaml',
          balanced('of-api', '10.96.0.2', '10.7.0.2'),
          balanced('of-nodes', '10.96.0.3', '10.0.2.15', '10.7.0.3'),
          balanced('of-gateway', '10.96.0.4', '10.7.0.4', '203.0.113.6'),
        )
        bench.start()
        const clusterIps = ['10.96.0.1/32', '10.96.0.2/32', '10.96.0.3/32', '10.96.0.4/32']
        await eventually(() => assert.deepEqual(bound(), [...clusterIps, '203.0.113.6/32']))
        for (const address of ['10.7.0.2', '10.7.0.3', '10.7.0.4']) assert.ok(await reached(address), address)
        assert.ok(served().includes('10.0.2.15:80'), 'its own address is served, and not bound')
        assert.match(
          bench.log,
          /object="service demo\/of-api" field="status\.loadBalancer\.ingress" reason="10\.7\.0\.2 is refused: it is an address of the API server/,
        )
        for (const [name, address] of [
          ['of-nodes', '10.7.0.3'],
          ['of-gateway', '10.7.0.4'],
        ])
          assert.ok(
            bench.log.includes(
              `object="service demo/${name}" field="status.loadBalancer.ingress" reason="${address} is an address of another host`,
            ),
            bench.log,
          )
      })

      it('are known when the Service gets them, and stay known when the route is gone', async () => {
        bench = new Workbench({}, { kubeIPVS: { virtualAddresses } })
        bench.write('kubernetes.yaml', ...KUBERNETES)
        bench.start()
        await eventually(() => assert.deepEqual(bound(), ['10.96.0.1/32']))
        // As a network plugin does for the Pods of a node that joins. Routes are not announced to the daemon.
        sh('ip route add 10.244.7.0/24 via 10.7.0.3')
        bench.write('balanced.yaml', balanced('of-peer', '10.96.0.3', '10.7.0.3'))
        await eventually(() => assert.deepEqual(bound(), ['10.96.0.1/32', '10.96.0.3/32']))
        assert.ok(await reached('10.7.0.3'))
        sh('ip route delete 10.244.7.0/24; ip address add 198.18.0.1/32 dev to-api')
        bench.write('more.yaml', balanced('of-peer-too', '10.96.0.4', '10.7.0.3'))
        await eventually(() => assert.deepEqual(bound(), ['10.96.0.1/32', '10.96.0.3/32', '10.96.0.4/32']))
        assert.ok(await reached('10.7.0.3'))
      })
    })
})

describe('an address of the API server that a proxy before left as a virtual IP', () => {
  let api: ApiServer
  beforeEach(async () => {
    sh(`${API_HOST}; ip link add kube-ipvs0 type dummy`)
    api = new ApiServer()
    const { port } = new URL(await api.listen())
    server = inside('api', () =>
      createServer((near) => {
        const far = connect(Number(port), '127.0.0.1')
        near.pipe(far).pipe(near)
        for (const socket of [near, far]) socket.on('error', () => [near, far].map((one) => one.destroy()))
      }).listen(6443),
    )
  })
  afterEach(async () => {
    server.close()
    await api.close()
    leave('api')
    sh('ip netns delete api')
  })

  for (const [title, mode, remains] of [
    ['on kube-ipvs0', 'ipvs', 'ip address add 10.7.0.2/32 dev kube-ipvs0'],
    ['on kube-ipvs0, and the mode is another one', 'iptables', 'ip address add 10.7.0.2/32 dev kube-ipvs0'],
    ['as a local route', 'ipvs', 'ip route add local 10.7.0.2 dev lo table local proto 73'],
  ] as const)
    it(`${title}, is removed before the first list, which would never come`, async () => {
      sh(remains)
      assert.equal(await reached('10.7.0.2'), false)
      api.store.put('nodes', node(['10.0.2.15']))
      api.store.put('services', balanced('web', '10.96.0.2', '10.7.0.2'))
      bench = new Workbench(
        {},
        { mode, kubeIPVS: { virtualAddresses: title.startsWith('as') ? 'routes' : 'addresses' } },
      )
      bench.startOnApi(bench.kubeconfig('http://10.7.0.2:6443'))
      await eventually(() => assert.match(bench.log, /"Caches are synced"/))
      assert.match(
        bench.log,
        /"An address of the API server was a virtual IP of this node, and is removed" address="10\.7\.0\.2"/,
      )
      assert.ok(await reached('10.7.0.2'))
    })

  it('stays where a virtual server leads to the API server', async () => {
    sh(
      'ip address add 10.96.0.1/32 dev kube-ipvs0; ip address add 10.96.0.1/32 dev to-api; ipvsadm -A -t 10.96.0.1:443',
    )
    const rtnetlink = openRtnetlink()
    try {
      const remove = (port: number) =>
        removeApiServerAddress(rtnetlink, '10.96.0.1', new Set([port]), AbortSignal.timeout(deadline(10_000)))
      assert.equal(await remove(443), 'no-virtual-ip')
      assert.deepEqual(boundAddresses(), ['10.96.0.1/32'])
      assert.equal(await remove(6443), 'removed')
      assert.deepEqual(boundAddresses(), [])
      assert.equal(await remove(6443), 'no-virtual-ip', 'an address of another interface is no virtual IP')
    } finally {
      rtnetlink.close()
    }
  })
})
