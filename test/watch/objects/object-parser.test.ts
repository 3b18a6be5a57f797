import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ObjectKind } from '../../../src/service/objects.ts'
import { parse, parseServiceSpec, parseSliceFields } from './parse.ts'

test('parseObject refuses objects with names that the API server refuses', () => {
  const rows: readonly (readonly [kind: ObjectKind, metadata: object, problem: string])[] = [
    ['services', { name: 'web.1' }, 'metadata.name: invalid-name'],
    ['services', { name: 'web\n-I INPUT' }, 'metadata.name: invalid-name'],
    [
      'services',
      { name: 'web', namespace: 'x\n-I INPUT -p tcp --dport 22 -j ACCEPT\n#' },
      'metadata.namespace: invalid-name',
    ],
    ['endpointslices', { name: 'Web-1' }, 'metadata.name: invalid-name'],
    ['endpointslices', { name: 'web-1', namespace: 'a.b' }, 'metadata.namespace: invalid-name'],
    ['nodes', { name: 'node 0' }, 'metadata.name: invalid-name'],
  ]
  for (const [kind, metadata, problem] of rows) {
    const labels = { 'kubernetes.io/service-name': 'web' }
    const json = {
      metadata: { ...metadata, labels },
      addressType: 'IPv4',
      spec: { clusterIP: '10.96.0.1', ports: [{ port: 80 }] },
    }
    assert.deepEqual(parse(kind, json), { value: undefined, problems: [problem] })
  }
  for (const [kind, name] of [
    ['services', '1web'],
    ['endpointslices', 'web.example-1'],
    ['nodes', 'ip-10-0-0-1.eu.example'],
  ] as const)
    assert.deepEqual(
      parse(kind, {
        metadata: { name, labels: { 'kubernetes.io/service-name': 'web' } },
        addressType: 'IPv4',
        spec: { clusterIP: '10.96.0.1', ports: [{ port: 80 }] },
      }).problems,
      [],
    )
})

test('parseService and parseSlice leave out ports with names that the API server refuses', () => {
  const ports = [
    { name: 'http', port: 80 },
    { name: 'a\nb', port: 81 },
    { name: 'HTTP', port: 82 },
    { name: '', port: 83 },
  ]
  const problems = [1, 2].map((index) => `ports[${index}].name: invalid-name`)
  const service = parseServiceSpec({ clusterIP: '10.96.0.1', ports })
  assert.deepEqual(
    service.value?.ports.map(({ port }) => port),
    [80, 83],
  )
  assert.deepEqual(
    service.problems,
    problems.map((problem) => `spec.${problem}`),
  )
  const slice = parseSliceFields({ ports })
  assert.deepEqual(
    slice.value?.ports.map(({ port }) => port),
    [80, 83],
  )
  assert.deepEqual(slice.problems, problems)
})
