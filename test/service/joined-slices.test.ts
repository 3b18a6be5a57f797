/**
 * Joining Service ports with slices: keys, duplicates, order. Which of two entries for one ip:port
 * counts does not depend on the order of slices.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Endpoint } from '../../src/service/endpoints.ts'
import { JoinedSlices } from '../../src/service/joined-slices.ts'
import type { EndpointSlice, SliceEndpoint } from '../../src/service/objects.ts'
import { Budget } from '../../src/values/budget.ts'
import { allOf } from '../support/budgets.ts'
import { endpoint, slice, slicePort } from '../support/objects.ts'

const READY = endpoint({ address: '10.0.1.1', ready: true, serving: true, nodeName: 'node1' })
const SLICE = slice({ name: 'web-1', ports: [slicePort({ name: 'http', port: 8080 })], endpoints: [READY] })

function joined(slices: readonly EndpointSlice[]): JoinedSlices {
  return allOf(JoinedSlices.of(slices, 'node0', new Budget()))
}

function endpointsOf(slices: readonly EndpointSlice[], portName = 'http'): readonly Endpoint[] {
  const all = joined(slices)
  const sources = all.sourcesOf('IPv4', 'tcp', portName)
  if (sources === undefined) return []
  return allOf(all.endpoints(sources, new Budget()))
}

function texts(slices: readonly EndpointSlice[], portName = 'http'): readonly string[] {
  return endpointsOf(slices, portName).map(({ address, port }) => `${address}:${port}`)
}

test('JoinedSlices joins by port name and protocol', () => {
  assert.deepEqual(texts([SLICE]), ['10.0.1.1:8080'])
  assert.deepEqual(texts([SLICE], 'https'), [])
  assert.deepEqual(texts([SLICE], ''), [])
  assert.deepEqual(texts([{ ...SLICE, ports: [{ name: 'http', protocol: 'udp', port: 8080 }] }]), [])
  assert.deepEqual(texts([{ ...SLICE, ports: [{ name: '', protocol: 'tcp', port: 8080 }] }], ''), ['10.0.1.1:8080'])
})

test('JoinedSlices uses the target port of each slice and sorts by address and port', () => {
  const other: EndpointSlice = {
    ...SLICE,
    name: 'web-0',
    ports: [{ name: 'http', protocol: 'tcp', port: 9090 }],
    endpoints: [READY, { ...READY, address: '10.0.1.10' }, { ...READY, address: '10.0.1.2' }],
  }
  const expected = ['10.0.1.1:8080', '10.0.1.1:9090', '10.0.1.10:9090', '10.0.1.2:9090']
  assert.deepEqual(texts([SLICE, other]), expected)
  assert.deepEqual(texts([other, SLICE]), expected)
})

test('JoinedSlices excludes the other family', () => {
  const wrong = { ...READY, address: 'fd00::1' }
  assert.deepEqual(texts([{ ...SLICE, endpoints: [wrong, READY] }]), ['10.0.1.1:8080'])
  assert.deepEqual(texts([{ ...SLICE, family: 'IPv6', endpoints: [wrong] }]), [])
})

test('JoinedSlices.localReadyEndpoints counts addresses, not ports', () => {
  const here = (address: string, more: Partial<SliceEndpoint> = {}): SliceEndpoint => ({
    ...READY,
    address,
    nodeName: 'node0',
    ...more,
  })
  const both: EndpointSlice = {
    ...SLICE,
    ports: [
      { name: 'http', protocol: 'tcp', port: 8080 },
      { name: 'dns', protocol: 'udp', port: 53 },
    ],
    endpoints: [here('10.0.1.1'), here('10.0.1.2')],
  }
  const rows: [title: string, slices: readonly EndpointSlice[], expected: number][] = [
    ['no slice', [], 0],
    ['two ports of two endpoints', [both], 2],
    ['another slice with one of them', [both, { ...SLICE, name: 'web-2', endpoints: [here('10.0.1.2')] }], 2],
    ['a port that the Service may not have', [{ ...both, ports: [{ name: 'x', protocol: 'sctp', port: 1 }] }], 2],
    ['a slice without ports', [{ ...both, ports: [] }], 0],
    ['elsewhere', [SLICE], 0],
    ['without node', [{ ...SLICE, endpoints: [here('10.0.1.1', { nodeName: '' })] }], 0],
    ['not ready', [{ ...SLICE, endpoints: [here('10.0.1.1', { ready: false })] }], 0],
    [
      'terminating, still serving',
      [{ ...SLICE, endpoints: [here('10.0.1.1', { ready: false, terminating: true })] }],
      0,
    ],
    [
      'ready while terminating (publishNotReadyAddresses)',
      [{ ...SLICE, endpoints: [here('10.0.1.1', { terminating: true })] }],
      1,
    ],
    ['the other family', [{ ...SLICE, family: 'IPv6', endpoints: [here('fd00::1')] }], 0],
  ]
  for (const [title, slices, expected] of rows)
    assert.equal(allOf(joined(slices).localReadyEndpoints('IPv4', new Budget())), expected, title)
})

test('JoinedSlices returns one entry for an ip:port that is in several slices', () => {
  const here = { nodeName: 'node0' }
  const rows: [title: string, a: Partial<SliceEndpoint>, b: Partial<SliceEndpoint>, winner: 'a' | 'b'][] = [
    ['not terminating before terminating', { terminating: true, ready: false, ...here }, {}, 'b'],
    ['not terminating before terminating, ready or not', { terminating: true }, { ready: false, serving: false }, 'b'],
    ['ready before not ready', { ready: false, serving: false, ...here }, {}, 'b'],
    ['local before remote', {}, here, 'b'],
    ['the slice that comes first by name', { zoneHints: ['x'] }, { zoneHints: ['y'] }, 'a'],
  ]
  for (const [title, a, b, winner] of rows) {
    const slices: EndpointSlice[] = [
      { ...SLICE, name: 'web-a', endpoints: [{ ...READY, ...a }] },
      { ...SLICE, name: 'web-b', endpoints: [{ ...READY, ...b }] },
    ]
    for (const order of [slices, slices.toReversed()]) {
      const found = endpointsOf(order)
      assert.deepEqual(
        found.map(({ source }) => source),
        [{ ...READY, ...(winner === 'a' ? a : b) }],
        title,
      )
    }
  }
})

test('JoinedSlices does not depend on the order of slices and returns each ip:port once, sorted', () => {
  const anyEndpoint: fc.Arbitrary<SliceEndpoint> = fc.record({
    address: fc.constantFrom('10.0.1.1', '10.0.1.2', '10.0.1.10'),
    ready: fc.boolean(),
    serving: fc.boolean(),
    terminating: fc.boolean(),
    nodeName: fc.constantFrom('', 'node0', 'node1'),
  })
  const slice: fc.Arbitrary<EndpointSlice> = fc.record({
    namespace: fc.constant('demo'),
    name: fc.constantFrom('s1', 's2', 's3', 's4'),
    serviceName: fc.constant('web'),
    family: fc.constant('IPv4' as const),
    triggeredAtMs: fc.constant(0),
    ports: fc.constantFrom(
      [{ name: 'http', protocol: 'tcp' as const, port: 80 }],
      [
        { name: 'http', protocol: 'tcp' as const, port: 81 },
        { name: 'dns', protocol: 'udp' as const, port: 53 },
      ],
    ),
    endpoints: fc.array(anyEndpoint, { maxLength: 4 }),
  })
  const slices = fc.uniqueArray(slice, { selector: ({ name }) => name, maxLength: 4 })
  const shuffled = slices.chain((list) =>
    fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: list.length })),
  )
  fc.assert(
    fc.property(shuffled, ([list, other]) => {
      const found = endpointsOf(list)
      assert.deepEqual(endpointsOf(other), found)
      // A space sorts before every digit, so the address decides first.
      const keys = found.map(({ address, port }) => `${address} ${port}`)
      assert.deepEqual(keys, [...new Set(keys)].sort())
    }),
  )
})

/** The rule in its plain form: all entries at once. */
function joinedAtOnce(slices: readonly EndpointSlice[]): readonly Endpoint[] {
  const rank = ({ terminating, ready, nodeName }: SliceEndpoint): number =>
    (terminating ? 4 : 0) + (ready ? 0 : 2) + (nodeName === 'node0' ? 0 : 1)
  const best = new Map<string, Endpoint>()
  for (const { ports, endpoints } of slices.toSorted((a, b) => (a.name < b.name ? -1 : 1)))
    for (const { name, protocol, port } of ports)
      for (const source of endpoints) {
        const key = `${source.address} ${port}`
        const before = best.get(key)
        if (name !== 'http' || protocol !== 'tcp') continue
        if (before === undefined || rank(source) < rank(before.source))
          best.set(key, { address: source.address, port, source })
      }
  return Array.from(best.values()).sort((a, b) =>
    a.address === b.address ? a.port - b.port : a.address < b.address ? -1 : 1,
  )
}

test('JoinedSlices joins many entries in portions as it joins few at once', () => {
  const conditions = fc.record({
    ready: fc.boolean(),
    serving: fc.boolean(),
    terminating: fc.boolean(),
    nodeName: fc.constantFrom('', 'node0', 'node1'),
  })
  const shape = fc.record({
    sizes: fc.array(fc.constantFrom(0, 3, 60, 300, 1100), { minLength: 1, maxLength: 6 }),
    addresses: fc.constantFrom(40, 1000, 5000),
    ports: fc.constantFrom([80], [80, 81]),
    states: fc.array(conditions, { minLength: 3, maxLength: 7 }),
  })
  fc.assert(
    fc.property(shape, ({ sizes, addresses, ports, states }) => {
      let count = 0
      const slices = sizes.map((size, number): EndpointSlice => {
        const port = ports[number % ports.length] ?? 80
        return {
          ...SLICE,
          name: `web-${(number * 5) % 7}`,
          // The second port makes the Service one with several, which share the work.
          ports: [
            { name: 'http', protocol: 'tcp', port },
            { name: 'dns', protocol: 'udp', port: 53 },
          ],
          endpoints: Array.from({ length: size }, () => {
            const number = (count++ * 7919) % addresses
            return { ...READY, ...states[count % states.length], address: `10.0.${number >> 8}.${number & 255}` }
          }),
        }
      })
      assert.deepEqual(endpointsOf(slices), joinedAtOnce(slices))
    }),
    { numRuns: 60 },
  )
})
