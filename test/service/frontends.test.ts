/** When two frontends come to the same, and the keys of frontends. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sameServicePort } from '../../src/service/service-port.ts'
import {
  familyOfKey,
  frontendComparison,
  frontendKey,
  nodePortKey,
  parseFrontendKey,
  parseNodePortKey,
} from '../../src/service/frontends.ts'
import { endpointsAt, type FrontendChange, frontendOf } from '../support/frontends.ts'
import { service } from '../support/objects.ts'

const ADDRESSES = ['10.180.0.1', '10.180.1.1']
const [ONE, TWO] = endpointsAt(ADDRESSES)
assert.ok(ONE && TWO)
const ON_NODE0 = [{ ...ONE, source: { ...ONE.source, nodeName: 'node0' } }, TWO]
const NOT_READY = { ...ONE.source, ready: false, terminating: true }
const RANGE = { family: 'IPv4', address: '192.0.2.0', prefixLength: 24 } as const

test('frontendComparison compares what tables, health checks and metrics read, and nothing else', () => {
  const frontend = frontendOf({}, ADDRESSES)
  const { cluster } = frontend.servicePort
  const rows: [title: string, change: FrontendChange, expected: boolean][] = [
    ['equal endpoints in another array', { servicePort: { candidates: [{ ...ONE }, { ...TWO }] } }, true],
    ['other verdicts', { servicePort: { cluster: { ...cluster, verdicts: ['used-zone-hint', 'used'] } } }, true],
    ['another Service object', { service: service() }, true],
    ['equal roles in another array', { roles: ['ClusterIP'] }, true],
    ['one endpoint less', { servicePort: { candidates: [ONE] } }, false],
    ['another endpoint port', { servicePort: { candidates: [ONE, { ...TWO, port: 1 }] } }, false],
    ['another endpoint address', { servicePort: { candidates: [ONE, { ...TWO, address: '10.9.9.9' }] } }, false],
    ['an endpoint that moved to this node', { servicePort: { candidates: ON_NODE0 } }, false],
    [
      'an endpoint that is no longer used',
      { servicePort: { candidates: [{ ...ONE, source: NOT_READY }, TWO] } },
      false,
    ],
    [
      'an endpoint that no longer serves',
      { servicePort: { candidates: [{ ...ONE, source: { ...ONE.source, serving: false } }, TWO] } },
      false,
    ],
    ['affinity', { service: service({ affinityTimeoutSeconds: 1 }) }, false],
    ['node port', { servicePort: { nodePort: 30080 } }, false],
    ['choices', { servicePort: { choices: { maxConnections: 1 } } }, false],
    ['health check port', { service: service({ healthCheckNodePort: 1 }) }, false],
    ['age of the Service', { service: service({ createdAtMs: 1 }) }, false],
    ['what a health check counts', { servicePort: { localReadyEndpoints: 1 } }, false],
    ['whether its health check port is open', { servicePort: { acceptsHealthChecks: false } }, false],
    ['external IPs that a feature gate turns off', { servicePort: { ignoresExternalIps: true } }, false],
    ['source ranges', { firewall: { ranges: [RANGE], allowsNode: false } }, false],
    ['bind', { bind: false }, false],
    ['another role', { roles: ['ExternalIP'] }, false],
    ['one role more', { roles: ['ClusterIP', 'ExternalIP'] }, false],
    ['internal policy', { service: service({ internalTrafficPolicy: 'Local' }) }, false],
    ['external policy', { service: service({ externalTrafficPolicy: 'Local' }) }, false],
    ['owner', { servicePort: { name: 'demo/other:http' } }, false],
    ['key', { key: '10.20.30.41:81/tcp' }, false],
  ]
  const same = frontendComparison()
  for (const [title, change, expected] of rows)
    for (const other of [frontendOf(change, ADDRESSES), frontendOf(change, ADDRESSES)])
      assert.equal(same(frontend, other), expected, title)
})

test('frontendComparison compares two ServicePorts once for all of their frontends', () => {
  const [before, after] = [frontendOf({}, ADDRESSES), frontendOf({}, ADDRESSES)]
  let comparisons = 0
  const servicePort = Object.defineProperty({ ...after.servicePort }, 'name', {
    get: () => {
      comparisons++
      return before.servicePort.name
    },
  })
  const same = frontendComparison()
  for (let port = 1; port <= 100; port++) {
    const key = frontendKey('10.96.0.1', port, 'tcp')
    assert.equal(same({ ...before, key }, { ...after, key, servicePort }), true)
  }
  assert.equal(comparisons, 1)
  assert.equal(sameServicePort(before.servicePort, servicePort), true)
})

test('a key of a frontend says where clients connect', () => {
  assert.deepEqual(parseFrontendKey(frontendKey('10.96.0.1', 443, 'tcp')), {
    family: 'IPv4',
    address: '10.96.0.1',
    port: 443,
    protocol: 'tcp',
  })
  for (const [family, key] of [
    ['IPv4', '*:30080/udp'],
    ['IPv6', '[*]:30080/udp'],
  ] as const) {
    assert.equal(nodePortKey(family, 30_080, 'udp'), key)
    assert.equal(familyOfKey(key), family)
    assert.deepEqual(parseNodePortKey(key), { port: 30_080, protocol: 'udp' })
  }
  for (const [family, address] of [
    ['IPv4', '0.0.0.0'],
    ['IPv6', '::'],
    ['IPv6', 'fd00::1'],
  ] as const) {
    const key = frontendKey(address, 30_080, 'udp')
    assert.equal(familyOfKey(key), family)
    assert.equal(parseNodePortKey(key), undefined)
  }
})
