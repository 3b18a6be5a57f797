/** Shapes name the first member that is not as the type says, whatever the answer is. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { WantedObject } from '../../src/explain/wanted-objects.ts'
import { OBJECTS_VIEW, SERVICE_VIEW } from '../../src/inspect/view-shapes.ts'

const OBJECTS: readonly WantedObject[] = [
  {
    kind: 'virtual-server',
    frontend: '10.96.0.1:80/tcp',
    server: {
      family: 'IPv4',
      address: '10.96.0.1',
      port: 80,
      protocol: 'tcp',
      scheduler: 'rr',
      flags: 0,
      timeoutSeconds: 0,
      netmask: 0,
      persistenceEngine: '',
      realServers: [
        {
          address: '10.244.0.1',
          port: 8080,
          weight: 1,
          forwarding: 'masquerade',
          upperThreshold: 0,
          lowerThreshold: 0,
        },
      ],
    },
  },
  { kind: 'set-entry', frontend: 'x', set: 'KUBE-CLUSTER-IP', entry: 'y' },
  { kind: 'address', frontend: 'x', address: '10.96.0.1' },
  { kind: 'route', frontend: 'x', route: { address: '10.96.0.1', paths: [{ interfaceIndex: 1, priority: 0 }] } },
  { kind: 'chain', servicePort: 'demo/web', family: 'IPv6', table: 'nat', chain: 'KUBE-SVC-X', rules: ['-j X'] },
  { kind: 'rule', servicePort: 'demo/web', family: 'IPv4', table: 'filter', chain: 'KUBE-SERVICES', rule: '-j X' },
]
const ANSWER = { format: 1, objects: OBJECTS, omitted: 0 }

test('an answer of the daemon has its shape, also with members that are not known', () => {
  assert.equal(OBJECTS_VIEW(ANSWER, ''), undefined)
  assert.equal(OBJECTS_VIEW({ ...ANSWER, newer: true }, ''), undefined)
})

/** Every path to a member, with the value without it, and with another in its place. */
function* spoiled(value: unknown, path = ''): Generator<readonly [path: string, value: unknown]> {
  if (typeof value !== 'object' || value === null) return
  if (Array.isArray(value)) {
    for (const [index, one] of value.entries())
      for (const [inner, other] of spoiled(one, `${path}[${index}]`)) yield [inner, value.with(index, other)]
    return
  }
  for (const [name, one] of Object.entries(value)) {
    const here = path === '' ? name : `${path}.${name}`
    const { [name]: _, ...others } = value as Readonly<Record<string, unknown>> // it is an object
    yield [here, others]
    yield [here, { ...value, [name]: { not: 'this' } }]
    for (const [inner, other] of spoiled(one, here)) yield [inner, { ...value, [name]: other }]
  }
}

test('each member that is missing or of another type is named', () => {
  let count = 0
  for (const [path, value] of spoiled(ANSWER)) {
    const wrong = OBJECTS_VIEW(value, '')
    assert.ok(wrong === path || wrong?.startsWith(`${path}.`), `${path}: ${wrong}`)
    count++
  }
  assert.ok(count > 80, String(count))
  const twoOf = {
    format: 1,
    namespace: 'a',
    name: 'b',
    ports: [],
    problems: [],
    omitted: 0,
    annotations: [['a', 'b', 'c']],
  }
  assert.equal(SERVICE_VIEW(twoOf, ''), 'annotations[0]')
  assert.equal(SERVICE_VIEW({ ...twoOf, annotations: [['a', 1]] }, ''), 'annotations[0][1]')
})

test('shapes never throw', () => {
  fc.assert(fc.property(fc.anything(), (value) => void [OBJECTS_VIEW(value, ''), SERVICE_VIEW(value, '')]))
})
