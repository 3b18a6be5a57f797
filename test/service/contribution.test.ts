/**
 * From one Service to its frontends: kube-proxy's behaviour as rows, and the laws of a contribution. Rows print every frontend
 * completely, so that a field that is wrong for one role fails.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type AddressFrontend, FRONTEND_ROLES, type FrontendRole } from '../../src/service/frontends.ts'
import {
  changedFields,
  type NodeContext,
  READS_NODE_PORT_ADDRESSES,
  READS_ZONE,
} from '../../src/service/node-context.ts'
import type { EndpointSlice, Service, ServicePortSpec } from '../../src/service/objects.ts'
import { formatEndpoint } from '../../src/values/address.ts'
import { AnnotationReader, annotationsText } from '../../src/service/annotations.ts'
import { type FrontendSettings, frontendsOf } from '../../src/service/contribution.ts'
import { Budget } from '../../src/values/budget.ts'
import { anyContributionOf, contributionOf } from '../support/contribution.ts'
import { endpoint, service, servicePort, slice, slicePort } from '../support/objects.ts'

const PORT = servicePort({ name: 'http', port: 80 })
const SERVICE = service({ clusterIps: { IPv4: '10.20.30.41' }, ports: [PORT] })
const NODE: NodeContext = {
  nodeName: 'node0',
  zone: 'zone-a',
  nodeIps: { IPv4: '100.101.102.103', IPv6: '2001:db8::1:1' },
  localAddresses: new Set(['100.101.102.103', '2001:db8::1:1']),
  nodePortAddresses: { IPv4: ['100.101.102.103'], IPv6: ['2001:db8::1:1'] },
}

const SLICE4 = slice({
  name: 'web-4',
  ports: [
    slicePort({ name: 'http', port: 8080 }),
    slicePort({ name: 'dns', protocol: 'udp', port: 5353 }),
    slicePort({ name: 'sig', protocol: 'sctp', port: 9000 }),
  ],
  endpoints: [
    endpoint({ address: '10.180.0.1', nodeName: 'node0' }),
    endpoint({ address: '10.180.1.1', nodeName: 'node1' }),
  ],
})
const SLICE6: EndpointSlice = {
  ...SLICE4,
  name: 'web-6',
  family: 'IPv6',
  endpoints: [endpoint({ address: '1002:ab8::2:10', nodeName: 'node1' })],
}
const SLICES = [SLICE4, SLICE6]

/** `ClusterIP 10.20.30.41:80/tcp bind Cluster -> 10.180.0.1:8080 …`; several roles with a plus between. */
function print({ roles, key, bind, selection, servicePort }: AddressFrontend): string {
  const { affinityTimeoutSeconds } = servicePort.service
  const words = [roles.join('+'), key, ...(bind ? ['bind'] : []), selection.policy]
  if (affinityTimeoutSeconds > 0) words.push(`affinity=${affinityTimeoutSeconds}`)
  return [...words, '->', ...selection.endpoints.map(({ address, port }) => formatEndpoint(address, port))].join(' ')
}

const BOTH = '10.180.0.1:8080 10.180.1.1:8080'
const LOCAL = '10.180.0.1:8080'
const SIX = '[1002:ab8::2:10]:8080'

interface Row {
  readonly title: string
  readonly service: Partial<Service>
  readonly node?: Partial<NodeContext>
  readonly slices?: readonly EndpointSlice[]
  readonly expected: readonly string[]
  readonly problems?: readonly string[]
}

const ROWS: readonly Row[] = [
  {
    title: 'TCP with a node port, IPv4 only',
    service: { ports: [{ ...PORT, nodePort: 3001 }] },
    expected: [
      `ClusterIP 10.20.30.41:80/tcp bind Cluster -> ${BOTH}`,
      `NodePort 100.101.102.103:3001/tcp Cluster -> ${BOTH}`,
    ],
  },
  {
    title: 'the same as UDP',
    service: { ports: [servicePort({ name: 'dns', protocol: 'udp', port: 53, nodePort: 3001 })] },
    expected: [
      'ClusterIP 10.20.30.41:53/udp bind Cluster -> 10.180.0.1:5353 10.180.1.1:5353',
      'NodePort 100.101.102.103:3001/udp Cluster -> 10.180.0.1:5353 10.180.1.1:5353',
    ],
  },
  {
    title: 'no endpoints',
    service: { ports: [{ ...PORT, nodePort: 3001 }] },
    slices: [],
    expected: ['ClusterIP 10.20.30.41:80/tcp bind Cluster ->', 'NodePort 100.101.102.103:3001/tcp Cluster ->'],
  },
  {
    title: 'SCTP, external Local',
    service: {
      ports: [servicePort({ name: 'sig', protocol: 'sctp', port: 90, nodePort: 3001 })],
      externalTrafficPolicy: 'Local',
    },
    expected: [
      'ClusterIP 10.20.30.41:90/sctp bind Cluster -> 10.180.0.1:9000 10.180.1.1:9000',
      'NodePort 100.101.102.103:3001/sctp Local -> 10.180.0.1:9000',
    ],
  },
  {
    title: 'IPv6 only',
    service: { clusterIps: { IPv6: '2020::1' }, ports: [{ ...PORT, nodePort: 3001 }] },
    expected: [
      `ClusterIP [2020::1]:80/tcp bind Cluster -> ${SIX}`,
      `NodePort [2001:db8::1:1]:3001/tcp Cluster -> ${SIX}`,
    ],
  },
  {
    title: 'dual-stack, each family with its own endpoints',
    service: { clusterIps: { IPv4: '10.20.30.41', IPv6: '2020::1' } },
    expected: [
      `ClusterIP 10.20.30.41:80/tcp bind Cluster -> ${BOTH}`,
      `ClusterIP [2020::1]:80/tcp bind Cluster -> ${SIX}`,
    ],
  },
  {
    title: 'affinity in every role',
    service: {
      affinityTimeoutSeconds: 10800,
      ports: [{ ...PORT, nodePort: 3001 }],
      externalIps: ['50.60.70.81'],
      loadBalancerVips: ['203.0.113.10'],
    },
    expected: [
      `ClusterIP 10.20.30.41:80/tcp bind Cluster affinity=10800 -> ${BOTH}`,
      `ExternalIP 50.60.70.81:80/tcp bind Cluster affinity=10800 -> ${BOTH}`,
      `LoadBalancerVip 203.0.113.10:80/tcp bind Cluster affinity=10800 -> ${BOTH}`,
      `NodePort 100.101.102.103:3001/tcp Cluster affinity=10800 -> ${BOTH}`,
    ],
  },
  {
    title: 'a cluster IP is bound even if the node has it on another interface',
    service: {},
    node: { localAddresses: new Set(['10.20.30.41']) },
    expected: [`ClusterIP 10.20.30.41:80/tcp bind Cluster -> ${BOTH}`],
  },
  {
    title: 'a VIP or external IP that the node has is not bound',
    service: { externalIps: ['100.101.102.103'], loadBalancerVips: ['203.0.113.10'] },
    node: { localAddresses: new Set(['100.101.102.103', '203.0.113.10']) },
    expected: [
      `ClusterIP 10.20.30.41:80/tcp bind Cluster -> ${BOTH}`,
      `ExternalIP 100.101.102.103:80/tcp Cluster -> ${BOTH}`,
      `LoadBalancerVip 203.0.113.10:80/tcp Cluster -> ${BOTH}`,
    ],
  },
  {
    title: 'external IPs of both families, protocol of the slice differs',
    service: { externalIps: ['50.60.70.81', '2012::51'] },
    slices: [{ ...SLICE4, ports: [slicePort({ name: 'http', protocol: 'udp', port: 80 })] }],
    expected: ['ClusterIP 10.20.30.41:80/tcp bind Cluster ->', 'ExternalIP 50.60.70.81:80/tcp bind Cluster ->'],
    problems: ['address-family spec.externalIPs'],
  },
  {
    title: 'external IP, external Local',
    service: { externalIps: ['50.60.70.81'], externalTrafficPolicy: 'Local' },
    expected: [
      `ClusterIP 10.20.30.41:80/tcp bind Cluster -> ${BOTH}`,
      `ExternalIP 50.60.70.81:80/tcp bind Local -> ${LOCAL}`,
    ],
  },
  {
    title: 'the port name differs from the slice’s',
    service: { ports: [{ ...PORT, name: 'web' }] },
    expected: ['ClusterIP 10.20.30.41:80/tcp bind Cluster ->'],
  },
  {
    title: 'deviation 5: internal Local without a local endpoint, with a node port',
    service: { ports: [{ ...PORT, nodePort: 3001 }], internalTrafficPolicy: 'Local' },
    node: { nodeName: 'node7' },
    expected: ['ClusterIP 10.20.30.41:80/tcp bind Local ->', `NodePort 100.101.102.103:3001/tcp Cluster -> ${BOTH}`],
  },
  {
    title: 'deviation 4: external Local without a local endpoint',
    service: { loadBalancerVips: ['203.0.113.10'], externalTrafficPolicy: 'Local' },
    node: { nodeName: 'node7' },
    expected: [
      `ClusterIP 10.20.30.41:80/tcp bind Cluster -> ${BOTH}`,
      `LoadBalancerVip 203.0.113.10:80/tcp bind Local -> ${BOTH}`,
    ],
  },
  {
    title: 'no node port address: no node port frontend, but all others',
    service: { ports: [{ ...PORT, nodePort: 3001 }], externalIps: ['50.60.70.81'] },
    node: { nodePortAddresses: { IPv4: [], IPv6: ['2001:db8::1:1'] } },
    expected: [
      `ClusterIP 10.20.30.41:80/tcp bind Cluster -> ${BOTH}`,
      `ExternalIP 50.60.70.81:80/tcp bind Cluster -> ${BOTH}`,
    ],
  },
  {
    title: 'an address that is VIP and external IP, and listed twice, is one frontend in both roles',
    service: { externalIps: ['203.0.113.10', '203.0.113.10'], loadBalancerVips: ['203.0.113.10'] },
    expected: [
      `ClusterIP 10.20.30.41:80/tcp bind Cluster -> ${BOTH}`,
      `LoadBalancerVip+ExternalIP 203.0.113.10:80/tcp bind Cluster -> ${BOTH}`,
    ],
  },
  {
    title: 'a cluster IP that is VIP and external IP too has all three roles and the endpoints of the external policy',
    service: {
      externalIps: ['10.20.30.41'],
      loadBalancerVips: ['10.20.30.41'],
      externalTrafficPolicy: 'Local',
    },
    expected: [`ClusterIP+LoadBalancerVip+ExternalIP 10.20.30.41:80/tcp bind Local -> ${LOCAL}`],
  },
  {
    title: 'a node port with the number of the port joins the other roles of the address',
    service: {
      ports: [{ ...PORT, nodePort: 80 }],
      clusterIps: { IPv4: '100.101.102.104' },
      externalIps: ['100.101.102.103', '100.101.102.105'],
      loadBalancerVips: ['100.101.102.105'],
    },
    node: {
      localAddresses: new Set(['100.101.102.103']),
      nodePortAddresses: { IPv4: ['100.101.102.103', '100.101.102.104', '100.101.102.105'], IPv6: [] },
    },
    expected: [
      `ClusterIP+NodePort 100.101.102.104:80/tcp bind Cluster -> ${BOTH}`,
      `NodePort+ExternalIP 100.101.102.103:80/tcp Cluster -> ${BOTH}`,
      `NodePort+LoadBalancerVip+ExternalIP 100.101.102.105:80/tcp bind Cluster -> ${BOTH}`,
    ],
  },
  {
    title: 'two ports that meet at one key: the better role wins and the other is reported',
    service: {
      ports: [servicePort({ name: 'alt', port: 3001 }), { ...PORT, nodePort: 3001 }],
      externalIps: ['100.101.102.103'],
    },
    expected: [
      `ClusterIP 10.20.30.41:80/tcp bind Cluster -> ${BOTH}`,
      `ExternalIP 100.101.102.103:80/tcp Cluster -> ${BOTH}`,
      `NodePort 100.101.102.103:3001/tcp Cluster -> ${BOTH}`,
      'ClusterIP 10.20.30.41:3001/tcp bind Cluster ->',
    ],
    problems: ['frontend-conflict spec.ports'],
  },
  {
    title: 'an address of a family without a cluster IP is left out and reported',
    service: { loadBalancerVips: ['2001:db8::9'] },
    expected: [`ClusterIP 10.20.30.41:80/tcp bind Cluster -> ${BOTH}`],
    problems: ['address-family status.loadBalancer.ingress'],
  },
]

for (const row of ROWS) {
  test(`frontendsOf ${row.title}`, () => {
    const { frontends, problems } = contributionOf({ ...SERVICE, ...row.service }, row.slices ?? SLICES, {
      ...NODE,
      ...row.node,
    })
    assert.deepEqual([...frontends.values()].map(print).sort(), row.expected.toSorted())
    for (const [key, frontend] of frontends) assert.equal(frontend.key, key)
    assert.deepEqual(
      problems.map(({ code, field }) => `${code} ${field}`),
      row.problems ?? [],
    )
    for (const problem of problems) assert.equal(problem.subject, 'service demo/web')
  })
}

test('frontendsOf names the Service port', () => {
  const ports = [PORT, { ...PORT, name: '', port: 81 }]
  const { frontends } = contributionOf({ ...SERVICE, ports }, SLICES, NODE)
  assert.deepEqual(
    [...frontends.values()].map((frontend) => frontend.servicePort.name),
    ['demo/web:http', 'demo/web'],
  )
})

test('frontendsOf shares the ServicePort and its selections among the frontends of a port', () => {
  const service: Service = { ...SERVICE, ports: [{ ...PORT, nodePort: 3001 }], externalIps: ['50.60.70.81'] }
  const [first, ...rest] = contributionOf(service, SLICES, NODE).frontends.values()
  assert.ok(first)
  assert.equal(first.selection.endpoints, first.servicePort.candidates, 'all of them in use')
  assert.equal(rest.length, 2)
  for (const frontend of rest) {
    assert.equal(frontend.servicePort, first.servicePort)
    assert.equal(frontend.selection, first.selection)
  }
})

const EVERY_ADDRESS = { nodePorts: 'every-address' } as const

test('frontendsOf makes one frontend for a node port at every address, whatever addresses the node has', () => {
  const service: Service = {
    ...SERVICE,
    clusterIps: { IPv4: '100.101.102.103', IPv6: '2020::1' },
    ports: [{ ...PORT, nodePort: 3001 }, servicePort({ name: 'dns', protocol: 'udp', port: 3002, nodePort: 3002 })],
    externalTrafficPolicy: 'Local',
  }
  for (const nodePortAddresses of [NODE.nodePortAddresses, { IPv4: [], IPv6: [] }]) {
    const { frontends, reads } = anyContributionOf(service, SLICES, { ...NODE, nodePortAddresses }, EVERY_ADDRESS)
    const nodePorts = Array.from(frontends.values()).filter(({ roles }) => roles.includes('NodePort'))
    assert.deepEqual(
      nodePorts.map(({ key }) => key),
      ['*:3001/tcp', '*:3002/udp', '[*]:3001/tcp', '[*]:3002/udp'],
    )
    for (const { key, roles, address, port, bind, selection } of nodePorts) {
      assert.deepEqual([roles, address, bind, selection.policy], [['NodePort'], undefined, false, 'Local'])
      assert.match(key, new RegExp(`:${port}/`))
    }
    assert.equal(frontends.size, 8)
    assert.equal(reads & READS_NODE_PORT_ADDRESSES, 0)
    const { problems } = anyContributionOf(service, SLICES, NODE, { ...EVERY_ADDRESS, maxFrontends: 3 })
    assert.match(problems[0]?.message ?? '', /^5 of 8 frontends are left out/)
  }
})

test('frontendsOf makes all frontends of 1,000 ports and with 1,000 endpoints', () => {
  const numbers = Array.from({ length: 1000 }, (_, index) => index + 1)
  const ports = numbers.map((port) => ({ ...PORT, name: `p${port}`, port, nodePort: 30_000 + port }))
  const wide: EndpointSlice = {
    ...SLICE4,
    ports: ports.slice(0, 5).map(({ name, port }) => slicePort({ name, port })),
    endpoints: numbers.map((number) => endpoint({ address: `10.1.${number >> 8}.${number & 255}`, nodeName: 'node1' })),
  }
  const { frontends } = contributionOf({ ...SERVICE, ports }, [wide], NODE)
  assert.equal(frontends.size, 2000)
  const counts = [...frontends.values()].map((frontend) => frontend.selection.endpoints.length)
  assert.equal(counts.filter((count) => count === 1000).length, 10)
  assert.equal(counts.filter((count) => count === 0).length, 1990)
})

function numbered(prefix: string, count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}.${index >> 8}.${index & 255}`)
}
function manyPorts(count: number): readonly ServicePortSpec[] {
  return Array.from({ length: count }, (_, index) => ({ ...PORT, name: `p${index}`, port: 1000 + index }))
}
const LIMITED = { maxFrontends: 10_000 }
const countOf = (frontends: Iterable<AddressFrontend>, role: FrontendRole): number =>
  Array.from(frontends).filter(({ roles }) => roles.includes(role)).length

test('frontendsOf leaves out frontends beyond the limit, external IPs first, and reports their number', () => {
  const ports = manyPorts(200).map((port) => ({ ...port, nodePort: port.port + 29_000 }))
  const service: Service = {
    ...SERVICE,
    ports,
    externalIps: numbered('198.18', 1000),
    loadBalancerVips: numbered('203.0', 10),
  }
  const { frontends, problems } = contributionOf(service, SLICES, NODE, LIMITED)
  assert.equal(frontends.size, 10_000)
  assert.deepEqual(
    FRONTEND_ROLES.map((role) => countOf(frontends.values(), role)),
    [200, 200, 2000, 7600],
  )
  assert.deepEqual(problems, [
    {
      code: 'too-many-frontends',
      about: 'object',
      subject: 'service demo/web',
      field: 'spec',
      message:
        '192400 of 202400 frontends are left out: a Service may have 10000 on a node, and as many source ranges at all of ' +
        'them together (kubeIPVS.maxFrontendsPerService)',
    },
  ])
  const few = contributionOf(service, SLICES, NODE, { maxFrontends: 250 })
  assert.deepEqual(
    FRONTEND_ROLES.map((role) => countOf(few.frontends.values(), role)),
    [200, 50, 0, 0],
  )
  const exact = { ...service, ports: ports.slice(0, 1), externalIps: numbered('198.18', 9988) }
  const { frontends: all, problems: none } = contributionOf(exact, SLICES, NODE, LIMITED)
  assert.deepEqual([all.size, none], [10_000, []])
})

test('frontendsOf counts an address and port in two roles once', () => {
  const service: Service = {
    ...SERVICE,
    ports: [{ ...PORT, nodePort: 80 }, ...manyPorts(1)],
    externalIps: [...numbered('198.18', 28), '100.101.102.103', '10.20.30.41', '198.18.0.1'],
    loadBalancerVips: ['198.18.0.1'],
  }
  assert.equal(contributionOf(service, SLICES, NODE).frontends.size, 60)
  const messageAt = (maxFrontends: number): string =>
    contributionOf(service, SLICES, NODE, { maxFrontends }).problems[0]?.message ?? ''
  assert.match(messageAt(59), /^1 of 60 frontends/)
  assert.match(messageAt(31), /^29 of 60 frontends/)
  assert.match(messageAt(3), /^\d+ of 6\d frontends/, 'addresses beyond the third are not compared')
})

test('frontendsOf serves no load-balancer address without all of its source ranges', () => {
  const vips = numbered('203.0', 100)
  const service: Service = {
    ...SERVICE,
    ports: manyPorts(3),
    loadBalancerVips: vips,
    externalIps: [...vips, '198.18.0.1'],
    sourceRanges: numbered('192.168', 100).map((address) => `${address}/32`),
  }
  const { frontends, problems } = contributionOf(service, SLICES, NODE, LIMITED)
  const served = Array.from(frontends.values()).filter(({ roles }) => roles.includes('LoadBalancerVip'))
  assert.equal(served.length, 100)
  for (const { firewall, roles } of served) {
    assert.equal(firewall?.ranges.length, 100)
    assert.deepEqual(roles, ['LoadBalancerVip', 'ExternalIP'])
  }
  assert.equal(countOf(frontends.values(), 'ClusterIP'), 3)
  assert.deepEqual(
    Array.from(frontends.values(), ({ address, roles }) => (roles.join() === 'ExternalIP' ? address : '')).filter(
      Boolean,
    ),
    ['198.18.0.1', '198.18.0.1', '198.18.0.1'],
  )
  assert.match(problems[0]?.message ?? '', /^200 of 306 frontends are left out/)
})

/** What a Service gets that may cost so much. */
function within(limit: number, service: Service, slices: readonly EndpointSlice[], settings: FrontendSettings = {}) {
  const asked: number[] = []
  const room = {
    allows: (_: string, total: number): boolean => {
      asked.push(total)
      return total <= limit
    },
  }
  const making = frontendsOf(service, slices, NODE, settings, { owner: 'demo/web', budget: new Budget(), room })
  for (;;) {
    const step = making.next()
    if (step.done === true) return { ...step.value, asked }
  }
}
const ROOM = { maxFrontends: 10_000, maxCost: () => 5000 }

test('frontendsOf leaves out the first frontend that is not allowed and all that follow, and says what it lacks', () => {
  const wide: EndpointSlice = {
    ...SLICE4,
    ports: [slicePort({ name: 'http', port: 8080 }), slicePort({ name: 'p1', port: 8080 })],
    endpoints: numbered('10.1', 1000).map((address) => endpoint({ address, nodeName: 'node1' })),
  }
  const service: Service = {
    ...SERVICE,
    // The second port has no endpoints.
    ports: [PORT, ...manyPorts(2)],
    externalIps: numbered('198.18', 2),
  }
  const all = within(Number.POSITIVE_INFINITY, service, [wide], ROOM)
  assert.deepEqual([all.frontends.size, all.cost, all.shortage], [9, 6015, undefined])
  assert.deepEqual(all.asked, [1000, 1005, 2005, 3005, 4005, 4010, 4015, 5015, 6015])
  const { frontends, cost, shortage, problems } = within(3000, service, [wide], ROOM)
  // An externalIP of the port without endpoints would fit, but it follows one that does not.
  assert.deepEqual([...frontends.keys()], ['10.20.30.41:80/tcp', '10.20.30.41:1000/tcp', '10.20.30.41:1001/tcp'])
  assert.deepEqual([cost, shortage], [2005, { frontends: 6, wants: 6015, next: 3005 }])
  assert.deepEqual(problems, [
    {
      code: 'no-room',
      about: 'object',
      subject: 'service demo/web',
      field: 'spec',
      message:
        '6 of 9 frontends are left out: the node has room for 5000 real servers (kubeIPVS.maxRealServers), and the Services of ' +
        'namespace demo have their share of it',
    },
  ])
  const none = within(4, service, [wide], ROOM)
  assert.deepEqual([none.frontends.size, none.cost, none.shortage?.next], [0, 0, 1000])
  // A port with more entries than all Services may have is not joined at all.
  const larger = within(Number.POSITIVE_INFINITY, service, [wide], { ...ROOM, maxCost: () => 999 })
  assert.deepEqual([larger.frontends.size, larger.shortage?.next, larger.asked], [0, 1000, []])
})

test('frontendsOf lists a few of many problems and reports their number', () => {
  const { problems } = contributionOf({ ...SERVICE, externalIps: manyIpv6(5000) }, SLICES, NODE)
  assert.equal(problems.length, 20)
  assert.equal(problems.at(-1)?.message, 'and 4981 more problems')
})

function manyIpv6(count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `2001:db8::${(index + 1).toString(16)}`)
}

const addresses = fc.uniqueArray(
  fc.constantFrom('203.0.113.1', '203.0.113.2', '100.101.102.103', '2012::51', '10.20.30.41'),
  { maxLength: 3 },
)
const policy = fc.constantFrom('Cluster' as const, 'Local' as const)
const anyService: fc.Arbitrary<Service> = fc
  .record({
    clusterIps: fc.constantFrom({ IPv4: '10.20.30.41' }, { IPv6: '2020::1' }, { IPv4: '10.20.30.41', IPv6: '2020::1' }),
    ports: fc.uniqueArray(
      fc
        .record({
          name: fc.constantFrom('http', 'dns', 'other'),
          protocol: fc.constantFrom('tcp', 'udp'),
          port: fc.constantFrom(53, 80, 3001),
          nodePort: fc.constantFrom(0, 80, 3001),
        })
        .map(servicePort),
      { selector: ({ name }) => name, minLength: 1, maxLength: 3 },
    ),
    externalIps: addresses,
    loadBalancerVips: addresses,
    internalTrafficPolicy: policy,
    externalTrafficPolicy: policy,
  })
  .map((fields) => ({ ...SERVICE, ...fields }))
const anySlices: fc.Arbitrary<EndpointSlice[]> = fc.uniqueArray(
  fc
    .record({
      name: fc.constantFrom('s1', 's2', 's3'),
      endpoints: fc.array(
        fc
          .record({
            address: fc.constantFrom('10.180.0.1', '10.180.0.2', '10.180.0.3'),
            ready: fc.boolean(),
            serving: fc.boolean(),
            terminating: fc.boolean(),
            nodeName: fc.constantFrom('node0', 'node1'),
            zoneHints: fc.constantFrom(['zone-a'], ['zone-b'], []),
          })
          .map(endpoint),
        { maxLength: 4 },
      ),
    })
    .map((fields) => ({ ...SLICE4, ...fields })),
  { selector: ({ name }) => name, maxLength: 3 },
)
const anyNode: fc.Arbitrary<NodeContext> = fc
  .record({
    zone: fc.constantFrom(undefined, '', 'zone-a', 'zone-b'),
    localAddresses: fc.subarray(['100.101.102.103', '203.0.113.1', '10.20.30.41']).map((list) => new Set(list)),
    nodePortAddresses: fc.record({
      IPv4: fc.subarray(['100.101.102.103', '203.0.113.1']),
      IPv6: fc.subarray(['2001:db8::1:1']),
    }),
  })
  .map((fields) => ({ ...NODE, ...fields }))

test('frontendsOf depends only on the fields that it reports as read', () => {
  let unread = 0
  const field = fc.constantFrom('zone' as const, 'localAddresses' as const, 'nodePortAddresses' as const)
  const anyInput = fc.record({
    service: anyService,
    slices: anySlices,
    node: anyNode,
    other: anyNode,
    changing: field,
    nodePorts: fc.constantFrom('each-address', 'every-address'),
  })
  fc.assert(
    fc.property(anyInput, ({ service, slices, node, other, changing, nodePorts }) => {
      const one = anyContributionOf(service, slices, node, { nodePorts })
      const moved: NodeContext = { ...node, [changing]: other[changing] }
      const changed = changedFields(node, moved)
      if ((changed & one.reads) !== 0) return
      if (changed !== 0) unread++
      assert.deepEqual(anyContributionOf(service, slices, moved, { nodePorts }), one)
    }),
    { numRuns: 4000 },
  )
  assert.ok(unread > 100, `only ${unread} runs changed a field that was not read`)
})

test('frontendsOf reads node port addresses and the zone only where they matter', () => {
  const plain = contributionOf(SERVICE, SLICES, NODE).reads
  assert.equal(plain & (READS_NODE_PORT_ADDRESSES | READS_ZONE), 0)
  const withNodePort = { ...SERVICE, ports: [{ ...PORT, nodePort: 3001 }] }
  assert.notEqual(contributionOf(withNodePort, SLICES, NODE).reads & READS_NODE_PORT_ADDRESSES, 0)
  const hinted = { ...SLICE4, endpoints: SLICE4.endpoints.map((one) => ({ ...one, zoneHints: ['zone-b'] })) }
  assert.notEqual(contributionOf(SERVICE, [hinted], NODE).reads & READS_ZONE, 0)
})

test('frontendsOf does not depend on the order of slices and binds an address of the node only as a cluster IP', () => {
  fc.assert(
    fc.property(anyService, anySlices, anyNode, (service, slices, node) => {
      const one = contributionOf(service, slices, node)
      assert.deepEqual(contributionOf(service, slices.toReversed(), node), one)
      for (const [key, frontend] of one.frontends) {
        assert.equal(key, `${formatEndpoint(frontend.address, frontend.port)}/${frontend.servicePort.protocol}`)
        const isClusterIp = frontend.roles.includes('ClusterIP')
        assert.ok(!frontend.bind || isClusterIp || !node.localAddresses.has(frontend.address), key)
        assert.ok(!frontend.bind || frontend.roles.join() !== 'NodePort', key)
        assert.equal(frontend.selection.verdicts.length, frontend.servicePort.candidates.length)
        const texts = frontend.selection.endpoints.map(({ address, port }) => formatEndpoint(address, port))
        assert.deepEqual(texts, [...new Set(texts)].sort())
      }
    }),
    { numRuns: 1000 },
  )
})

test('frontendsOf does not depend on the order of the Service’s addresses', () => {
  fc.assert(
    fc.property(anyService, anySlices, anyNode, (service, slices, node) => {
      const turned: Service = {
        ...service,
        externalIps: service.externalIps.toReversed(),
        loadBalancerVips: service.loadBalancerVips.toReversed(),
      }
      const texts = [service, turned].map((one) =>
        [...contributionOf(one, slices, node).frontends.values()].map(print).sort(),
      )
      assert.deepEqual(texts[0], texts[1])
    }),
  )
})

test('frontendsOf reads annotations with a reader only, and reports wrong ones', () => {
  const annotated = (annotations: string, reader?: AnnotationReader) => {
    const settings = reader === undefined ? {} : { annotations: reader }
    const { frontends, problems } = contributionOf({ ...SERVICE, annotations }, SLICES, NODE, settings)
    return { choices: [...frontends.values()].map(({ servicePort }) => servicePort.choices), problems }
  }
  const text = (value: string): string => annotationsText(new Map([['kube-ipvs.io/scheduler', value]]))
  const reader = new AnnotationReader('rr')
  const chosen = { scheduler: { name: 'lc', annotation: 'kube-ipvs.io/scheduler' } }
  assert.deepEqual(annotated(text('lc'), reader), { choices: [chosen], problems: [] })
  for (const value of ['lc', 'wrong']) assert.deepEqual(annotated(text(value)), { choices: [{}], problems: [] })
  const { choices, problems } = annotated(text('wrong'), reader)
  assert.deepEqual(choices, [{}])
  assert.deepEqual(
    problems.map(({ code, subject, field }) => [code, subject, field]),
    [['invalid-annotation', 'service demo/web', 'metadata.annotations[kube-ipvs.io/scheduler]']],
  )
})
