/** What a Service contributes when it has very many ports, endpoints or addresses, and what is left out. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type AddressFrontend, FRONTEND_ROLES, type FrontendRole } from '../../src/service/frontends.ts'
import type { EndpointSlice, Service, ServicePortSpec } from '../../src/service/objects.ts'
import { type FrontendSettings, frontendsOf } from '../../src/service/contribution.ts'
import { Budget } from '../../src/values/budget.ts'
import { contributionOf } from '../support/contribution.ts'
import { endpoint, slicePort } from '../support/objects.ts'
import { NODE, PORT, SERVICE, SLICE4, SLICES } from './contributed-service.ts'

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
