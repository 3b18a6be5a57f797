import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Service } from '../../../src/service/objects.ts'
import { parseMetadata, parseObject } from '../../../src/watch/objects/object-parser.ts'
import { service, servicePort } from '../../support/objects.ts'
import { parse, parseServiceSpec } from './parse.ts'

const HTTP = servicePort({ name: '', protocol: 'tcp', port: 80, nodePort: 0 })
/** The spec of a Service with only a cluster IP and a port. */
const PLAIN = service({
  namespace: 'demo',
  name: 'web',
  createdAtMs: 0,
  clusterIps: { IPv4: '10.96.0.10' },
  ports: [HTTP],
  externalIps: [],
  loadBalancerVips: [],
  sourceRanges: [],
  internalTrafficPolicy: 'Cluster',
  externalTrafficPolicy: 'Cluster',
  affinityTimeoutSeconds: 0,
  annotations: '',
  healthCheckNodePort: 0,
})
const SPEC = { clusterIP: '10.96.0.10', ports: [{ port: 80 }] }

test('parseService gives absent fields their defaults', () => {
  assert.deepEqual(parseServiceSpec(SPEC), { value: PLAIN, problems: [] })
})

test('parseService reads the creation time and the default namespace', () => {
  const metadata = { name: 'web', creationTimestamp: '2026-11-20T16:19:17Z' }
  assert.deepEqual(parse('services', { metadata, spec: SPEC }).value, {
    ...PLAIN,
    namespace: 'default',
    createdAtMs: Date.UTC(2026, 10, 20, 16, 19, 17),
  })
})

test('parseService returns nothing for Services without a cluster IP, without a problem', () => {
  const rows = [
    { ...SPEC, clusterIP: 'None' },
    { ...SPEC, clusterIP: '' },
    { ports: [{ port: 80 }] },
    { clusterIPs: ['None'], ports: [{ port: 80 }] },
    { ...SPEC, type: 'ExternalName', externalName: 'x.example' },
  ]
  for (const spec of rows) assert.deepEqual(parseServiceSpec(spec), { value: undefined, problems: [] })
})

test('parseService uses the first cluster IP of each family', () => {
  const rows: [object, Service['clusterIps'], string[]][] = [
    [{ clusterIP: '10.96.0.1', clusterIPs: ['10.96.0.1', 'FD00::1'] }, { IPv4: '10.96.0.1', IPv6: 'fd00::1' }, []],
    [{ clusterIPs: ['fd00:0::1', '10.96.0.1'] }, { IPv4: '10.96.0.1', IPv6: 'fd00::1' }, []],
    [{ clusterIP: '010.096.000.001' }, { IPv4: '10.96.0.1' }, []],
    [{ clusterIP: '10.96.0.1', clusterIPs: null }, { IPv4: '10.96.0.1' }, []],
    [{ clusterIPs: ['10.96.0.1', '10.96.0.300'] }, { IPv4: '10.96.0.1' }, ['spec.clusterIPs[1]: invalid-address']],
  ]
  for (const [ips, clusterIps, problems] of rows)
    assert.deepEqual(parseServiceSpec({ ports: [{ port: 80 }], ...ips }), { value: { ...PLAIN, clusterIps }, problems })
})

test('parseService returns only the problem without a valid cluster IP', () => {
  assert.deepEqual(parseServiceSpec({ ...SPEC, clusterIP: 'web' }), {
    value: undefined,
    problems: ['spec.clusterIP: invalid-address'],
  })
})

test('parseService drops a wrong port and keeps the others', () => {
  const rows: [unknown, string][] = [
    [{ port: '81' }, 'spec.ports[1].port: invalid-port'],
    [{ port: -1 }, 'spec.ports[1].port: invalid-port'],
    [{ port: 0 }, 'spec.ports[1].port: invalid-port'],
    [{ port: 65_536 }, 'spec.ports[1].port: invalid-port'],
    [{ port: 8.5 }, 'spec.ports[1].port: invalid-port'],
    [{}, 'spec.ports[1].port: invalid-port'],
    [{ port: 81, protocol: 'ICMP' }, 'spec.ports[1].protocol: unknown-protocol'],
    [{ port: 81, protocol: 'tcp' }, 'spec.ports[1].protocol: unknown-protocol'],
    [7, 'spec.ports[1]: invalid-field'],
    [null, 'spec.ports[1]: invalid-field'],
    [[], 'spec.ports[1]: invalid-field'],
    [{ port: 80, name: 'again' }, 'spec.ports[1]: duplicate-port'],
    [{ port: 81 }, 'spec.ports[1]: duplicate-port'],
  ]
  for (const [port, problem] of rows)
    assert.deepEqual(parseServiceSpec({ ...SPEC, ports: [{ port: 80 }, port] }), { value: PLAIN, problems: [problem] })
})

test('parseService drops a wrong node port and keeps its port', () => {
  assert.deepEqual(parseServiceSpec({ ...SPEC, ports: [{ port: 80, nodePort: '30080' }] }), {
    value: PLAIN,
    problems: ['spec.ports[0].nodePort: invalid-port'],
  })
})

test('parseService returns nothing without a usable port', () => {
  const rows: [unknown, string[]][] = [
    [undefined, ['spec.ports: missing-field']],
    [[], ['spec.ports: missing-field']],
    [{ port: 80 }, ['spec.ports: invalid-field', 'spec.ports: missing-field']],
    [[{ port: 'http' }], ['spec.ports[0].port: invalid-port']],
  ]
  for (const [ports, problems] of rows)
    assert.deepEqual(parseServiceSpec({ ...SPEC, ports }), { value: undefined, problems })
})

test('parseService accepts 1,000 ports', () => {
  const ports = Array.from({ length: 1000 }, (_, index) => ({
    name: `p${index}`,
    port: index + 1,
    nodePort: 30_000 + index,
  }))
  const { value, problems } = parseServiceSpec({ ...SPEC, ports })
  assert.deepEqual(problems, [])
  assert.equal(value?.ports.length, 1000)
  assert.deepEqual(value?.ports[999], servicePort({ name: 'p999', port: 1000, nodePort: 30_999 }))
})

test('parseService limits the problems of one object', () => {
  const ports = Array.from({ length: 1000 }, () => ({ port: -1 }))
  const { problems } = parseServiceSpec({ ...SPEC, ports })
  assert.equal(problems.length, 20)
  assert.equal(problems.at(-1), ': more-problems')
})

test('parseService keeps valid external IPs in order, drops empty ones silently', () => {
  const externalIPs = ['203.0.113.9', '', 'nonsense', '2001:DB8::1', 7, '203.000.113.009']
  const { value, problems } = parseServiceSpec({ ...SPEC, externalIPs })
  assert.deepEqual(value?.externalIps, ['203.0.113.9', '2001:db8::1'])
  assert.deepEqual(problems, ['spec.externalIPs[2]: invalid-address', 'spec.externalIPs[4]: invalid-address'])
})

test('parseService reads load balancer VIPs with ipMode VIP', () => {
  const ingress = [
    { ip: '203.0.113.10' },
    { ip: '203.0.113.11', ipMode: 'VIP' },
    { ip: '203.0.113.12', ipMode: 'Proxy' },
    { ip: '203.0.113.13', ipMode: null },
    { ip: '203.0.113.14', ipMode: 'Tunnel' },
    { hostname: 'lb.example' },
    { ip: '' },
    { ip: 'lb' },
    'x',
  ]
  const { value, problems } = parseServiceSpec(SPEC, { loadBalancer: { ingress } })
  assert.deepEqual(value?.loadBalancerVips, ['203.0.113.10', '203.0.113.11', '203.0.113.13'])
  assert.deepEqual(problems, [
    'status.loadBalancer.ingress[4].ipMode: invalid-field',
    'status.loadBalancer.ingress[7].ip: invalid-address',
    'status.loadBalancer.ingress[8]: invalid-field',
  ])
})

test('parseService trims source ranges and clears their host bits', () => {
  const loadBalancerSourceRanges = [' 198.51.100.77/24 ', 'fd00::1/64', '10.0.0.0', '\t010.0.0.0/8', 8]
  const { value, problems } = parseServiceSpec({ ...SPEC, loadBalancerSourceRanges })
  assert.deepEqual(value?.sourceRanges, ['198.51.100.0/24', 'fd00::/64', '10.0.0.0/8'])
  assert.deepEqual(problems, [
    'spec.loadBalancerSourceRanges[2]: invalid-range',
    'spec.loadBalancerSourceRanges[4]: invalid-range',
  ])
})

test('a message about thousands of VIPs without a source range names the first ones', () => {
  const ingress = Array.from({ length: 10_000 }, (_, index) => ({ ip: `198.18.${index >> 8}.${index & 255}` }))
  const json = {
    metadata: { name: 'web', namespace: 'demo' },
    spec: { ...SPEC, loadBalancerSourceRanges: ['fd00::/64', 'x'] },
    status: { loadBalancer: { ingress: [{ ip: 'fd00::1' }, ...ingress] } },
  }
  const metadata = parseMetadata('services', json, String)
  assert.ok(metadata)
  const { change, problems } = parseObject('services', json, metadata, String, 'manifest')
  assert.ok(change.kind === 'services')
  assert.deepEqual(change.value?.loadBalancerVips, ['fd00::1'])
  const [message = ''] = problems.map((problem) => problem.message).filter((text) => text.startsWith('leave no range'))
  assert.match(message, /^leave no range for 198\.18\.0\.0, .* and 9989 more: left out/)
  assert.ok(message.length < 300)
})

test('parseService reads the first 10,000 items of a list, and serves no VIP with more source ranges', () => {
  const addresses = Array.from({ length: 10_001 }, (_, index) => `198.18.${index >> 8}.${index & 255}`)
  const many = parseServiceSpec(
    { ...SPEC, externalIPs: addresses, ports: addresses.map((_, index) => ({ name: `p${index}`, port: index + 1 })) },
    { loadBalancer: { ingress: addresses.map((ip) => ({ ip })) } },
  )
  const { ports, externalIps, loadBalancerVips } = many.value ?? {}
  assert.deepEqual([ports?.length, externalIps?.length, loadBalancerVips?.length], [10_000, 10_000, 10_000])
  assert.deepEqual(many.problems.toSorted(), [
    'spec.externalIPs: too-many-items',
    'spec.ports: too-many-items',
    'status.loadBalancer.ingress: too-many-items',
  ])
  // All of the ranges that are read would be of IPv4, and the VIP of IPv6 open.
  const loadBalancerSourceRanges = [...addresses.map((address) => `${address}/32`), 'fd00::/64']
  const ingress = [{ ip: '203.0.113.10' }, { ip: '2001:db8::10' }]
  const { value, problems } = parseServiceSpec({ ...SPEC, loadBalancerSourceRanges }, { loadBalancer: { ingress } })
  assert.deepEqual([value?.sourceRanges, value?.loadBalancerVips], [[], []])
  assert.deepEqual(problems, ['spec.loadBalancerSourceRanges: too-many-items'])
})

test('parseService applies externalTrafficPolicy only to Services with external addresses', () => {
  const rows: [object, 'Cluster' | 'Local'][] = [
    [{ type: 'LoadBalancer' }, 'Local'],
    [{ type: 'NodePort' }, 'Local'],
    [{ type: 'ClusterIP', externalIPs: ['203.0.113.9'] }, 'Local'],
    [{ type: 'ClusterIP' }, 'Cluster'],
  ]
  for (const [fields, expected] of rows) {
    const { value } = parseServiceSpec({
      ...SPEC,
      ...fields,
      externalTrafficPolicy: 'Local',
      healthCheckNodePort: 32_000,
    })
    assert.equal(value?.externalTrafficPolicy, expected, JSON.stringify(fields))
    assert.equal(value?.healthCheckNodePort, 'type' in fields && fields.type === 'LoadBalancer' ? 32_000 : 0)
  }
})

test('parseService treats an invalid policy as Cluster', () => {
  const { value, problems } = parseServiceSpec({ ...SPEC, internalTrafficPolicy: 'local' })
  assert.equal(value?.internalTrafficPolicy, 'Cluster')
  assert.deepEqual(problems, ['spec.internalTrafficPolicy: invalid-field'])
  assert.equal(parseServiceSpec({ ...SPEC, internalTrafficPolicy: 'Local' }).value?.internalTrafficPolicy, 'Local')
})

test('parseService reads the affinity timeout', () => {
  const seconds = (timeoutSeconds: unknown): object => ({ sessionAffinityConfig: { clientIP: { timeoutSeconds } } })
  const rows: [object, number, string[]][] = [
    [{ sessionAffinity: 'None', ...seconds(5) }, 0, []],
    [{ sessionAffinity: 'ClientIP' }, 10_800, []],
    [{ sessionAffinity: 'ClientIP', sessionAffinityConfig: null }, 10_800, []],
    [{ sessionAffinity: 'ClientIP', ...seconds(5) }, 5, []],
    [{ sessionAffinity: 'ClientIP', ...seconds(86_400) }, 86_400, []],
    [
      { sessionAffinity: 'ClientIP', ...seconds(86_401) },
      10_800,
      ['spec.sessionAffinityConfig.clientIP.timeoutSeconds: invalid-field'],
    ],
    [{ sessionAffinity: 'Cookie' }, 0, ['spec.sessionAffinity: invalid-field']],
  ]
  for (const [fields, expected, problems] of rows) {
    const parsed = parseServiceSpec({ ...SPEC, ...fields })
    assert.equal(parsed.value?.affinityTimeoutSeconds, expected)
    assert.deepEqual(parsed.problems, problems)
  }
})

test('parseService reports arrays in place of objects and reads the rest', () => {
  const { value, problems } = parseServiceSpec(
    { ...SPEC, externalIPs: {}, sessionAffinity: 'ClientIP', sessionAffinityConfig: [] },
    [],
  )
  assert.deepEqual(value, { ...PLAIN, affinityTimeoutSeconds: 10_800 })
  assert.deepEqual(problems, [
    'spec.externalIPs: invalid-field',
    'status: invalid-field',
    'spec.sessionAffinityConfig: invalid-field',
  ])
  assert.deepEqual(parseServiceSpec([]), { value: undefined, problems: ['spec: invalid-field'] })
})

test('parseService keeps the annotations that this program reads, as one shared text, and reports those that are no text', () => {
  const annotated = (annotations: unknown) =>
    parse('services', { metadata: { name: 'web', namespace: 'demo', annotations }, spec: SPEC })
  const own = { 'kube-ipvs.io/scheduler': 'lc', 'kube-ipvs.io/max-connections': '5' }
  const text = '[["kube-ipvs.io/scheduler","lc"],["kube-ipvs.io/max-connections","5"]]'
  const rows: readonly (readonly [unknown, string, readonly string[]])[] = [
    [undefined, '', []],
    [null, '', []],
    ['text', '', []],
    [{}, '', []],
    [{ 'kubectl.kubernetes.io/last-applied-configuration': 'x'.repeat(100_000) }, '', []],
    [{ ...own, other: 'x' }, text, []],
    [{ 'kube-ipvs.io/scheduler': 'x'.repeat(100_000) }, `[["kube-ipvs.io/scheduler","${'x'.repeat(101)}"]]`, []],
    [{ 'kube-ipvs.io/max-connections': 5 }, '', ['metadata.annotations[kube-ipvs.io/max-connections]: invalid-field']],
    [Object.create({ 'kube-ipvs.io/scheduler': 'lc' }), '', []],
  ]
  for (const [annotations, expected, problems] of rows)
    assert.deepEqual(annotated(annotations), { value: { ...PLAIN, annotations: expected }, problems })
})
