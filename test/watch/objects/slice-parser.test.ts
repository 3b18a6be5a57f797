import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SliceEndpoint } from '../../../src/service/objects.ts'
import { endpoint, slice, slicePort } from '../../support/objects.ts'
import { parse, parseSliceFields } from './parse.ts'

const ENDPOINT = endpoint({ address: '10.244.0.1', ready: true, serving: true, terminating: false, nodeName: '' })

test('parseSlice gives absent and null conditions their defaults', () => {
  const rows: [object, Partial<SliceEndpoint>][] = [
    [{}, {}],
    [{ conditions: null }, {}],
    [{ conditions: {} }, {}],
    [{ conditions: { ready: null, serving: null, terminating: null } }, {}],
    [{ conditions: { ready: false, serving: true, terminating: true } }, { ready: false, terminating: true }],
    [{ conditions: { ready: false, serving: false } }, { ready: false, serving: false }],
  ]
  for (const [fields, expected] of rows) {
    const { value, problems } = parseSliceFields({ endpoints: [{ addresses: ['10.244.0.1'], ...fields }] })
    assert.deepEqual(value?.endpoints, [{ ...ENDPOINT, ...expected }])
    assert.deepEqual(problems, [])
  }
})

test('parseSlice reads a whole slice', () => {
  const fields = {
    ports: [
      { name: 'http', protocol: 'TCP', port: 8080 },
      { name: null, protocol: 'UDP', port: 53 },
    ],
    endpoints: [
      {
        addresses: ['010.244.0.1', '10.244.0.2'],
        nodeName: 'node0',
        zone: 'zone-a',
        hints: { forZones: [{ name: 'zone-a' }, { name: 'zone-b' }], forNodes: [{ name: 'node0' }] },
      },
    ],
  }
  assert.deepEqual(parseSliceFields(fields), {
    value: slice({
      namespace: 'demo',
      name: 'web-1',
      serviceName: 'web',
      family: 'IPv4',
      triggeredAtMs: 0,
      ports: [
        slicePort({ name: 'http', protocol: 'tcp', port: 8080 }),
        slicePort({ name: '', protocol: 'udp', port: 53 }),
      ],
      endpoints: [
        { ...ENDPOINT, nodeName: 'node0', zone: 'zone-a', zoneHints: ['zone-a', 'zone-b'], nodeHints: ['node0'] },
      ],
    }),
    problems: [],
  })
})

test('parseSlice returns nothing for slices that are not served', () => {
  const labels = { 'kubernetes.io/service-name': 'web' }
  const rows: [object, string[]][] = [
    [{ metadata: { name: 'x', labels }, addressType: 'FQDN' }, []],
    [{ metadata: { name: 'x', labels }, addressType: 'IPX' }, ['addressType: invalid-field']],
    [{ metadata: { name: 'x', labels } }, ['addressType: invalid-field']],
    [
      { metadata: { name: 'x', labels: {} }, addressType: 'IPv4' },
      ['metadata.labels["kubernetes.io/service-name"]: missing-field'],
    ],
    [
      { metadata: { name: 'x', labels: { 'kubernetes.io/service-name': 7 } }, addressType: 'IPv4' },
      ['metadata.labels["kubernetes.io/service-name"]: missing-field'],
    ],
  ]
  for (const [json, problems] of rows) assert.deepEqual(parse('endpointslices', json), { value: undefined, problems })
})

test('parseSlice drops invalid ports, and null and 0 without a problem', () => {
  const ports = [{ port: 80 }, { port: null }, { port: 0 }, {}, { port: '81' }, { port: 82, protocol: 'QUIC' }, null]
  const { value, problems } = parseSliceFields({ ports })
  assert.deepEqual(value?.ports, [slicePort({ name: '', protocol: 'tcp', port: 80 })])
  assert.deepEqual(problems, [
    'ports[4].port: invalid-port',
    'ports[5].protocol: unknown-protocol',
    'ports[6]: invalid-field',
  ])
})

test('parseSlice drops endpoints without an address of its family', () => {
  const endpoints = [
    { addresses: ['10.244.0.1'] },
    { addresses: ['fd00::1'] },
    { addresses: ['pod.example'] },
    { addresses: [] },
    {},
    { addresses: '10.244.0.2' },
    'x',
  ]
  const { value, problems } = parseSliceFields({ endpoints })
  assert.deepEqual(value?.endpoints, [ENDPOINT])
  assert.deepEqual(problems, [
    'endpoints[1].addresses[0]: wrong-family',
    'endpoints[2].addresses[0]: invalid-address',
    'endpoints[3].addresses[0]: invalid-address',
    'endpoints[4].addresses[0]: invalid-address',
    'endpoints[5].addresses: invalid-field',
    'endpoints[5].addresses[0]: invalid-address',
    'endpoints[6]: invalid-field',
  ])
})

test('parseSlice accepts 1,000 endpoints', () => {
  const endpoints = Array.from({ length: 1000 }, (_, index) => ({
    addresses: [`10.244.${index >> 8}.${index & 255}`],
    nodeName: 'node0',
  }))
  const { value, problems } = parseSliceFields({ endpoints })
  assert.equal(value?.endpoints.length, 1000)
  assert.deepEqual(problems, [])
  assert.equal(value?.endpoints[999]?.address, '10.244.3.231')
})

test('parseSlice accepts a slice without ports and endpoints', () => {
  const { value } = parseSliceFields({ endpoints: null, ports: null })
  assert.deepEqual(value, slice({ namespace: 'demo', name: 'web-1', serviceName: 'web', ports: [], endpoints: [] }))
})

test('parseSlice reads the trigger time, and treats an invalid one as absent', () => {
  const rows: [unknown, number][] = [
    ['2026-11-22T03:10:00.123456789Z', Date.UTC(2026, 10, 22, 3, 10, 0, 123)],
    ['2026-11-22T05:10:00+02:00', Date.UTC(2026, 10, 22, 3, 10)],
    ['yesterday', 0],
    ['', 0],
    [7, 0],
    [undefined, 0],
  ]
  const labels = { 'kubernetes.io/service-name': 'web' }
  for (const [time, expected] of rows) {
    const annotations = { 'endpoints.kubernetes.io/last-change-trigger-time': time }
    const { value, problems } = parseSliceFields({ metadata: { name: 'x', labels, annotations } })
    assert.deepEqual([value?.triggeredAtMs, problems], [expected, []], String(time))
  }
})
