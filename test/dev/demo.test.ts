/** What the demo expects of its examples, and how it decides that the table is complete or has changed. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { expectedOfManifests } from '../../dev/demo/expected.ts'
import { Requests } from '../../dev/demo/requests.ts'
import { changes, isComplete, type Table } from '../../dev/demo/table.ts'
import { NODE, POD_PORT, PODS } from '../../dev/demo/topology.ts'
import type { VirtualServerStatus } from '../../src/cli/node-status.ts'

const examples = join(import.meta.dirname, '../../examples')
const texts = readdirSync(examples).map((name) => readFileSync(join(examples, name), 'utf8'))
const expected = expectedOfManifests(texts, [NODE.ipv4, NODE.ipv6])

describe('expectedOfManifests', () => {
  it('finds every kind of address that the demo must show', () => {
    const kinds = new Set(expected.map(({ kind }) => kind))
    assert.deepEqual([...kinds].sort(), ['ClusterIP', 'NodePort', 'external IP', 'load balancer'])
    assert.ok(expected.some(({ kind, url }) => kind === 'ClusterIP' && url === 'http://[fd00:10:96::10]:80/'))
  })
  it('omits endpoints that are not ready, of the other family, or behind a proxying load balancer', () => {
    const shop = expected.find(({ key }) => key === '10.96.0.20:80/tcp')
    assert.deepEqual(shop?.realServers, ['10.244.0.12:8080', '10.244.0.13:8080'])
    assert.ok(!expected.some(({ key }) => key === '[fd00:18::2]:30080/tcp'))
    assert.ok(!expected.some(({ key }) => key.startsWith('203.0.113.11')))
  })
  it('names only pods that the demo starts', () => {
    const pods = new Set(PODS.flatMap(({ ipv4, ipv6 }) => [`${ipv4}:${POD_PORT}`, `[${ipv6}]:${POD_PORT}`]))
    assert.deepEqual(
      expected.flatMap(({ realServers }) => realServers).filter((server) => !pods.has(server)),
      [],
    )
  })
  it('throws for a text that is not YAML', () => {
    assert.throws(() => expectedOfManifests(['a: [1'], []))
  })
})

function virtualServer(key: string, weights: Readonly<Record<string, number>>): VirtualServerStatus {
  const realServers = Object.entries(weights).map(([server, weight]) => ({
    key: server,
    forwarding: 'masquerade',
    weight,
    activeConnections: 0,
    inactiveConnections: 0,
    draining: weight === 0,
  }))
  return { key, scheduler: 'rr', flags: [], persistenceTimeoutSeconds: 0, realServers }
}

const whole: Table = expected.map(({ key, realServers }) =>
  virtualServer(key, Object.fromEntries(realServers.map((server) => [server, 1]))),
)

describe('isComplete', () => {
  const [first, ...others] = whole
  assert.ok(first)
  const servers = Object.fromEntries(first.realServers.map(({ key }) => [key, 1]))
  for (const [what, table, complete] of [
    ['everything', whole, true],
    ['a draining real server more', [virtualServer(first.key, { ...servers, '10.9.9.9:1': 0 }), ...others], true],
    ['an active real server more', [virtualServer(first.key, { ...servers, '10.9.9.9:1': 1 }), ...others], false],
    ['a missing virtual server', others, false],
    ['a missing real server', [virtualServer(first.key, {}), ...others], false],
  ] as const)
    it(`is ${complete} with ${what}`, () => assert.equal(isComplete(table, expected), complete))
})

describe('changes', () => {
  it('names additions, removals and changes', () => {
    const before = [virtualServer('v1', { a: 1, b: 1 }), virtualServer('v2', {})]
    const after = [virtualServer('v1', { a: 0, c: 1 }), { ...virtualServer('v3', {}), scheduler: 'lc' }]
    assert.deepEqual(changes(before, after), [
      '- v1 -> b weight 1',
      '- v2 rr',
      '~ v1 -> a weight 0 (was weight 1)',
      '+ v1 -> c weight 1',
      '+ v3 lc',
    ])
  })
  it('is empty for the same table', () => assert.deepEqual(changes(whole, whole), []))
})

describe('Requests', () => {
  it('counts a request without an answer as sent only', async () => {
    const requests = new Requests()
    let turn = 0
    const ask = (): Promise<string | undefined> => Promise.resolve(turn++ % 2 === 0 ? 'pod-a' : undefined)
    const visit = { service: 's', kind: 'NodePort', key: 'k', url: 'u', realServers: ['r'] } as const
    await requests.send(
      4,
      [visit, { ...visit, realServers: [] }],
      { node: ask, client: ask },
      new AbortController().signal,
    )
    assert.deepEqual(requests.count, { sent: 4, answered: 2, perBackend: { 'pod-a': 2 } })
    assert.deepEqual([...requests.unanswered], [['u', 2]])
  })
})
