/** Laws of a contribution, for any Service, slices and node. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { changedFields, type NodeContext } from '../../src/service/node-context.ts'
import type { EndpointSlice, Service } from '../../src/service/objects.ts'
import { formatEndpoint } from '../../src/values/address.ts'
import { anyContributionOf, contributionOf } from '../support/contribution.ts'
import { endpoint, servicePort } from '../support/objects.ts'
import { NODE, print, SERVICE, SLICE4 } from './contributed-service.ts'

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
