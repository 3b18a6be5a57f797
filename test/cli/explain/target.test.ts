import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  asNodePort,
  isTargeted,
  nearestTargets,
  parseSource,
  parseTarget,
  type Target,
} from '../../../src/cli/explain/target.ts'

function targetOf(text: string): Target {
  const read = parseTarget(text)
  assert.ok('value' in read, JSON.stringify(read))
  return read.value
}

const wrongOf = (read: object): string => ('wrong' in read ? String(read.wrong) : '')

test('parseTarget reads Services, addresses and node ports', () => {
  const rows: readonly (readonly [string, Target])[] = [
    ['demo/web', { kind: 'service', service: 'demo/web', port: undefined }],
    ['demo/web:http', { kind: 'service', service: 'demo/web', port: 'http' }],
    ['demo/web:80', { kind: 'service', service: 'demo/web', port: '80' }],
    ['demo/1web', { kind: 'service', service: 'demo/1web', port: undefined }],
    ['7/42:80', { kind: 'service', service: '7/42', port: '80' }],
    ['kube-system/kube-dns.v2:dns-tcp', { kind: 'service', service: 'kube-system/kube-dns.v2', port: 'dns-tcp' }],
    ['10.96.0.1:80', { kind: 'address', address: '10.96.0.1', port: 80, protocol: undefined }],
    ['10.96.0.1:80/UDP', { kind: 'address', address: '10.96.0.1', port: 80, protocol: 'udp' }],
    ['[FD00::0:1]:443/tcp', { kind: 'address', address: 'fd00::1', port: 443, protocol: 'tcp' }],
    [':30080', { kind: 'node-port', port: 30080, protocol: undefined }],
    [':30080/sctp', { kind: 'node-port', port: 30080, protocol: 'sctp' }],
  ]
  for (const [text, target] of rows) assert.deepEqual(targetOf(text), target, text)
})

test('parseTarget refuses everything else, and quotes it', () => {
  const texts = [
    '',
    'web',
    '/',
    'demo/',
    'Demo/web',
    'demo/web/x',
    'demo/web:',
    'demo/we\u001b[31mb',
    'demo/web\n',
    '10.96.0.1',
    '10.96.0:80',
    '10.96.0.1:0',
    '10.96.0.1:65536',
    '10.96.0.1:80/icmp',
    'fd00::1:80',
    '[10.96.0.1]:80',
    ':0',
    ':99999',
    '[::1%lo]:80',
    `${'a'.repeat(300)}/web`,
    '*:30080',
  ]
  for (const text of texts) {
    const read = parseTarget(text)
    assert.ok('wrong' in read, text)
    // oxlint-disable-next-line no-control-regex
    assert.doesNotMatch(read.wrong, /[\u0000-\u001f]/, text)
    assert.ok(read.wrong.length < 300, text)
  }
  assert.match(wrongOf(parseTarget('web')), /^"web" is not a target: it must be NAMESPACE\/NAME/)
})

test('parseSource reads the node, addresses and pods', () => {
  assert.deepEqual(parseSource('node'), { value: { kind: 'node' } })
  assert.deepEqual(parseSource('203.0.113.9'), { value: { kind: 'address', address: '203.0.113.9' } })
  assert.deepEqual(parseSource('[FD00::9]'), { value: { kind: 'address', address: 'fd00::9' } })
  assert.deepEqual(parseSource('fd00::9'), { value: { kind: 'address', address: 'fd00::9' } })
  assert.deepEqual(parseSource('demo/client-1'), { value: { kind: 'pod', pod: 'demo/client-1' } })
  for (const text of ['', 'Node', '10.0.0.0/8', '1.2.3', 'demo/\u0007', 'x'.repeat(5000)]) {
    const read = parseSource(text)
    assert.ok('wrong' in read, text)
    assert.ok(read.wrong.length < 300)
  }
})

test('isTargeted compares address, port and protocol; a node port has any address', () => {
  const cluster = { key: '10.96.0.1:80/tcp', roles: ['ClusterIP'] } as const
  const node = { key: '10.0.2.15:30080/tcp', roles: ['NodePort'] } as const
  const everywhere = { key: '[*]:30080/udp', roles: ['NodePort'] } as const
  const is = (text: string, frontend: Parameters<typeof isTargeted>[1]): boolean => {
    const target = targetOf(text)
    return target.kind !== 'service' && isTargeted(target, frontend)
  }
  assert.ok(is('10.96.0.1:80', cluster))
  assert.ok(is('10.96.0.1:80/tcp', cluster))
  assert.ok(!is('10.96.0.1:80/udp', cluster))
  assert.ok(!is('10.96.0.2:80', cluster))
  assert.ok(!is(':80', cluster))
  assert.ok(is(':30080', node))
  assert.ok(is('10.0.2.15:30080', node))
  assert.ok(is(':30080', everywhere))
  assert.ok(!is(':30080/tcp', everywhere))
  assert.ok(!is('10.0.2.15:30080/udp', everywhere))
})

test('nearestTargets proposes what is spelled alike, or is at the same address', () => {
  const services = ['demo/web', 'demo/api', 'other/webshop', 'kube-system/kube-dns']
  const frontends = [
    { key: '10.96.0.1:80/tcp', roles: ['ClusterIP'] },
    { key: '10.96.0.1:443/tcp', roles: ['ClusterIP'] },
    { key: '10.0.2.15:30080/tcp', roles: ['NodePort'] },
    { key: '[fd00::1]:80/tcp', roles: ['ClusterIP'] },
  ] as const
  const near = (text: string): readonly string[] => nearestTargets(targetOf(text), { services, frontends })
  assert.deepEqual(near('demo/wbe'), ['demo/web'])
  assert.deepEqual(near('default/web'), ['demo/web'])
  assert.deepEqual(near('kube-sytem/kube-dns'), ['kube-system/kube-dns'])
  assert.deepEqual(near('10.96.0.1:8080'), ['10.96.0.1:80/tcp', '10.96.0.1:443/tcp'])
  assert.deepEqual(near('10.96.0.2:80'), ['10.96.0.1:80/tcp'])
  assert.deepEqual(near(':30081'), ['10.0.2.15:30080/tcp'])
  assert.deepEqual(near('zzz/qqq'), [])
  assert.deepEqual(near(':12'), [])
})

test('a port at a loopback address is a node port, and no other address is', () => {
  const nodePortOf = (text: string): unknown => {
    const read = parseTarget(text)
    assert.ok('value' in read)
    return asNodePort(read.value)
  }
  assert.deepEqual(nodePortOf('127.0.0.1:30080'), { kind: 'node-port', port: 30_080, protocol: undefined })
  assert.deepEqual(nodePortOf('[::1]:30080/tcp'), { kind: 'node-port', port: 30_080, protocol: 'tcp' })
  for (const text of ['10.96.0.1:80', ':30080', 'demo/web'])
    assert.deepEqual({ value: nodePortOf(text) }, parseTarget(text))
})
