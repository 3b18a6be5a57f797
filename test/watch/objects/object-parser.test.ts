import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ObjectKind } from '../../../src/service/objects.ts'
import { isDnsLabel, isDnsSubdomain } from '../../../src/watch/objects/findings.ts'
import { parse, parseServiceSpec, parseSliceFields } from './parse.ts'

const LONG = 'a'.repeat(63)

test('isDnsLabel and isDnsSubdomain take what the API server takes', () => {
  const rows: readonly (readonly [name: string, label: boolean, subdomain: boolean])[] = [
    ['a', true, true],
    ['web-1', true, true],
    ['1web', true, true],
    [LONG, true, true],
    ['a.b', false, true],
    [`${LONG}.${LONG}.${LONG}.${'a'.repeat(61)}`, false, true],
    [`${LONG}a`, false, true],
    [`${LONG}.${LONG}.${LONG}.${'a'.repeat(62)}`, false, false],
    ['', false, false],
    ['-a', false, false],
    ['a-', false, false],
    ['A', false, false],
    ['a_b', false, false],
    ['a..b', false, false],
    ['.a', false, false],
    ['a.', false, false],
    ['ä', false, false],
    ['a b', false, false],
    ['a\n', false, false],
    ['a\n-I INPUT -j ACCEPT\n#', false, false],
    ['a\0', false, false],
    ['a/b', false, false],
  ]
  for (const [name, label, subdomain] of rows) {
    assert.equal(isDnsLabel(name), label, JSON.stringify(name))
    assert.equal(isDnsSubdomain(name), subdomain, JSON.stringify(name))
  }
})

test('isDnsSubdomain takes no longer for a name that almost is one', () => {
  const startMs = performance.now()
  for (const name of ['a'.repeat(1_000_000), `${'a-'.repeat(120)}!`, `${'a.'.repeat(126)}!`]) isDnsSubdomain(name)
  assert.ok(performance.now() - startMs < 1000)
})

test('parseObject refuses objects with names that no API server takes', () => {
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

test('parseService and parseSlice leave out ports with names that no API server takes', () => {
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
