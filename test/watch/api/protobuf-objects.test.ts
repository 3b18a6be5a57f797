/** Objects of the API in protobuf compared with the same objects in JSON. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { makeNode, makeService, makeSlice } from '../../../dev/api-server/generate.ts'
import { asObject, type Json } from '../../../dev/api-server/store.ts'
import type { ObjectKind } from '../../../src/service/objects.ts'
import { ApiError, statusError } from '../../../src/watch/api/api-error.ts'
import { isObject } from '../../../src/watch/objects/findings.ts'
import { recordingPath } from '../../support/recordings.ts'
import { parse } from '../objects/parse.ts'
import { decode, encode, parseAsProtobuf, readGolden } from './protobuf-cases.ts'

const KINDS: Readonly<Record<string, ObjectKind>> = {
  Service: 'services',
  EndpointSlice: 'endpointslices',
  Node: 'nodes',
}
const golden = readGolden()

/** Asserts that both encodings give the same value and problems. */
function assertSame(kind: ObjectKind, json: Json, note?: string): void {
  assert.deepEqual(parseAsProtobuf(kind, json), parse(kind, json), note)
}

/** The golden object with this kind and event. */
function goldenOf(kind: string, event?: string): (typeof golden)[number] {
  const found = golden.find((one) => one.json.kind === kind && one.event === event)
  assert.ok(found)
  return found
}

describe('decodeObject', () => {
  it('keeps only the first address of an endpoint, of which a slice may have 100,000', () => {
    const slice = {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { name: 'a', namespace: 'b' },
      endpoints: [{ addresses: ['10.0.0.1', '10.0.0.2'] }, { addresses: ['10.0.0.3', '10.0.0.4'] }],
    }
    const { endpoints } = decode(encode({ json: slice })) as unknown as typeof slice // what was encoded
    assert.deepEqual(
      endpoints.map(({ addresses }) => addresses),
      [['10.0.0.1'], ['10.0.0.3']],
    )
  })

  for (const { json, bytes, event } of golden) {
    const name = `${event ?? ''} ${json.kind} ${String(asObject(json['metadata'])['name'] ?? '')}`.trim()
    const kind = KINDS[json.kind]
    if (kind !== undefined && event === undefined)
      it(`reads the bytes of Kubernetes: ${name}`, () =>
        assert.deepEqual(parse(kind, decode(bytes)), parse(kind, json)))
    it(`is tested with an encoder that writes the bytes of Kubernetes: ${name}`, () =>
      assert.deepEqual(encode({ json, ...(event && { event }) }), bytes))
  }

  it('reads a page of a list', () => {
    const { json, bytes } = goldenOf('ServiceList')
    const list = decode(bytes)
    assert.ok(isObject(list) && Array.isArray(list['items']) && Array.isArray(json['items']))
    assert.deepEqual(list['metadata'], { resourceVersion: '1234', continue: 'MORE' })
    assert.deepEqual(
      list['items'].map((item) => parse('services', item)),
      json['items'].map((item) => parse('services', item)),
    )
  })

  it('reads an empty list and a list of slices', () => {
    assert.deepEqual(decode(goldenOf('NodeList').bytes), {
      metadata: { resourceVersion: '1', continue: '' },
      items: undefined,
    })
    const { json, bytes } = goldenOf('EndpointSliceList')
    const list = decode(bytes)
    assert.ok(isObject(list) && Array.isArray(list['items']) && Array.isArray(json['items']))
    assert.deepEqual(parse('endpointslices', list['items'][0]), parse('endpointslices', json['items'][0]))
  })

  it('reads a Status', () => {
    const error = statusError(decode(goldenOf('Status').bytes), {})
    assert.equal(error.message, '410 Expired: too old resource version: 1 (239)')
    assert.deepEqual([error.status, error.reason, error.retryAfterMs], [410, 'Expired', 5000])
  })

  it('refuses other kinds, versions and encodings, and bytes that are not an object', () => {
    const { json } = goldenOf('Service')
    const rows: readonly Buffer[] = [
      encode({ json: { ...json, apiVersion: 'v2' } }),
      Buffer.concat([encode({ json }), Buffer.from('\x1a\x04gzip')]),
      Buffer.from('k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod'),
      Buffer.from('k8s\0'),
      Buffer.from('k8s\x01'),
      Buffer.from('k8'),
      Buffer.from(JSON.stringify(json)),
      Buffer.alloc(0),
    ]
    for (const bytes of rows) assert.throws(() => decode(bytes), { code: 'api-bad-response' }, bytes.toString('latin1'))
  })

  it('skips annotations and labels that no parser reads', () => {
    const object = decode(goldenOf('Service').bytes)
    assert.ok(isObject(object) && isObject(object['metadata']))
    assert.deepEqual(Object.keys(object['metadata']), [
      'name',
      'namespace',
      'resourceVersion',
      'creationTimestamp',
      'annotations',
    ])
    assert.deepEqual(object['metadata']['annotations'], {})
  })

  it('decodes generated objects to the same values as their JSON', () => {
    assertSame('services', makeService(7))
    assertSame('endpointslices', makeSlice(7, ['10.128.0.1', '10.128.0.2']))
    assertSame('nodes', makeNode('node0'))
  })
})

describe('decodeWatchEvent', () => {
  it('reads the events of Kubernetes', () => {
    const added = decode(goldenOf('EndpointSlice', 'ADDED').bytes, true)
    const deleted = decode(goldenOf('Service', 'DELETED').bytes, true)
    const error = decode(goldenOf('Status', 'ERROR').bytes, true)
    assert.ok(isObject(added) && isObject(deleted) && isObject(error))
    assert.deepEqual([added['type'], deleted['type'], error['type']], ['ADDED', 'DELETED', 'ERROR'])
    assert.deepEqual(parse('endpointslices', added['object']), parse('endpointslices', goldenOf('EndpointSlice').json))
    assert.equal(statusError(error['object'], { inStream: true }).status, 410)
  })

  it('reads version and annotation of a bookmark', () => {
    assert.deepEqual(decode(goldenOf('EndpointSlice', 'BOOKMARK').bytes, true), {
      type: 'BOOKMARK',
      object: { metadata: { resourceVersion: '200', annotations: { 'k8s.io/initial-events-end': 'true' } } },
    })
  })

  it('refuses an event without an object', () => {
    assert.throws(() => decode(Buffer.from('\0\0\0\x07\x0a\x05ADDED'), true), { code: 'api-bad-response' })
  })
})

/** Decodes bytes that may be wrong: they must give an object or `api-bad-response`. */
function attempt(bytes: Buffer, isFrame: boolean): unknown {
  try {
    return decode(bytes, isFrame)
  } catch (error) {
    assert.ok(error instanceof ApiError, String(error))
    assert.equal(error.code, 'api-bad-response')
    return undefined
  }
}

describe('decodeObject and decodeWatchEvent', () => {
  for (const { json, event, bytes } of golden)
    it(`refuse or read whole an object that is cut at any byte: ${event ?? ''} ${json.kind}`, () => {
      const whole = decode(bytes, event !== undefined)
      for (let end = event === undefined ? 0 : 4; end < bytes.length; end++) {
        const got = attempt(bytes.subarray(0, end), event !== undefined)
        if (got !== undefined) assert.deepEqual(got, whole, `cut at ${end}`)
      }
    })

  it('refuse or read an object with any byte changed, and return', () => {
    for (const { event, bytes } of golden)
      for (let at = event === undefined ? 0 : 4; at < bytes.length; at++)
        for (const bit of [1, 0x80, 0xff]) {
          const changed = Buffer.from(bytes)
          changed[at] = (changed[at] ?? 0) ^ bit
          attempt(changed, event !== undefined)
        }
  })

  it('refuse or read any bytes', () => {
    const envelope = (raw: Uint8Array, kind: string): Buffer => {
      const type = kind === 'EndpointSlice' ? 'discovery.k8s.io/v1' : 'v1'
      const meta = Buffer.concat([
        Buffer.from([10, type.length]),
        Buffer.from(type),
        Buffer.from([18, kind.length]),
        Buffer.from(kind),
      ])
      return Buffer.concat([
        Buffer.from('k8s\0\x0a'),
        Buffer.from([meta.length]),
        meta,
        Buffer.from([18, raw.length]),
        raw,
      ])
    }
    const kinds = fc.constantFrom(...Object.keys(KINDS), 'Status', 'NodeList')
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 127 }), kinds, (raw, kind) => void attempt(envelope(raw, kind), false)),
      { numRuns: 2000 },
    )
    fc.assert(fc.property(fc.uint8Array(), (bytes) => void attempt(Buffer.from(bytes), true)))
  })
})

const text = fc.oneof(
  fc.constantFrom('', 'TCP', 'http', '10.96.0.1', 'fd00::1', '10.0.0.0/8', 'None', 'Local', 'ClientIP', 'LoadBalancer'),
  fc.string({ unit: 'grapheme', maxLength: 80 }),
)
const int32 = fc.oneof(
  fc.integer(),
  fc.constantFrom(0, 1, -1, 80, 127, 128, 16_383, 16_384, 65_535, 2 ** 31 - 1, -(2 ** 31)),
)
const time = fc.oneof(
  fc.constant(null),
  fc
    .integer({ min: -62_135_596_799, max: 253_402_300_799 })
    .map((s) => `${new Date(s * 1000).toISOString().slice(0, -5)}Z`),
)
const some = (fields: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<Json> =>
  fc.record(fields, { requiredKeys: [], noNullPrototype: true })
const many = (item: fc.Arbitrary<unknown>): fc.Arbitrary<unknown[]> => fc.array(item, { maxLength: 4 })
const texts = fc.dictionary(
  fc.oneof(
    fc.constantFrom('kubernetes.io/service-name', 'topology.kubernetes.io/zone', 'kube-ipvs.io/scheduler'),
    text,
  ),
  text,
  {
    noNullPrototype: true,
    maxKeys: 4,
  },
)
const named = some({ name: text })
const metadata = some({
  name: fc.oneof(fc.constant('web'), text),
  generateName: text,
  namespace: text,
  resourceVersion: fc.oneof(text, fc.nat().map(String)),
  creationTimestamp: time,
  deletionTimestamp: time,
  labels: texts,
  annotations: texts,
  finalizers: many(text),
  ownerReferences: many(some({ kind: text, name: text, controller: fc.boolean() })),
  managedFields: many(some({ manager: text, time, fieldsV1: texts })),
})

const OBJECTS: Readonly<Record<ObjectKind, fc.Arbitrary<Json>>> = {
  services: some({
    metadata,
    spec: some({
      ports: many(
        some({ name: text, protocol: text, port: int32, targetPort: fc.oneof(int32, text), nodePort: int32 }),
      ),
      selector: texts,
      clusterIP: text,
      clusterIPs: many(text),
      type: text,
      externalIPs: many(text),
      sessionAffinity: text,
      loadBalancerSourceRanges: many(text),
      externalTrafficPolicy: text,
      healthCheckNodePort: int32,
      sessionAffinityConfig: some({ clientIP: some({ timeoutSeconds: int32 }) }),
      internalTrafficPolicy: text,
    }),
    status: some({ loadBalancer: some({ ingress: many(some({ ip: text, hostname: text, ipMode: text })) }) }),
  }),
  endpointslices: some({
    metadata,
    addressType: fc.oneof(fc.constantFrom('IPv4', 'IPv6'), text),
    endpoints: many(
      some({
        addresses: many(text),
        conditions: some({ ready: fc.boolean(), serving: fc.boolean(), terminating: fc.boolean() }),
        targetRef: some({ kind: text, name: text }),
        nodeName: text,
        zone: text,
        hints: some({ forZones: many(named), forNodes: many(named) }),
      }),
    ),
    ports: many(some({ name: text, protocol: text, port: int32 })),
  }),
  nodes: some({
    metadata,
    spec: some({ podCIDR: text, podCIDRs: many(text), taints: many(some({ key: text, value: text })) }),
    status: some({
      addresses: many(some({ type: fc.oneof(fc.constantFrom('InternalIP', 'ExternalIP'), text), address: text })),
    }),
  }),
}

describe('protobuf and JSON', () => {
  for (const [kind, objects] of Object.entries(OBJECTS) as [ObjectKind, fc.Arbitrary<Json>][])
    it(`give the same value for any of the ${kind}`, () => {
      fc.assert(
        fc.property(objects, (json) => assertSame(kind, json)),
        { numRuns: 1000 },
      )
    })

  it('give the same value for every recorded answer of an API server', () => {
    let count = 0
    for (const file of readdirSync(recordingPath('api')).filter((name) => name.endsWith('.response')))
      for (const line of readFileSync(recordingPath(`api/${file}`), 'utf8').split('\n')) {
        const json = line.startsWith('{') ? JSON.parse(line) : {}
        const objects: Json[] = json.items ?? [json.object ?? json]
        for (const object of objects) {
          const kind = KINDS[String(object['kind'] ?? json.kind).replace(/List$/, '')]
          if (kind === undefined || asObject(object['metadata'])['name'] === undefined) continue
          assertSame(kind, object, file)
          count++
        }
      }
    assert.ok(count > 20, String(count))
  })

  it('give the same value for every object of the recorded cases', () => {
    const cases = recordingPath('cases')
    let count = 0
    for (const path of readdirSync(cases, { recursive: true, encoding: 'utf8' })) {
      if (!path.endsWith('/objects.json')) continue
      const lists = JSON.parse(readFileSync(`${cases}/${path}`, 'utf8'))
      for (const [name, kind] of [
        ['services', 'services'],
        ['endpointSlices', 'endpointslices'],
        ['nodes', 'nodes'],
      ] as const)
        for (const object of lists[name].items) {
          assertSame(kind, object, path)
          count++
        }
    }
    assert.ok(count > 1000, String(count))
  })
})
