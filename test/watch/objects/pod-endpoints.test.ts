import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { PodEndpointCollector } from '../../../src/watch/objects/pod-endpoints.ts'
import { slice } from '../../support/manifests.ts'

const sliceOf = (targetRef: unknown, change: object = {}, namespace = 'demo') =>
  slice('web', [], {
    metadata: { namespace },
    ports: [{ port: 8080 }, { port: 9090 }],
    endpoints: [{ addresses: ['10.244.0.1', '10.244.0.9'], targetRef, ...change }],
  })
const found = (...slices: unknown[]) => {
  const collector = new PodEndpointCollector({ namespace: 'demo', name: 'web-1' })
  for (const one of slices) collector.add(one)
  return collector.found
}
const POD = { kind: 'Pod', name: 'web-1', namespace: 'demo' }

test('PodEndpointCollector finds the first address of the pod with every port, each once', () => {
  const expected = { addresses: ['10.244.0.1'], endpoints: ['10.244.0.1:8080', '10.244.0.1:9090'] }
  assert.deepEqual(found(sliceOf(POD), sliceOf(POD)), expected)
  assert.deepEqual(found(sliceOf({ kind: 'Pod', name: 'web-1' })), expected)
  const both = found(sliceOf(POD), sliceOf(POD, { addresses: ['fd00::1'] }))
  assert.deepEqual(both.addresses, ['10.244.0.1', 'fd00::1'])
  assert.ok(both.endpoints.includes('[fd00::1]:8080'))
})

test('PodEndpointCollector passes over other pods, other namespaces and other kinds', () => {
  const none = { addresses: [], endpoints: [] }
  const others = [{ ...POD, name: 'web-2' }, { ...POD, kind: 'Node' }, { ...POD, namespace: 'x' }, undefined, 'web-1']
  for (const target of others) assert.deepEqual(found(sliceOf(target)), none)
  assert.deepEqual(found(sliceOf(POD, {}, 'other')), none)
  assert.deepEqual(found(sliceOf(POD, { addresses: ['; rm -rf /'] })), none)
})

test('PodEndpointCollector never throws on anything', () => {
  fc.assert(
    fc.property(fc.anything(), (value) => {
      found(value)
      found({
        metadata: { namespace: 'demo' },
        endpoints: [value, { targetRef: value }, { targetRef: POD, addresses: value }],
      })
      found({ metadata: { namespace: 'demo' }, ports: value, endpoints: [{ targetRef: POD, addresses: ['10.0.0.1'] }] })
    }),
  )
})
