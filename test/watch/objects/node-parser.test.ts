import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Node } from '../../../src/service/objects.ts'
import { createIntern } from '../../../src/watch/objects/findings.ts'
import { parseMetadata, parseObject } from '../../../src/watch/objects/object-parser.ts'
import { node } from '../../support/objects.ts'
import { parseNodeFields } from './parse.ts'

test('parseNode puts InternalIP before ExternalIP and ignores other types', () => {
  const addresses = [
    { type: 'ExternalIP', address: '203.0.113.1' },
    { type: 'Hostname', address: 'node0' },
    { type: 'InternalIP', address: '172.18.0.2' },
    { type: 'InternalIP', address: 'FC00::2' },
    { type: 'ExternalIP', address: '172.18.0.2' },
    { type: 'InternalIP', address: 'x' },
    7,
  ]
  const { value, problems } = parseNodeFields({ status: { addresses } })
  assert.deepEqual(value?.addresses, ['172.18.0.2', 'fc00::2', '203.0.113.1'])
  assert.deepEqual(problems, ['status.addresses[5].address: invalid-address', 'status.addresses[6]: invalid-field'])
})

test('parseNode reads zone, pod CIDRs, taints and deletion', () => {
  const metadata = {
    name: 'node0',
    labels: { 'topology.kubernetes.io/zone': 'zone-a' },
    deletionTimestamp: '2026-11-20T16:19:17Z',
  }
  const spec = { podCIDR: '10.244.9.0/24', podCIDRs: ['10.244.0.0/24', 'fd00::/64', 'x'], taints: [{ key: 'a' }, {}] }
  assert.deepEqual(parseNodeFields({ metadata, spec }), {
    value: node({
      name: 'node0',
      zone: 'zone-a',
      addresses: [],
      podCidrs: ['10.244.0.0/24', 'fd00::/64'],
      taintKeys: ['a'],
      deleting: true,
    }),
    problems: ['spec.podCIDRs[2]: invalid-range'],
  })
})

test('parseNode uses podCIDR when podCIDRs is absent', () => {
  assert.deepEqual(parseNodeFields({ spec: { podCIDR: '10.244.0.7/24' } }).value?.podCidrs, ['10.244.0.0/24'])
})

test('parseNode accepts a Node with only a name', () => {
  assert.deepEqual(parseNodeFields({ spec: [], status: 'x' }), {
    value: node({ name: 'node0', zone: '', addresses: [], podCidrs: [], taintKeys: [], deleting: false }),
    problems: ['spec: invalid-field', 'status: invalid-field'],
  })
})

test('parseNode keeps the labels that are asked for, and those of a manifest', () => {
  const labels = { pool: 'gold', empty: '', wrong: 7, other: 'x', 'topology.kubernetes.io/zone': 'a' }
  const json = { metadata: { name: 'node0', labels } }
  const intern = createIntern()
  const metadata = parseMetadata('nodes', json, intern)
  assert.ok(metadata)
  const labelsOf = (origin: 'api' | 'manifest', asked?: ReadonlySet<string>): Node['labels'] => {
    const { change } = parseObject('nodes', json, metadata, intern, origin, asked)
    return change.kind === 'nodes' ? change.value?.labels : undefined
  }
  assert.equal(labelsOf('api'), undefined)
  assert.deepEqual(labelsOf('api', new Set(['pool', 'empty', 'wrong', 'missing', 'toString'])), {
    pool: 'gold',
    empty: '',
  })
  assert.equal(labelsOf('api', new Set(['missing'])), undefined)
  assert.deepEqual(labelsOf('manifest'), { pool: 'gold', empty: '', other: 'x', 'topology.kubernetes.io/zone': 'a' })
})
