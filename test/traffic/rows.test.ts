import assert from 'node:assert/strict'
import { test } from 'node:test'
import { placesByUse, rowsOf, serviceOfPort, sortRows, type SortKey, titleOf } from '../../src/traffic/rows.ts'
import { place, rates, realServer, sample } from './samples.ts'

const A = '10.244.0.1:8080'
const B = '10.244.0.2:8080'
const NAMES = new Map([
  ['10.96.0.1:80/tcp', 'demo/web:http'],
  ['10.0.2.15:30080/tcp', 'demo/web:http'],
  ['10.96.0.2:53/udp', 'kube-system/dns:dns'],
])
const nameOf = (key: string): string | undefined => NAMES.get(key)
const RATES = rates({
  '10.96.0.1:80/tcp': place(
    [4, 40, 50, 4000, 50_000],
    {
      [A]: realServer([3, 30, 40, 3000, 40_000], { active: 5, inactive: 2 }),
      [B]: realServer([1, 10, 10, 1000, 10_000], { active: 1, isDraining: true }),
    },
    { addresses: ['10.96.0.1'] },
  ),
  '10.0.2.15:30080/tcp': place(
    [1, 10, 10, 100, 100],
    { [A]: realServer([1, 10, 10, 100, 100], { active: 1 }) },
    { addresses: ['10.0.2.15'] },
  ),
  '10.96.0.2:53/udp': place([10, 10, 10, 700, 900], undefined, { addresses: ['10.96.0.2'] }),
  '10.96.0.9:80/tcp': place([0, 0, 0, 0, 0], undefined, { addresses: ['10.96.0.9'], isUsed: false }),
})

test('rowsOf sums the virtual servers of a Service; those without a name are rows of their own', () => {
  const { rows, total } = rowsOf(RATES, 'service', nameOf, {})
  assert.deepEqual(
    rows.map((row) => [titleOf(row), [...row.traffic], row.active, row.inactive]),
    [
      ['demo/web', [5, 50, 60, 4100, 50_100], 7, 2],
      ['kube-system/dns', [10, 10, 10, 700, 900], NaN, NaN],
      ['10.96.0.9:80/tcp', [0, 0, 0, 0, 0], 0, 0],
    ],
    'real servers that were not read leave connections unknown, unless nothing was ever counted',
  )
  assert.deepEqual(rows[0]?.places, ['10.96.0.1:80/tcp', '10.0.2.15:30080/tcp'])
  assert.deepEqual([...total.traffic], [15, 60, 70, 4800, 51_000])
})

test('rowsOf by real server sums it over the virtual servers of its Service', () => {
  const { rows } = rowsOf(RATES, 'real-server', nameOf, {})
  assert.deepEqual(
    rows.map(({ service, realServer: name, traffic, active, isDraining }) => [
      service,
      name,
      traffic[0],
      active,
      isDraining,
    ]),
    [
      ['demo/web', A, 4, 6, false],
      ['demo/web', B, 1, 1, true],
    ],
  )
})

test('rowsOf filters by namespace, Service, address and text', () => {
  const titles = (filter: Parameters<typeof rowsOf>[3]): string[] =>
    rowsOf(RATES, 'service', nameOf, filter).rows.map(titleOf)
  assert.deepEqual(titles({ namespace: 'demo' }), ['demo/web'])
  assert.deepEqual(titles({ namespace: 'dem' }), [])
  assert.deepEqual(titles({ namespace: 'kube-system', name: 'dns' }), ['kube-system/dns'])
  assert.deepEqual(titles({ namespace: 'kube-system', name: 'web' }), [])
  assert.deepEqual(titles({ address: '10.96.0.2' }), ['kube-system/dns'])
  assert.deepEqual(titles({ address: '10.244.0.2' }), ['demo/web'])
  assert.deepEqual(titles({ text: '96.0.9' }), ['10.96.0.9:80/tcp'])
  const servers = rowsOf(RATES, 'real-server', nameOf, { address: '10.244.0.2' }).rows
  assert.deepEqual(
    servers.map(({ realServer: name }) => name),
    [B],
  )
})

test('rowsOf takes the names that the kernel has', () => {
  const one = rates({ 'demo/web:http/tcp': place([1, NaN, NaN, NaN, NaN], {}, { servicePort: 'demo/web:http' }) })
  assert.deepEqual(rowsOf(one, 'service', () => undefined, {}).rows.map(titleOf), ['demo/web'])
})

test('sortRows puts the most first, what is unknown last, and equal rows in the order of names', () => {
  const { rows } = rowsOf(RATES, 'service', nameOf, {})
  const order = (by: SortKey): string[] => sortRows(rows, by).map(titleOf)
  assert.deepEqual(order('connections'), ['kube-system/dns', 'demo/web', '10.96.0.9:80/tcp'])
  assert.deepEqual(order('packets'), ['demo/web', 'kube-system/dns', '10.96.0.9:80/tcp'])
  assert.deepEqual(order('bytes'), ['demo/web', 'kube-system/dns', '10.96.0.9:80/tcp'])
  assert.deepEqual(order('active'), ['demo/web', '10.96.0.9:80/tcp', 'kube-system/dns'])
  assert.deepEqual(order('name'), ['10.96.0.9:80/tcp', 'demo/web', 'kube-system/dns'])
})

test('placesByUse has the busiest first and nothing that was never used', () => {
  const before = sample(0, Object.fromEntries(RATES.places))
  assert.deepEqual(placesByUse(RATES, before, 'connections'), [
    '10.96.0.2:53/udp',
    '10.96.0.1:80/tcp',
    '10.0.2.15:30080/tcp',
  ])
  assert.equal(placesByUse(RATES, before, 'bytes')[0], '10.96.0.1:80/tcp')
  assert.equal(placesByUse(undefined, before, 'bytes')[0], '10.96.0.2:53/udp', 'without rates, by all connections')
})

test('serviceOfPort drops the name of the port', () => {
  assert.equal(serviceOfPort('demo/web:http'), 'demo/web')
  assert.equal(serviceOfPort('demo/web'), 'demo/web')
})
