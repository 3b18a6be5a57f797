/** externalIPs and load-balancer addresses that a rule does not permit are reported by field and get no frontend. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { FrontendSettings } from '../../src/service/contribution.ts'
import { changedFields, type NodeContext, READS_NODE_IPS, READS_VIRTUAL_IPS } from '../../src/service/node-context.ts'
import type { EndpointSlice, Service } from '../../src/service/objects.ts'
import { VirtualIpGuard } from '../../src/service/virtual-ips.ts'
import { parseCidr } from '../../src/values/cidr.ts'
import { contributionOf } from '../support/contribution.ts'
import { endpoint, service, servicePort, slice } from '../support/objects.ts'

const WEB = service({
  clusterIps: { IPv4: '10.96.0.7', IPv6: 'fd00:96::7' },
  ports: [servicePort({ name: '', port: 80, nodePort: 30080 })],
})

type Lists = { readonly [list in 'externalIps' | 'loadBalancerIps']?: readonly string[] }

/** A guard with these lists; `fixed`: protected addresses by owner. */
function guard({ externalIps, loadBalancerIps }: Lists = {}, fixed: Readonly<Record<string, string>> = {}) {
  const ranges = (texts: readonly string[] | undefined) => texts?.flatMap((range) => parseCidr(range) ?? [])
  const made = new VirtualIpGuard(
    { externalIps: ranges(externalIps), loadBalancerIps: ranges(loadBalancerIps) } as ConstructorParameters<
      typeof VirtualIpGuard
    >[0],
    false,
  )
  for (const [address, owner] of Object.entries(fixed)) made.protect(owner, [address])
  return made
}

function nodeWith(rule: VirtualIpGuard | undefined): NodeContext {
  return {
    nodeName: 'node0',
    zone: undefined,
    nodeIps: { IPv4: '192.0.2.1' },
    localAddresses: new Set(['192.0.2.1', '192.0.2.9']),
    nodePortAddresses: { IPv4: ['192.0.2.1'], IPv6: [] },
    ...(rule === undefined ? {} : { virtualIps: rule.rule }),
  }
}

/** The keys of the frontends, and the problems as `field: message`. */
function outcome(change: Partial<Service>, rule: VirtualIpGuard | undefined, settings: FrontendSettings = {}) {
  const { frontends, problems, reads } = contributionOf({ ...WEB, ...change }, [], nodeWith(rule), settings)
  const keys = Array.from(frontends.values(), ({ key, roles }) =>
    ALWAYS.includes(key) ? [] : `${roles.join('+')} ${key}`,
  )
  return { keys: keys.flat().sort(), problems: problems.map(({ field, message }) => `${field}: ${message}`), reads }
}

const ALWAYS = ['10.96.0.7:80/tcp', '192.0.2.1:30080/tcp', '[fd00:96::7]:80/tcp']
const external = (address: string): string => `ExternalIP ${address}:80/tcp`
const vip = (address: string): string => `LoadBalancerVip ${address}:80/tcp`

test('without a rule every address is served', () => {
  const { keys, problems, reads } = outcome({ externalIps: ['8.8.8.8'], loadBalancerVips: ['192.0.2.9'] }, undefined)
  assert.deepEqual(keys, [external('8.8.8.8'), vip('192.0.2.9')])
  assert.deepEqual(problems, [])
  assert.equal(reads & READS_VIRTUAL_IPS, 0)
})

test('an address outside the ranges of its field gets no frontend and is reported with that field', () => {
  const service = {
    externalIps: ['203.0.113.5', '8.8.8.8', '203.0.114.2', 'fd00:bad::1'],
    loadBalancerVips: ['203.0.114.6', '203.0.113.1', 'fd00:113::1'],
  }
  const lists = { externalIps: ['203.0.113.0/24'], loadBalancerIps: ['203.0.114.0/24', 'fd00:113::/64'] }
  const { keys, problems, reads } = outcome(service, guard(lists))
  assert.deepEqual(keys, [external('203.0.113.5'), vip('203.0.114.6'), 'LoadBalancerVip [fd00:113::1]:80/tcp'])
  assert.deepEqual(problems, [
    'status.loadBalancer.ingress: 203.0.113.1 is refused: it is in no range of kubeIPVS.allowedLoadBalancerIPs',
    'spec.externalIPs: 8.8.8.8 is refused: it is in no range of kubeIPVS.allowedExternalIPs',
    'spec.externalIPs: 203.0.114.2 is refused: it is in no range of kubeIPVS.allowedExternalIPs',
    'spec.externalIPs: fd00:bad::1 is refused: it is in no range of kubeIPVS.allowedExternalIPs',
  ])
  assert.equal(reads & READS_VIRTUAL_IPS, READS_VIRTUAL_IPS)
  assert.equal(reads & READS_NODE_IPS, READS_NODE_IPS)
})

test('an empty list allows no address of its field, and does not concern the other field, ClusterIPs and node ports', () => {
  const service = { externalIps: ['203.0.113.5'], loadBalancerVips: ['203.0.113.6'] }
  assert.deepEqual(outcome(service, guard({ externalIps: [] })).keys, [vip('203.0.113.6')])
  assert.deepEqual(outcome(service, guard({ loadBalancerIps: [] })).keys, [external('203.0.113.5')])
})

const NEEDED = { '198.51.100.53': 'the resolvers of this node', '198.51.100.1': 'the API server' }
const HINT = ', which kubeIPVS.allowProtectedExternalIPs would allow'

test('an externalIP that the node depends on is refused, inside the ranges and without ranges', () => {
  const externalIps = ['192.0.2.1', '192.0.2.9', '198.51.100.53', '198.51.100.1', '203.0.113.5']
  for (const lists of [{}, { externalIps: ['0.0.0.0/0'] }]) {
    const { keys, problems } = outcome({ externalIps }, guard(lists, NEEDED))
    assert.deepEqual(keys, [external('203.0.113.5')])
    assert.deepEqual(problems, [
      `spec.externalIPs: 192.0.2.1 is refused: it is an address of this node${HINT}`,
      `spec.externalIPs: 192.0.2.9 is refused: it is an address of this node${HINT}`,
      `spec.externalIPs: 198.51.100.53 is refused: it is an address of the resolvers of this node${HINT}`,
      `spec.externalIPs: 198.51.100.1 is refused: it is an address of the API server${HINT}`,
    ])
  }
})

test('a load-balancer address may be one that the node has or depends on, because a controller wrote it', () => {
  const loadBalancerVips = ['192.0.2.9', '198.51.100.53', '198.51.100.1']
  const { keys, problems } = outcome({ loadBalancerVips }, guard({}, NEEDED))
  assert.deepEqual(keys, loadBalancerVips.map(vip).sort())
  assert.deepEqual(problems, [])
})

test('an externalIP that is also the VIP or cluster IP of the Service is permitted', () => {
  const both = { externalIps: ['192.0.2.9', '10.96.0.7'], loadBalancerVips: ['192.0.2.9'] }
  const { keys, problems } = outcome(both, guard({}, { '10.96.0.7': 'the resolvers of this cluster' }))
  assert.deepEqual(keys, ['LoadBalancerVip+ExternalIP 192.0.2.9:80/tcp'])
  assert.deepEqual(problems, [])
  const refused = outcome(both, guard({ loadBalancerIps: [] }))
  assert.deepEqual(refused.keys, [])
  assert.equal(refused.problems.length, 2)
})

test('protected addresses are permitted when the configuration says so, and the lists still count', () => {
  const allows = new VirtualIpGuard({ externalIps: [{ family: 'IPv4', address: '192.0.2.0', prefixLength: 24 }] }, true)
  assert.equal(allows.protect('the API server', ['192.0.2.7']), false)
  const { keys, problems } = outcome({ externalIps: ['192.0.2.1', '192.0.2.7', '198.51.100.1'] }, allows)
  assert.deepEqual(keys, [external('192.0.2.1'), external('192.0.2.7')])
  assert.equal(problems.length, 1)
})

test('with AllowServiceExternalIPs: false no externalIP is served, and none is reported', () => {
  const service = { externalIps: ['203.0.113.5', '203.0.113.6'], loadBalancerVips: ['203.0.113.6'] }
  const { keys, problems } = outcome(service, guard(), { usesExternalIps: false })
  assert.deepEqual(keys, [vip('203.0.113.6')])
  assert.deepEqual(problems, [])
})

test('protect replaces the protected addresses of its owner', () => {
  const rule = guard()
  assert.equal(rule.protect('the default gateways of this node', ['192.0.2.254']), true)
  assert.equal(rule.protect('the default gateways of this node', ['192.0.2.254']), false)
  assert.equal(outcome({ externalIps: ['192.0.2.254'] }, rule).problems.length, 1)
  assert.equal(rule.protect('the default gateways of this node', []), true)
  assert.equal(outcome({ externalIps: ['192.0.2.254'] }, rule).problems.length, 0)
})

test('the rule follows the addresses of the API server and of the DNS of the cluster', () => {
  const rule = guard()
  const kubernetes = service({ namespace: 'default', name: 'kubernetes', clusterIps: { IPv4: '10.96.0.1' } })
  const dns = service({
    namespace: 'kube-system',
    name: 'kube-dns',
    clusterIps: { IPv4: '10.96.0.10' },
    ports: [servicePort({ name: 'dns', protocol: 'udp', port: 53 })],
  })
  const apiServer = (address: string, name = 'kubernetes'): EndpointSlice =>
    slice({ namespace: 'default', name, serviceName: 'kubernetes', ports: [], endpoints: [endpoint({ address })] })
  const externalIps = ['10.96.0.1', '10.96.0.10', '172.18.0.2', '172.18.0.3']
  const refused = () => outcome({ externalIps }, rule).problems.map((text) => text.split(' ')[1])

  assert.deepEqual(refused(), [])
  const before = nodeWith(rule)
  assert.equal(rule.apply({ kind: 'services', key: 'default/kubernetes', value: kubernetes }), true)
  assert.equal(changedFields(before, nodeWith(rule)), READS_VIRTUAL_IPS)
  assert.equal(rule.apply({ kind: 'services', key: 'default/kubernetes', value: { ...kubernetes } }), false)
  assert.equal(rule.apply({ kind: 'services', key: 'kube-system/kube-dns', value: dns }), true)
  assert.equal(rule.apply({ kind: 'services', key: 'kube-system/other', value: WEB }), false)
  assert.equal(rule.apply({ kind: 'services', key: 'demo/web', value: WEB }), false)
  assert.equal(rule.apply({ kind: 'endpointslices', key: 'default/kubernetes', value: apiServer('172.18.0.2') }), true)
  assert.deepEqual(refused(), ['10.96.0.1', '10.96.0.10', '172.18.0.2'])
  const squatting = apiServer('172.18.0.3', 'squatter')
  assert.equal(rule.apply({ kind: 'endpointslices', key: 'default/squatter', value: squatting }), false)
  assert.equal(rule.apply({ kind: 'endpointslices', key: 'default/kubernetes', value: apiServer('172.18.0.3') }), true)
  assert.deepEqual(refused(), ['10.96.0.1', '10.96.0.10', '172.18.0.3'])
  assert.equal(rule.apply({ kind: 'services', key: 'kube-system/kube-dns', value: undefined }), true)
  assert.deepEqual(refused(), ['10.96.0.1', '172.18.0.3'])
})
