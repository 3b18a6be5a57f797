/** externalIPs and load-balancer addresses that a rule does not permit: reported by field, and no frontend of theirs. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { contributionOf } from '../../src/service/contribution.ts'
import { changedFields, type NodeContext, READS_NODE_IPS, READS_VIRTUAL_IPS } from '../../src/service/node-context.ts'
import type { EndpointSlice, Service } from '../../src/service/objects.ts'
import { KeptAddresses } from '../../src/service/virtual-ips.ts'
import { parseCidr } from '../../src/values/cidr.ts'

const SERVICE: Service = {
  namespace: 'demo',
  name: 'web',
  createdAtMs: 0,
  clusterIps: { IPv4: '10.96.0.7', IPv6: 'fd00:96::7' },
  ports: [{ name: '', protocol: 'tcp', port: 80, nodePort: 30080 }],
  externalIps: [],
  loadBalancerVips: [],
  sourceRanges: [],
  internalTrafficPolicy: 'Cluster',
  externalTrafficPolicy: 'Cluster',
  affinityTimeoutSeconds: 0,
  healthCheckNodePort: 0,
}

function kept(ranges: readonly string[], fixed: Readonly<Record<string, string>> = {}): KeptAddresses {
  return new KeptAddresses(
    ranges.flatMap((range) => parseCidr(range) ?? []),
    new Map(Object.entries(fixed)),
  )
}

function nodeWith(rule: KeptAddresses | undefined): NodeContext {
  return {
    nodeName: 'node0',
    zone: undefined,
    nodeIps: { IPv4: '192.0.2.1' },
    localAddresses: new Set(['192.0.2.1', '192.0.2.9']),
    nodePortAddresses: { IPv4: ['192.0.2.1'], IPv6: [] },
    ...(rule === undefined ? {} : { virtualIps: rule.rule }),
  }
}

/** Keys of the frontends, and the problems as `field: message`. */
function outcome(service: Partial<Service>, rule: KeptAddresses | undefined) {
  const { frontends, problems, reads } = contributionOf({ ...SERVICE, ...service }, [], nodeWith(rule))
  return { keys: [...frontends.keys()], problems: problems.map(({ field, message }) => `${field}: ${message}`), reads }
}

const ALWAYS = ['10.96.0.7:80/tcp', '192.0.2.1:30080/tcp', '[fd00:96::7]:80/tcp']

test('without a rule every address is served', () => {
  const { keys, problems, reads } = outcome({ externalIps: ['8.8.8.8'], loadBalancerVips: ['192.0.2.9'] }, undefined)
  assert.deepEqual(keys.toSorted(), [...ALWAYS, '192.0.2.9:80/tcp', '8.8.8.8:80/tcp'].toSorted())
  assert.deepEqual(problems, [])
  assert.equal(reads & READS_VIRTUAL_IPS, 0)
})

test('with a rule an address outside the ranges leaves no frontend and is reported by its field', () => {
  const service = {
    externalIps: ['203.0.113.5', '8.8.8.8', 'fd00:bad::1'],
    loadBalancerVips: ['203.0.113.6', '203.0.114.1', 'fd00:113::1'],
  }
  const { keys, problems, reads } = outcome(service, kept(['203.0.113.0/24', 'fd00:113::/64']))
  assert.deepEqual(
    keys.toSorted(),
    [...ALWAYS, '203.0.113.5:80/tcp', '203.0.113.6:80/tcp', '[fd00:113::1]:80/tcp'].toSorted(),
  )
  assert.deepEqual(problems, [
    'spec.externalIPs: 8.8.8.8 is refused: kubeIPVS.allowedVirtualIPs does not allow it',
    'spec.externalIPs: fd00:bad::1 is refused: kubeIPVS.allowedVirtualIPs does not allow it',
    'status.loadBalancer.ingress: 203.0.114.1 is refused: kubeIPVS.allowedVirtualIPs does not allow it',
  ])
  assert.equal(reads & READS_VIRTUAL_IPS, READS_VIRTUAL_IPS)
  assert.equal(reads & READS_NODE_IPS, READS_NODE_IPS)
})

test('an empty list allows nothing, and ClusterIPs and node ports are not asked', () => {
  const { keys, problems } = outcome({ externalIps: ['203.0.113.5'] }, kept([]))
  assert.deepEqual(keys.toSorted(), ALWAYS.toSorted())
  assert.equal(problems.length, 1)
})

test('what the node lives by is refused inside the ranges too', () => {
  const rule = kept(['0.0.0.0/0', '::/0'], {
    '198.51.100.53': 'the resolvers of this node',
    '198.51.100.1': 'the API server',
  })
  const externalIps = ['192.0.2.1', '192.0.2.9', '198.51.100.53', '198.51.100.1', '203.0.113.5']
  const { keys, problems } = outcome({ externalIps }, rule)
  assert.deepEqual(keys.toSorted(), [...ALWAYS, '203.0.113.5:80/tcp'].toSorted())
  assert.deepEqual(problems, [
    'spec.externalIPs: 192.0.2.1 is refused: it is an address of this node',
    'spec.externalIPs: 192.0.2.9 is refused: it is an address of this node',
    'spec.externalIPs: 198.51.100.53 is refused: it is an address of the resolvers of this node',
    'spec.externalIPs: 198.51.100.1 is refused: it is an address of the API server',
  ])
})

test('the addresses of the API server and of DNS in the cluster are followed', () => {
  const rule = kept(['0.0.0.0/0'])
  const kubernetes: Service = {
    ...SERVICE,
    namespace: 'default',
    name: 'kubernetes',
    clusterIps: { IPv4: '10.96.0.1' },
  }
  const dns: Service = {
    ...SERVICE,
    namespace: 'kube-system',
    name: 'kube-dns',
    clusterIps: { IPv4: '10.96.0.10' },
    ports: [{ name: 'dns', protocol: 'udp', port: 53, nodePort: 0 }],
  }
  const slice = (address: string): EndpointSlice => ({
    namespace: 'default',
    name: 'kubernetes',
    serviceName: 'kubernetes',
    family: 'IPv4',
    ports: [],
    endpoints: [{ address, nodeName: '', ready: true, serving: true, terminating: false }],
    triggeredAtMs: 0,
  })
  const externalIps = ['10.96.0.1', '10.96.0.10', '172.18.0.2', '172.18.0.3']
  const refused = () => outcome({ externalIps }, rule).problems.map((text) => text.split(' ')[1])

  assert.deepEqual(refused(), [])
  const before = nodeWith(rule)
  assert.equal(rule.apply({ kind: 'services', key: 'default/kubernetes', value: kubernetes }), true)
  assert.equal(changedFields(before, nodeWith(rule)), READS_VIRTUAL_IPS)
  assert.equal(rule.apply({ kind: 'services', key: 'default/kubernetes', value: { ...kubernetes } }), false)
  assert.equal(rule.apply({ kind: 'services', key: 'kube-system/kube-dns', value: dns }), true)
  assert.equal(rule.apply({ kind: 'services', key: 'kube-system/other', value: SERVICE }), false)
  assert.equal(rule.apply({ kind: 'services', key: 'demo/web', value: SERVICE }), false)
  assert.equal(rule.apply({ kind: 'endpointslices', key: 'default/kubernetes', value: slice('172.18.0.2') }), true)
  assert.deepEqual(refused(), ['10.96.0.1', '10.96.0.10', '172.18.0.2'])
  assert.equal(rule.apply({ kind: 'endpointslices', key: 'default/kubernetes', value: slice('172.18.0.3') }), true)
  assert.deepEqual(refused(), ['10.96.0.1', '10.96.0.10', '172.18.0.3'])
  assert.equal(rule.apply({ kind: 'services', key: 'kube-system/kube-dns', value: undefined }), true)
  assert.deepEqual(refused(), ['10.96.0.1', '172.18.0.3'])
})
