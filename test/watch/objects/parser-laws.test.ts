import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { ObjectKind } from '../../../src/service/objects.ts'
import { parse } from './parse.ts'

const KINDS: readonly ObjectKind[] = ['services', 'endpointslices', 'nodes']

/** Values that are almost valid, and values that are not valid at all. */
const odd: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(
    '',
    'None',
    '10.96.0.1',
    'fd00::1',
    '10.0.0.0/8',
    'TCP',
    'ClientIP',
    'Local',
    'LoadBalancer',
  ),
  fc.constantFrom<unknown>(0, 80, -1, 65_536, 8.5, Number.NaN, null, undefined, true, [], {}),
  fc.anything({ maxDepth: 3, withMap: true, withSet: true, withDate: true, withBigInt: true, withNullPrototype: true }),
)
const few = (item: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> => fc.oneof(odd, fc.array(item, { maxLength: 3 }))
const oddObject = (fields: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 5, arbitrary: fc.record(fields, { requiredKeys: [] }) }, { weight: 1, arbitrary: odd })

const object = oddObject({
  metadata: oddObject({
    name: fc.oneof(fc.constant('web'), odd),
    namespace: odd,
    labels: oddObject({
      'kubernetes.io/service-name': fc.oneof(fc.constant('web'), odd),
      'topology.kubernetes.io/zone': odd,
    }),
    creationTimestamp: odd,
    resourceVersion: odd,
    deletionTimestamp: odd,
  }),
  spec: oddObject({
    clusterIP: odd,
    clusterIPs: few(odd),
    type: odd,
    ports: few(oddObject({ name: odd, protocol: odd, port: odd, nodePort: odd })),
    externalIPs: few(odd),
    loadBalancerSourceRanges: few(odd),
    sessionAffinity: odd,
    sessionAffinityConfig: oddObject({ clientIP: oddObject({ timeoutSeconds: odd }) }),
    externalTrafficPolicy: odd,
    internalTrafficPolicy: odd,
    healthCheckNodePort: odd,
    podCIDRs: few(odd),
    taints: few(oddObject({ key: odd })),
  }),
  status: oddObject({
    loadBalancer: oddObject({ ingress: few(oddObject({ ip: odd, ipMode: odd })) }),
    addresses: few(oddObject({ type: fc.oneof(fc.constant('InternalIP'), odd), address: odd })),
  }),
  addressType: fc.oneof(fc.constantFrom('IPv4', 'IPv6'), odd),
  ports: few(oddObject({ name: odd, protocol: odd, port: odd })),
  endpoints: few(
    oddObject({
      addresses: few(odd),
      conditions: oddObject({ ready: odd, serving: odd, terminating: odd }),
      nodeName: odd,
      hints: oddObject({ forZones: few(oddObject({ name: odd })), forNodes: few(oddObject({ name: odd })) }),
    }),
  ),
})

/** Whether a value holds only plain objects, arrays, texts, booleans and integers. */
function isPlain(value: unknown): boolean {
  if (Array.isArray(value)) return value.every(isPlain)
  if (typeof value === 'object' && value !== null)
    return Object.getPrototypeOf(value) === Object.prototype && Object.values(value).every(isPlain)
  return typeof value === 'string' || typeof value === 'boolean' || Number.isInteger(value)
}

for (const kind of KINDS)
  test(`parseObject never throws on ${kind} and returns only plain values`, () => {
    fc.assert(
      fc.property(object, (json) => {
        const { value, problems } = parse(kind, json)
        assert.ok(value === undefined || isPlain(value), JSON.stringify(value))
        assert.ok(problems.length <= 20)
      }),
      { numRuns: 1000 },
    )
  })

test('parseObject never throws on anything', () => {
  fc.assert(
    fc.property(fc.anything(), fc.constantFrom(...KINDS), (json, kind) => {
      parse(kind, json)
    }),
  )
})
