/** Answers of a real kube-apiserver 1.36.3, byte for byte, through object store and parsers. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import type { ObjectKind } from '../../src/service/objects.ts'
import { statusError } from '../../src/watch/api/api-error.ts'
import { LineSplitter } from '../../src/watch/api/encodings.ts'
import { ObjectStore } from '../../src/watch/reflect/object-store.ts'
import { endpoint, service, servicePort, slice, slicePort } from '../support/objects.ts'
import { recordingPath } from '../support/recordings.ts'
import { recordingSink } from './recording-sink.ts'

function body(name: string): string {
  const text = readFileSync(recordingPath(`api/${name}.response`), 'utf8')
  return text.startsWith('HTTP/') ? text.slice(text.indexOf('\n\n') + 2) : text
}

interface Event {
  readonly type: string
  readonly object: { readonly metadata: { readonly name?: string } }
}

function events(name: string): Event[] {
  return new LineSplitter(1 << 20).push(Buffer.from(body(name))).map((line) => JSON.parse(String(line)))
}

/** Gives the events of these recordings to an object store. */
function replay(kind: ObjectKind, names: readonly string[]): ReturnType<typeof recordingSink> {
  const sink = recordingSink()
  const store = new ObjectStore(kind, sink)
  for (const { type, object } of names.flatMap(events)) {
    const change = type === 'DELETED' ? store.remove(object) : type === 'BOOKMARK' ? undefined : store.put(object)
    if (change !== undefined) sink.apply([change])
  }
  return sink
}

test('ObjectStore delivers a recorded streaming list of Services', () => {
  const sink = replay('services', ['services-watchlist'])
  assert.deepEqual([...sink.troubles], [])
  assert.deepEqual(sink.calls, ['+ default/kubernetes', '+ default/web-1', '+ default/web-2', '+ default/web-3'])
  const expected = service({
    namespace: 'default',
    name: 'web-1',
    createdAtMs: Date.UTC(2026, 10, 20, 16, 19, 17),
    clusterIps: { IPv4: '10.96.1.1' },
    ports: [
      servicePort({ name: 'http', protocol: 'tcp', port: 80 }),
      servicePort({ name: 'dns', protocol: 'udp', port: 53 }),
    ],
    internalTrafficPolicy: 'Cluster',
  })
  assert.deepEqual(sink.state.get('services default/web-1'), expected)
})

test('ObjectStore delivers recorded changes, and removes a Service that leaves the selection', () => {
  const sink = replay('services', ['services-watchlist', 'services-watch-changes'])
  assert.deepEqual(sink.calls.slice(4), ['+ default/web-1', '- default/web-2', '- default/web-3'])
})

test('ObjectStore delivers a recorded streaming list of slices', () => {
  const sink = replay('endpointslices', ['slices-watchlist'])
  assert.deepEqual([...sink.troubles], [])
  const expected = slice({
    namespace: 'default',
    name: 'web-1-abc',
    serviceName: 'web-1',
    family: 'IPv4',
    triggeredAtMs: 1_795_190_400_123,
    ports: [
      slicePort({ name: 'http', protocol: 'tcp', port: 8080 }),
      slicePort({ name: 'dns', protocol: 'udp', port: 5353 }),
    ],
    endpoints: [
      endpoint({
        address: '10.244.0.1',
        ready: true,
        serving: true,
        terminating: false,
        nodeName: 'node0',
        zone: 'zone-a',
        zoneHints: ['zone-a'],
      }),
      endpoint({ address: '10.244.1.1', ready: false, serving: true, terminating: true, nodeName: 'node1' }),
    ],
  })
  assert.deepEqual(sink.state.get('endpointslices default/web-1-abc'), expected)
})

test('statusError reads every recorded refusal', () => {
  const rows: readonly [string, number, string][] = [
    ['unauthorized', 401, 'Unauthorized'],
    ['proxy-forbidden-secrets', 403, 'Forbidden'],
    ['gone-group', 404, 'NotFound'],
    ['services-continue-expired', 410, 'Expired'],
    ['services-continue-garbage', 400, 'BadRequest'],
    ['services-list-exact-too-old', 410, 'Expired'],
    ['services-watchlist-bad-match', 422, 'Invalid'],
    ['services-watch-garbage-rv', 500, ''],
  ]
  for (const [name, status, reason] of rows) {
    const error = statusError(JSON.parse(body(name)), {})
    assert.deepEqual([error.status, error.reason], [status, reason], name)
  }
  for (const [name, status] of [
    ['services-watch-too-old', 410],
    ['services-watchlist-unsupported', 500],
  ] as const) {
    const [event] = events(name)
    assert.equal(event?.type, 'ERROR')
    assert.equal(statusError(event?.object, { inStream: true }).status, status)
  }
})
