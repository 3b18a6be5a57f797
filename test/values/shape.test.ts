/** Shapes name the first member that is not as the type says, whatever the answer is. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { SERVICES_VIEW } from '../../src/inspect/view.ts'
import { hostAddress } from '../../src/ipvs/address-diff.ts'
import type { Wanted } from '../../src/explain/wanted.ts'
import { ShapeError } from '../../src/values/shape.ts'

const WANTED: readonly Wanted[] = [
  {
    table: 'virtual-servers',
    key: '10.96.0.1:80/tcp',
    neededBy: '10.96.0.1:80/tcp',
    item: {
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
  { table: 'set-entries', key: 'KUBE-CLUSTER-IP y', neededBy: 'x', item: { set: 'KUBE-CLUSTER-IP', entry: 'y' } },
  { table: 'addresses', key: '10.96.0.1', neededBy: 'x', item: hostAddress('10.96.0.1') },
  {
    table: 'routes',
    key: '10.96.0.1',
    neededBy: 'x',
    item: { address: '10.96.0.1', paths: [{ interfaceIndex: 1, priority: 0 }] },
  },
  {
    table: 'chains-IPv6',
    key: 'nat KUBE-SVC-X',
    neededBy: 'demo/web',
    item: { kind: 'chain', table: 'nat', chain: 'KUBE-SVC-X', rules: ['-j X'] },
  },
  {
    table: 'chains-IPv4',
    key: 'filter KUBE-SERVICES',
    neededBy: 'demo/web',
    item: { kind: 'chain', table: 'filter', chain: 'KUBE-SERVICES', rules: ['-j X'] },
  },
]
const SERVICE = {
  namespace: 'demo',
  name: 'web',
  ports: [],
  problems: [],
  omitted: 0,
  omittedRows: 0,
  wanted: WANTED,
  annotations: [['a', 'b']],
}
const ANSWER = { format: 2, services: [SERVICE] }

/** The member that is wrong; undefined: none. */
function wrongIn(value: unknown): string | undefined {
  try {
    SERVICES_VIEW(value, '')
    return undefined
  } catch (error) {
    assert.ok(error instanceof ShapeError, String(error))
    return error.path
  }
}

test('an answer of the daemon has its shape, and members that are not known are left out', () => {
  assert.deepEqual(SERVICES_VIEW(ANSWER, ''), ANSWER)
  assert.deepEqual(SERVICES_VIEW({ ...ANSWER, newer: true }, ''), ANSWER)
  const withPart = (isPart: unknown) => ({ ...ANSWER, services: [{ ...SERVICE, wanted: [{ ...WANTED[0], isPart }] }] })
  assert.equal(wrongIn(withPart(true)), undefined)
  assert.equal(wrongIn(withPart(false)), 'services[0].wanted[0].isPart')
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
    const wrong = wrongIn(value)
    assert.ok(wrong === path || wrong?.startsWith(`${path}.`), `${path}: ${wrong}`)
    count++
  }
  assert.ok(count > 80, String(count))
  const annotated = (...annotations: readonly unknown[]) => ({ format: 2, services: [{ ...SERVICE, annotations }] })
  assert.equal(wrongIn(annotated(['a', 'b', 'c'])), 'services[0].annotations[0]')
  assert.equal(wrongIn(annotated(['a', 1])), 'services[0].annotations[0][1]')
})

test('shapes throw nothing but where a value is wrong', () => {
  fc.assert(fc.property(fc.anything(), (value) => void wrongIn(value)))
})
