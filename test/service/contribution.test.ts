/**
 * From one Service to its frontends: kube-proxy's behaviour as rows. Rows print every frontend
 * completely, so that a field that is wrong for one role fails.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type NodeContext, READS_NODE_PORT_ADDRESSES, READS_ZONE } from '../../src/service/node-context.ts'
import type { EndpointSlice, Service } from '../../src/service/objects.ts'
import { AnnotationReader, annotationsText } from '../../src/service/annotations.ts'
import { anyContributionOf, contributionOf } from '../support/contribution.ts'
import { servicePort, slicePort } from '../support/objects.ts'
import { NODE, PORT, print, SERVICE, SLICE4, SLICES } from './contributed-service.ts'

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

test('frontendsOf reads node port addresses and the zone only where they matter', () => {
  const plain = contributionOf(SERVICE, SLICES, NODE).reads
  assert.equal(plain & (READS_NODE_PORT_ADDRESSES | READS_ZONE), 0)
  const withNodePort = { ...SERVICE, ports: [{ ...PORT, nodePort: 3001 }] }
  assert.notEqual(contributionOf(withNodePort, SLICES, NODE).reads & READS_NODE_PORT_ADDRESSES, 0)
  const hinted = { ...SLICE4, endpoints: SLICE4.endpoints.map((one) => ({ ...one, zoneHints: ['zone-b'] })) }
  assert.notEqual(contributionOf(SERVICE, [hinted], NODE).reads & READS_ZONE, 0)
})
