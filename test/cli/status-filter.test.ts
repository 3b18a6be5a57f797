import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Status } from '../../src/cli/node-status.ts'
import type { FlagValues } from '../../src/start/flags.ts'
import { filterStatus, statusFilter } from '../../src/cli/status-filter.ts'
import { DAEMON, IPVS, KNOWN, VIRTUAL, WRONG } from './known-status.ts'

test('statusFilter takes names of Services and refuses every other word', () => {
  assert.deepEqual(statusFilter(['demo/web', 'kube-system/kube-dns'], {}).services, [
    'demo/web',
    'kube-system/kube-dns',
  ])
  for (const word of ['web', 'demo/', '/web', 'demo/web:http', 'demo/web/x', 'Demo/web', 'demo/we\x1b[2Jb', '../etc'])
    assert.throws(() => statusFilter([word], {}), /is not the NAMESPACE\/NAME of a Service$/, word)
})

test('filterStatus keeps what was asked for', () => {
  const other = {
    ...VIRTUAL,
    key: '10.96.0.2:53/udp',
    realServers: VIRTUAL.realServers.slice(0, 1),
    service: 'kube-system/dns:dns',
  }
  const virtualServers = [
    { ...VIRTUAL, service: 'demo/web:http' },
    other,
    { ...other, key: '192.0.2.1:80/tcp', service: null },
  ]
  const conflicts = [{ key: '10.96.0.9:80/tcp', owner: 'demo/a', others: ['kube-system/dns'] }]
  const status: Status = {
    ...KNOWN,
    ipvs: { ...IPVS, virtualServers },
    daemon: { ...DAEMON, problems: [WRONG], conflicts },
  }
  const keys = (words: readonly string[], flags: FlagValues): readonly string[] =>
    filterStatus(status, statusFilter(words, flags)).ipvs?.virtualServers.map(({ key }) => key) ?? []
  assert.deepEqual(keys([], {}).length, 3)
  assert.deepEqual(keys(['demo/web'], {}), ['10.96.0.1:80/tcp'])
  assert.deepEqual(keys(['demo/web', 'kube-system/dns'], {}), ['10.96.0.1:80/tcp', '10.96.0.2:53/udp'])
  assert.deepEqual(keys(['demo/we'], {}), [])
  assert.deepEqual(keys([], { address: '10.96.0.2' }), ['10.96.0.2:53/udp'])
  assert.deepEqual(keys([], { address: '10.244.0.2' }), ['10.96.0.1:80/tcp'])
  assert.deepEqual(keys([], { draining: true }), ['10.96.0.1:80/tcp'])
  assert.deepEqual(keys([], { problems: true }), ['10.96.0.1:80/tcp', '10.96.0.2:53/udp'])
  assert.deepEqual(keys(['kube-system/dns'], { draining: true }), [])
  const ofPod = filterStatus(status, statusFilter([], { pod: 'demo/web-1' }), ['10.244.0.2:8080', '10.244.0.3:8080'])
  assert.deepEqual(
    ofPod.ipvs?.virtualServers.map(({ key }) => key),
    ['10.96.0.1:80/tcp'],
  )
  assert.deepEqual(filterStatus(status, statusFilter([], { pod: 'demo/web-2' })).ipvs?.virtualServers, [])
  assert.throws(() => statusFilter([], { pod: 'web-1' }), /--pod: "web-1" is not the NAMESPACE\/NAME of a pod$/)
  const drained = filterStatus(status, statusFilter([], { draining: true })).ipvs?.virtualServers[0]?.realServers
  assert.deepEqual(
    drained?.map(({ key }) => key),
    ['10.244.0.2:8080'],
  )
  const elsewhere = filterStatus(status, statusFilter([], { address: '10.244.0.2' })).daemon
  assert.deepEqual([elsewhere?.problems, elsewhere?.conflicts], [[], []])
  const daemon = filterStatus(status, statusFilter(['kube-system/dns'], { problems: true })).daemon
  assert.deepEqual([daemon?.problems, daemon?.conflicts], [[], conflicts])
  assert.throws(() => statusFilter([], { address: '10.96' }), /^CodedError: --address: "10.96" is not an IP address$/)
})
