/** externalIPs and load-balancer addresses that a rule does not permit are reported by field and get no frontend. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { FrontendSettings } from '../../src/service/contribution.ts'
import { changedFields, type NodeContext, READS_NODE_IPS, READS_VIRTUAL_IPS } from '../../src/service/node-context.ts'
import type { EndpointSlice, ObjectChange, Service } from '../../src/service/objects.ts'
import { VirtualIpGuard } from '../../src/service/virtual-ip-guard.ts'
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
    nodeAddresses: ['192.0.2.1', '198.18.7.1'],
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

test('an address that no Service can have is refused as externalIP, and localhost as a load-balancer address', () => {
  const special = ['127.0.0.1', '::1', '0.0.0.0', '169.254.169.254', '239.1.1.1', '255.255.255.255', 'ff0e::1']
  const { keys, problems } = outcome(
    { externalIps: [...special, '8.8.8.8'], loadBalancerVips: ['127.0.0.1', '::1', '127.0.0.55'] },
    guard(),
  )
  assert.deepEqual(keys, [external('8.8.8.8'), vip('127.0.0.55')])
  assert.deepEqual(problems.slice(0, 3), [
    'status.loadBalancer.ingress: 127.0.0.1 is refused: it is localhost',
    'status.loadBalancer.ingress: ::1 is refused: it is localhost',
    'spec.externalIPs: 127.0.0.1 is refused: it is a loopback address',
  ])
  assert.equal(problems.length, 2 + special.length)
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

test('a load-balancer address may be one that the node has, or a resolver, because a controller wrote it', () => {
  const loadBalancerVips = ['192.0.2.9', '198.51.100.53', '198.51.100.2']
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
  allows.protect('the resolvers of this node', ['192.0.2.7'])
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
  const changes: unknown[] = []
  const unfollow = rule.follow(() => changes.push(rule.rule))
  rule.protect('the default gateways of this node', ['192.0.2.254'])
  rule.protect('the default gateways of this node', ['192.0.2.254'])
  assert.equal(changes.length, 1)
  assert.equal(outcome({ externalIps: ['192.0.2.254'] }, rule).problems.length, 1)
  unfollow()
  rule.protect('the default gateways of this node', [])
  assert.equal(changes.length, 1)
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
  /** Whether the change is one of the rule. */
  const apply = (change: ObjectChange): boolean => {
    const before = rule.rule
    rule.apply(change)
    return rule.rule !== before
  }

  assert.deepEqual(refused(), [])
  const before = nodeWith(rule)
  assert.equal(apply({ kind: 'services', key: 'default/kubernetes', value: kubernetes }), true)
  assert.equal(changedFields(before, nodeWith(rule)), READS_VIRTUAL_IPS)
  assert.equal(apply({ kind: 'services', key: 'default/kubernetes', value: { ...kubernetes } }), false)
  assert.equal(apply({ kind: 'services', key: 'kube-system/kube-dns', value: dns }), true)
  assert.equal(apply({ kind: 'services', key: 'kube-system/other', value: WEB }), false)
  assert.equal(apply({ kind: 'services', key: 'demo/web', value: WEB }), false)
  assert.equal(apply({ kind: 'endpointslices', key: 'default/kubernetes', value: apiServer('172.18.0.2') }), true)
  assert.deepEqual(refused(), ['10.96.0.1', '10.96.0.10', '172.18.0.2'])
  const squatting = apiServer('172.18.0.3', 'squatter')
  assert.equal(apply({ kind: 'endpointslices', key: 'default/squatter', value: squatting }), false)
  assert.equal(apply({ kind: 'endpointslices', key: 'default/kubernetes', value: apiServer('172.18.0.3') }), true)
  assert.deepEqual(refused(), ['10.96.0.1', '10.96.0.10', '172.18.0.3'])
  assert.equal(apply({ kind: 'services', key: 'kube-system/kube-dns', value: undefined }), true)
  assert.deepEqual(refused(), ['10.96.0.1', '172.18.0.3'])
})

/** A guard that knows an API server at 198.51.100.1:6443, and a gateway. */
function guardOfNetwork(allowsProtected = false): VirtualIpGuard {
  const made = new VirtualIpGuard({}, allowsProtected)
  made.protectApiServer('by its URL', ['198.51.100.1'], 6443)
  made.addHosts(['192.0.2.77', '127.0.0.1'])
  return made
}

const REFUSED_API = (field: string, address: string): string =>
  `${field}: ${address} is refused: it is an address of the API server, which this node could not reach any more`
const LEFT = ', and left to it as with ipMode Proxy'

test('a load-balancer address of the API server is never bound, and is reported', () => {
  const { keys, problems } = outcome({ loadBalancerVips: ['198.51.100.1', '203.0.113.6'] }, guardOfNetwork())
  assert.deepEqual(keys, [vip('203.0.113.6')])
  assert.deepEqual(problems, [REFUSED_API('status.loadBalancer.ingress', '198.51.100.1')])
  const external = outcome({ externalIps: ['198.51.100.1'] }, guardOfNetwork(true))
  assert.deepEqual(external.keys, [])
  assert.deepEqual(external.problems, [REFUSED_API('spec.externalIPs', '198.51.100.1')])
})

test('where the address of the API server is not bound, only its port is taken: on its own node, and in iptables mode', () => {
  const onNode = guardOfNetwork()
  onNode.protectApiServer('by its URL', ['192.0.2.9'], 6443)
  const ports = (port: number) => [servicePort({ port })]
  const onPort = { loadBalancerVips: ['192.0.2.9'] }
  assert.deepEqual(outcome(onPort, onNode).keys, [vip('192.0.2.9')])
  assert.deepEqual(outcome({ ...onPort, ports: ports(6443) }, onNode).problems, [
    REFUSED_API('status.loadBalancer.ingress', '192.0.2.9'),
  ])
  const iptables = { bindsAddresses: false }
  const remote = { loadBalancerVips: ['198.51.100.1'] }
  assert.deepEqual(outcome(remote, guardOfNetwork(), iptables).problems, [])
  assert.equal(outcome({ ...remote, ports: ports(6443) }, guardOfNetwork(), iptables).problems.length, 1)
})

test('the other addresses of a list with an address of this Node object are left to other nodes, by family', () => {
  const loadBalancerVips = ['192.0.2.2', '192.0.2.1', '192.0.2.3', '192.0.2.4', '192.0.2.5', 'fd00:113::1']
  const { keys, problems } = outcome({ loadBalancerVips }, guard())
  assert.deepEqual(keys, [vip('192.0.2.1'), 'LoadBalancerVip [fd00:113::1]:80/tcp'])
  const left = '192.0.2.2, 192.0.2.3, 192.0.2.4 and 1 more are addresses of other hosts, and left to them'
  assert.deepEqual(problems, [`status.loadBalancer.ingress: ${left} as with ipMode Proxy`])
  // ExternalIP of the Node, which no interface has.
  assert.deepEqual(outcome({ loadBalancerVips: ['198.18.7.1', '198.18.7.2'] }, guard()).keys, [vip('198.18.7.1')])
  // An interface may have the VIP of a load balancer.
  const pool = ['192.0.2.9', '203.0.113.9']
  assert.deepEqual(outcome({ loadBalancerVips: pool }, guard()).keys, pool.map(vip))
  assert.deepEqual(outcome({ loadBalancerVips }, guard(), { bindsAddresses: false }).problems, [])
})

test('an address of a gateway or of a tunnel peer is left to that host, also after it is gone', () => {
  const rule = guardOfNetwork()
  assert.deepEqual(rule.rule.hosts, new Set(['192.0.2.77']))
  rule.addHosts([])
  const { keys, problems } = outcome({ loadBalancerVips: ['192.0.2.77', '203.0.113.6'] }, rule)
  assert.deepEqual(keys, [vip('203.0.113.6')])
  assert.deepEqual(problems, [`status.loadBalancer.ingress: 192.0.2.77 is an address of another host${LEFT}`])
  const gateway = { externalIps: ['192.0.2.77'] }
  assert.deepEqual(outcome(gateway, rule).problems, [
    `spec.externalIPs: 192.0.2.77 is refused: it is an address of another node or router${HINT}`,
  ])
  const allowed = outcome(gateway, guardOfNetwork(true))
  assert.deepEqual(allowed.keys, [])
  assert.deepEqual(allowed.problems, [`spec.externalIPs: 192.0.2.77 is an address of another host${LEFT}`])
  assert.deepEqual(outcome(gateway, guardOfNetwork(true), { bindsAddresses: false }).keys, [external('192.0.2.77')])
})

test('other hosts are remembered up to a limit', () => {
  const rule = new VirtualIpGuard({}, false)
  rule.addHosts(Array.from({ length: 70_000 }, (_, index) => `10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`))
  assert.equal(rule.rule.hosts.size, 65_536)
})

test('an externalIP of a Pod, or of the cluster IP of another Service, is refused', () => {
  const rule = guard()
  rule.protectRanges('Pods', ['10.244.0.0/16', '0.0.0.0/0', 'no range'])
  const externalIps = ['10.244.3.7', '10.96.0.20', '10.96.0.7', '203.0.113.5']
  const clusterIpOwner = (address: string): string | undefined =>
    ({ '10.96.0.20': 'other/db', '10.96.0.7': 'demo/web' })[address]
  const { keys, problems } = outcome({ externalIps }, rule, { clusterIpOwner })
  assert.deepEqual(keys, [external('203.0.113.5')])
  assert.deepEqual(problems, [
    `spec.externalIPs: 10.244.3.7 is refused: it is an address of Pods${HINT}`,
    `spec.externalIPs: 10.96.0.20 is refused: it is the cluster IP of other/db${HINT}`,
  ])
  rule.protectRanges('Pods', [])
  assert.equal(outcome({ externalIps: ['10.244.3.7'] }, rule).problems.length, 0)
})
