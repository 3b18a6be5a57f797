/**
 * Joining Service ports with slices: keys, duplicates, order. Which of two entries for one ip:port counts does not depend on the
 * order of slices.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { endpointsOf, localReadyEndpoints, indexSlices } from '../../src/service/endpoints.ts'
import type { EndpointSlice, SliceEndpoint } from '../../src/service/objects.ts'
import { endpoint, slice, slicePort } from '../support/objects.ts'

const READY = endpoint({ address: '10.0.1.1', nodeName: 'node1' })
const SLICE = slice({ ports: [slicePort({ name: 'http', port: 8080 })], endpoints: [READY] })

function texts(slices: readonly EndpointSlice[], portName = 'http'): readonly string[] {
  return endpointsOf(indexSlices(slices), 'IPv4', 'tcp', portName, 'node0').map(
    ({ address, port }) => `${address}:${port}`,
  )
}

test('endpointsOf joins by port name and protocol', () => {
  assert.deepEqual(texts([SLICE]), ['10.0.1.1:8080'])
  assert.deepEqual(texts([SLICE], 'https'), [])
  assert.deepEqual(texts([SLICE], ''), [])
  assert.deepEqual(texts([{ ...SLICE, ports: [slicePort({ name: 'http', protocol: 'udp', port: 8080 })] }]), [])
  assert.deepEqual(texts([{ ...SLICE, ports: [slicePort({ name: '', port: 8080 })] }], ''), ['10.0.1.1:8080'])
})

test('endpointsOf uses the target port of each slice and sorts by address and port', () => {
  const other = slice({
    name: 'web-0',
    ports: [slicePort({ name: 'http', port: 9090 })],
    endpoints: [READY, { ...READY, address: '10.0.1.10' }, { ...READY, address: '10.0.1.2' }],
  })
  const expected = ['10.0.1.1:8080', '10.0.1.1:9090', '10.0.1.10:9090', '10.0.1.2:9090']
  assert.deepEqual(texts([SLICE, other]), expected)
  assert.deepEqual(texts([other, SLICE]), expected)
})

test('endpointsOf excludes the other family', () => {
  const wrong = { ...READY, address: 'fd00::1' }
  assert.deepEqual(texts([{ ...SLICE, endpoints: [wrong, READY] }]), ['10.0.1.1:8080'])
  assert.deepEqual(texts([{ ...SLICE, family: 'IPv6', endpoints: [wrong] }]), [])
})

test('localReadyEndpoints counts addresses, not ports', () => {
  const here = (address: string, change: Partial<SliceEndpoint> = {}): SliceEndpoint =>
    endpoint({ address, nodeName: 'node0', ...change })
  const both = slice({
    ports: [slicePort({ name: 'http', port: 8080 }), slicePort({ name: 'dns', protocol: 'udp', port: 53 })],
    endpoints: [here('10.0.1.1'), here('10.0.1.2')],
  })
  const rows: [title: string, slices: readonly EndpointSlice[], expected: number][] = [
    ['no slice', [], 0],
    ['two ports of two endpoints', [both], 2],
    ['another slice with one of them', [both, { ...SLICE, name: 'web-2', endpoints: [here('10.0.1.2')] }], 2],
    [
      'a port that the Service may not have',
      [{ ...both, ports: [slicePort({ name: 'x', protocol: 'sctp', port: 1 })] }],
      2,
    ],
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
    assert.equal(localReadyEndpoints(indexSlices(slices), 'IPv4', 'node0'), expected, title)
})

test('endpointsOf returns one entry for an ip:port that is in several slices', () => {
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
      const found = endpointsOf(indexSlices(order), 'IPv4', 'tcp', 'http', 'node0')
      assert.deepEqual(
        found.map(({ source }) => source),
        [{ ...READY, ...(winner === 'a' ? a : b) }],
        title,
      )
    }
  }
})

test('endpointsOf does not depend on the order of slices and returns each ip:port once, sorted', () => {
  const anyEndpoint = fc
    .record({
      address: fc.constantFrom('10.0.1.1', '10.0.1.2', '10.0.1.10'),
      ready: fc.boolean(),
      serving: fc.boolean(),
      terminating: fc.boolean(),
      nodeName: fc.constantFrom('', 'node0', 'node1'),
    })
    .map(endpoint)
  const anySlice = fc
    .record({
      name: fc.constantFrom('s1', 's2', 's3', 's4'),
      ports: fc.constantFrom(
        [slicePort({ name: 'http', port: 80 })],
        [slicePort({ name: 'http', port: 81 }), slicePort({ name: 'dns', protocol: 'udp', port: 53 })],
      ),
      endpoints: fc.array(anyEndpoint, { maxLength: 4 }),
    })
    .map(slice)
  const slices = fc.uniqueArray(anySlice, { selector: ({ name }) => name, maxLength: 4 })
  const shuffled = slices.chain((list) =>
    fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: list.length })),
  )
  fc.assert(
    fc.property(shuffled, ([list, other]) => {
      const found = endpointsOf(indexSlices(list), 'IPv4', 'tcp', 'http', 'node0')
      assert.deepEqual(endpointsOf(indexSlices(other), 'IPv4', 'tcp', 'http', 'node0'), found)
      // A space sorts before every digit, so the address decides first.
      const keys = found.map(({ address, port }) => `${address} ${port}`)
      assert.deepEqual(keys, [...new Set(keys)].sort())
    }),
  )
})
