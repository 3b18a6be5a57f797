/** Services rendered to set entries: each row prints the entries in the order in which they are added. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { CATALOGUE, definitionOf } from '../../src/ipset/catalogue.ts'
import { parseEntry } from '../../src/ipset/entry-text.ts'
import { entryOf, hairpinEntries, roleOf } from '../../src/ipset/render.ts'
import { entryKey } from '../../src/ipset/types.ts'
import { type NodeContext, READS_NODE_PORT_ADDRESSES } from '../../src/service/node-context.ts'
import type { EndpointSlice, Service, ServicePortSpec } from '../../src/service/objects.ts'
import { membershipsOf, ROLES } from '../../src/service/policy.ts'
import { contributionOf } from '../support/contribution.ts'
import { endpoint, service, servicePort, slice } from '../support/objects.ts'

const NODE: NodeContext = {
  nodeName: 'node0',
  zone: '',
  nodeIps: { IPv4: '10.0.2.15', IPv6: 'fd00:10:0:2::15' },
  localAddresses: new Set(['10.0.2.15', 'fd00:10:0:2::15']),
  nodePortAddresses: { IPv4: ['10.0.2.15', '172.17.0.1'], IPv6: ['fd00:10:0:2::15'] },
}

const SLICE = slice({
  endpoints: [
    endpoint({ address: '10.244.0.1', nodeName: 'node0' }),
    endpoint({ address: '10.244.0.2', nodeName: 'node0', ready: false }),
    endpoint({ address: '10.244.0.3', nodeName: 'node0', ready: false, serving: false, terminating: true }),
    endpoint({ address: '10.244.1.1', nodeName: 'node1' }),
    endpoint({ address: '10.244.2.1', nodeName: '' }),
  ],
})

/** The frontend of that key. */
function entries(of: Service, key: string, slices: readonly EndpointSlice[] = [], node = NODE): string[] {
  const frontend = contributionOf(of, slices, node).frontends.get(key)
  assert.ok(frontend, key)
  const found = [...hairpinEntries(frontend, node.nodeName), ...membershipsOf(frontend).map(entryOf)]
  for (const { set, entry } of found) {
    const definition = definitionOf(set)
    assert.ok(definition !== undefined && parseEntry(definition.type, definition.family, entry) !== undefined, entry)
  }
  const ranks = found.map(({ set }) => definitionOf(set)?.rank ?? -1)
  assert.deepEqual(
    ranks,
    ranks.toSorted((a, b) => a - b),
  )
  return found.map(entryKey)
}

const VIP = '203.0.113.10'
const VIP_KEY = `${VIP}:80/tcp`
const loadBalancer = (more: Partial<Service> = {}): Service => service({ loadBalancerVips: [VIP], ...more })
const local = { externalTrafficPolicy: 'Local' } as const
const nodePort = (protocol: ServicePortSpec['protocol']): Partial<Service> => ({
  ports: [servicePort({ name: 'http', protocol, port: 80, nodePort: 30080 })],
})

/** Each Service has the ClusterIP 10.96.0.1 and the port 80/tcp unless its row says otherwise. */
const ROWS: readonly (readonly [string, Service, string, readonly string[]])[] = [
  ['a ClusterIP', service(), '10.96.0.1:80/tcp', ['KUBE-CLUSTER-IP 10.96.0.1,tcp:80', 'KUBE-IPVS-IPS 10.96.0.1']],
  [
    'an IPv6 ClusterIP, for any external policy',
    service({ clusterIps: { IPv6: 'fd00:10:96::1' }, ...local }),
    '[fd00:10:96::1]:80/tcp',
    ['KUBE-6-CLUSTER-IP fd00:10:96::1,tcp:80', 'KUBE-6-IPVS-IPS fd00:10:96::1'],
  ],
  [
    'an external IP',
    service({ externalIps: ['198.51.100.7'] }),
    '198.51.100.7:80/tcp',
    ['KUBE-EXTERNAL-IP 198.51.100.7,tcp:80', 'KUBE-IPVS-IPS 198.51.100.7'],
  ],
  [
    'an external IP with policy Local',
    service({ externalIps: ['198.51.100.7'], ...local }),
    '198.51.100.7:80/tcp',
    ['KUBE-EXTERNAL-IP-LOCAL 198.51.100.7,tcp:80', 'KUBE-IPVS-IPS 198.51.100.7'],
  ],
  [
    'an external IP that the node has itself',
    service({ externalIps: ['10.0.2.15'] }),
    '10.0.2.15:80/tcp',
    ['KUBE-EXTERNAL-IP 10.0.2.15,tcp:80'],
  ],
  ['a VIP', loadBalancer(), VIP_KEY, [`KUBE-LOAD-BALANCER ${VIP},tcp:80`, `KUBE-IPVS-IPS ${VIP}`]],
  [
    'a VIP with policy Local and a health check port',
    loadBalancer({ ...local, healthCheckNodePort: 32001 }),
    VIP_KEY,
    [
      `KUBE-LOAD-BALANCER-LOCAL ${VIP},tcp:80`,
      `KUBE-LOAD-BALANCER ${VIP},tcp:80`,
      'KUBE-HEALTH-CHECK-NODE-PORT 32001',
      `KUBE-IPVS-IPS ${VIP}`,
    ],
  ],
  [
    'the ClusterIP of a Service with a health check port',
    loadBalancer({ ...local, healthCheckNodePort: 32001 }),
    '10.96.0.1:80/tcp',
    ['KUBE-CLUSTER-IP 10.96.0.1,tcp:80', 'KUBE-HEALTH-CHECK-NODE-PORT 32001', 'KUBE-IPVS-IPS 10.96.0.1'],
  ],
  [
    'a VIP with source ranges that leave the node out',
    loadBalancer({ sourceRanges: ['192.0.2.0/24', '198.51.100.5/32', '2001:db8::/32'] }),
    VIP_KEY,
    [
      `KUBE-LOAD-BALANCER-SOURCE-CIDR ${VIP},tcp:80,192.0.2.0/24`,
      `KUBE-LOAD-BALANCER-SOURCE-CIDR ${VIP},tcp:80,198.51.100.5`,
      `KUBE-LOAD-BALANCER-FW ${VIP},tcp:80`,
      `KUBE-LOAD-BALANCER ${VIP},tcp:80`,
      `KUBE-IPVS-IPS ${VIP}`,
    ],
  ],
  [
    'a VIP with a source range that holds the node',
    loadBalancer({ sourceRanges: ['10.0.2.15/32'] }),
    VIP_KEY,
    [
      `KUBE-LOAD-BALANCER-SOURCE-IP ${VIP},tcp:80,${VIP}`,
      `KUBE-LOAD-BALANCER-SOURCE-CIDR ${VIP},tcp:80,10.0.2.15`,
      `KUBE-LOAD-BALANCER-FW ${VIP},tcp:80`,
      `KUBE-LOAD-BALANCER ${VIP},tcp:80`,
      `KUBE-IPVS-IPS ${VIP}`,
    ],
  ],
  [
    'a VIP with source ranges that is an external IP too',
    loadBalancer({ externalIps: [VIP], sourceRanges: ['10.0.2.0/24'] }),
    VIP_KEY,
    [
      `KUBE-LOAD-BALANCER-SOURCE-IP ${VIP},tcp:80,${VIP}`,
      `KUBE-LOAD-BALANCER-SOURCE-CIDR ${VIP},tcp:80,10.0.2.0/24`,
      `KUBE-LOAD-BALANCER-FW ${VIP},tcp:80`,
      `KUBE-LOAD-BALANCER ${VIP},tcp:80`,
      `KUBE-EXTERNAL-IP ${VIP},tcp:80`,
      `KUBE-IPVS-IPS ${VIP}`,
    ],
  ],
  [
    'a VIP with policy Local and a health check port that is an external IP too',
    loadBalancer({ externalIps: [VIP], ...local, healthCheckNodePort: 32001 }),
    VIP_KEY,
    [
      `KUBE-LOAD-BALANCER-LOCAL ${VIP},tcp:80`,
      `KUBE-LOAD-BALANCER ${VIP},tcp:80`,
      `KUBE-EXTERNAL-IP-LOCAL ${VIP},tcp:80`,
      'KUBE-HEALTH-CHECK-NODE-PORT 32001',
      `KUBE-IPVS-IPS ${VIP}`,
    ],
  ],
  [
    'an external IP that the node has itself, at a node port that is the port',
    service({
      externalIps: ['10.0.2.15'],
      ports: [servicePort({ name: 'http', port: 30080, nodePort: 30080 })],
      ...local,
    }),
    '10.0.2.15:30080/tcp',
    ['KUBE-EXTERNAL-IP-LOCAL 10.0.2.15,tcp:30080', 'KUBE-NODE-PORT-LOCAL-TCP 30080', 'KUBE-NODE-PORT-TCP 30080'],
  ],
  [
    'a ClusterIP that is an external IP too',
    service({ externalIps: ['10.96.0.1'] }),
    '10.96.0.1:80/tcp',
    ['KUBE-EXTERNAL-IP 10.96.0.1,tcp:80', 'KUBE-CLUSTER-IP 10.96.0.1,tcp:80', 'KUBE-IPVS-IPS 10.96.0.1'],
  ],
  [
    'a VIP with ranges of the other family only',
    loadBalancer({ sourceRanges: ['2001:db8::/32'] }),
    VIP_KEY,
    [`KUBE-LOAD-BALANCER ${VIP},tcp:80`, `KUBE-IPVS-IPS ${VIP}`],
  ],
  [
    'a VIP with a zero range among others (deviation 13)',
    loadBalancer({ sourceRanges: ['192.0.2.0/24', '0.0.0.0/0'] }),
    VIP_KEY,
    [`KUBE-LOAD-BALANCER ${VIP},tcp:80`, `KUBE-IPVS-IPS ${VIP}`],
  ],
  [
    'an IPv6 VIP with ranges; a zero range of the other family does nothing',
    loadBalancer({
      clusterIps: { IPv6: 'fd00:10:96::1' },
      loadBalancerVips: ['2001:db8:cb::10'],
      sourceRanges: ['0.0.0.0/0', 'fd00:10:0:2::/64', '2001:db8:6::1/128'],
    }),
    '[2001:db8:cb::10]:80/tcp',
    [
      'KUBE-6-LOAD-BALANCER-SOURCE-IP 2001:db8:cb::10,tcp:80,2001:db8:cb::10',
      'KUBE-6-LOAD-BALANCER-SOURCE-CID 2001:db8:cb::10,tcp:80,fd00:10:0:2::/64',
      'KUBE-6-LOAD-BALANCER-SOURCE-CID 2001:db8:cb::10,tcp:80,2001:db8:6::1',
      'KUBE-6-LOAD-BALANCER-FW 2001:db8:cb::10,tcp:80',
      'KUBE-6-LOAD-BALANCER 2001:db8:cb::10,tcp:80',
      'KUBE-6-IPVS-IPS 2001:db8:cb::10',
    ],
  ],
  [
    'a loopback VIP (deviation 23)',
    loadBalancer({ loadBalancerVips: ['127.0.0.55'] }),
    '127.0.0.55:80/tcp',
    ['KUBE-LOAD-BALANCER 127.0.0.55,tcp:80', 'KUBE-IPVS-IPS 127.0.0.55'],
  ],
  ['a TCP node port', service(nodePort('tcp')), '10.0.2.15:30080/tcp', ['KUBE-NODE-PORT-TCP 30080']],
  ['a UDP node port', service(nodePort('udp')), '172.17.0.1:30080/udp', ['KUBE-NODE-PORT-UDP 30080']],
  [
    'an SCTP node port',
    service(nodePort('sctp')),
    '172.17.0.1:30080/sctp',
    ['KUBE-NODE-PORT-SCTP-HASH 172.17.0.1,sctp:30080'],
  ],
  [
    'a TCP node port with policy Local',
    service({ ...nodePort('tcp'), ...local }),
    '10.0.2.15:30080/tcp',
    ['KUBE-NODE-PORT-LOCAL-TCP 30080', 'KUBE-NODE-PORT-TCP 30080'],
  ],
  [
    'a UDP node port with policy Local',
    service({ ...nodePort('udp'), ...local }),
    '10.0.2.15:30080/udp',
    ['KUBE-NODE-PORT-LOCAL-UDP 30080', 'KUBE-NODE-PORT-UDP 30080'],
  ],
  [
    'an SCTP node port with policy Local',
    service({ ...nodePort('sctp'), ...local }),
    '10.0.2.15:30080/sctp',
    ['KUBE-NODE-PORT-LOCAL-SCTP-HASH 10.0.2.15,sctp:30080', 'KUBE-NODE-PORT-SCTP-HASH 10.0.2.15,sctp:30080'],
  ],
]

const checked = (nodePort: number): Service =>
  loadBalancer({
    ...local,
    healthCheckNodePort: 32001,
    ports: [servicePort({ name: 'http', port: 80, nodePort })],
  })

describe('the entry of a health check port', () => {
  const has = (of: Service, node: NodeContext): boolean =>
    entries(of, '10.96.0.1:80/tcp', [], node).includes('KUBE-HEALTH-CHECK-NODE-PORT 32001')
  const closed: NodeContext = {
    ...NODE,
    nodePortAddresses: { IPv4: [], IPv6: [] },
    localHealthChecks: ['IPv4', 'IPv6'],
  }

  it('is missing in a family whose node ports have no address, unless a port has no node port', () => {
    assert.deepEqual(
      [has(checked(30080), NODE), has(checked(30080), closed), has(checked(0), closed)],
      [true, false, true],
    )
    const ipv6 = { ...NODE, localHealthChecks: ['IPv6'] } as const
    assert.equal(has(checked(30080), ipv6), true)
  })

  it('depends on the node port addresses', () => {
    const { reads } = contributionOf(checked(30080), [], closed)
    assert.ok((reads & READS_NODE_PORT_ADDRESSES) !== 0)
  })
})

describe('the entries of a frontend', () => {
  it('are in a set of their role, and every set has one', () =>
    assert.deepEqual(new Set(CATALOGUE.map(({ name }) => roleOf(name))), new Set(ROLES)))

  for (const [title, of, key, expected] of ROWS) it(title, () => assert.deepEqual(entries(of, key), expected))

  it('has a hairpin entry for each local endpoint, ready or not', () => {
    assert.deepEqual(entries(service(nodePort('tcp')), '10.0.2.15:30080/tcp', [SLICE]), [
      'KUBE-LOOP-BACK 10.244.0.1,tcp:8080,10.244.0.1',
      'KUBE-LOOP-BACK 10.244.0.2,tcp:8080,10.244.0.2',
      'KUBE-LOOP-BACK 10.244.0.3,tcp:8080,10.244.0.3',
      'KUBE-NODE-PORT-TCP 30080',
    ])
  })

  it('are one list of hairpin entries for all frontends of a port', () => {
    const many = Array.from({ length: 100 }, (_, index) =>
      endpoint({ address: `10.244.3.${index}`, nodeName: index < 40 ? 'node0' : 'node1' }),
    )
    const { frontends } = contributionOf(service(nodePort('tcp')), [{ ...SLICE, endpoints: many }], NODE)
    const lists = Array.from(frontends.values(), (frontend) => hairpinEntries(frontend, 'node0'))
    assert.equal(lists.length, 3)
    assert.equal(new Set(lists).size, 1)
    assert.deepEqual(
      lists[0]?.map(entryKey),
      many
        .slice(0, 40)
        .map(({ address }) => `KUBE-LOOP-BACK ${address},tcp:8080,${address}`)
        .sort(),
    )
  })

  it('allows the node only with its own address', () => {
    const of = loadBalancer({ sourceRanges: ['10.0.2.0/24'] })
    const has = (node: NodeContext): boolean =>
      entries(of, VIP_KEY, [], node).some((key) => key.startsWith('KUBE-LOAD-BALANCER-SOURCE-IP '))
    assert.deepEqual(
      [has(NODE), has({ ...NODE, nodeIps: {} }), has({ ...NODE, nodeIps: { IPv4: '10.0.3.1' } })],
      [true, false, false],
    )
  })
})
