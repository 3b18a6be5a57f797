/** The readers of counters on kernels that are made up: what they ask for, and what they leave out. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Flow, FlowFilter, FlowState } from '../../src/conntrack/types.ts'
import type { CountedDestination } from '../../src/ipvs/codec-destinations.ts'
import type { CountedVirtualServer } from '../../src/ipvs/codec-servers.ts'
import { readIpvs } from '../../src/traffic/ipvs-reader.ts'
import { countFlowsTo, countStreams } from '../../src/modes/look/connections.ts'
import { countInVirtualServers } from '../../src/modes/look/virtual-servers.ts'
import { RatesReader } from '../../src/traffic/rates-reader.ts'
import { readRules } from '../../src/traffic/rules-reader.ts'
import type { Sample } from '../../src/traffic/sample.ts'
import { makeRealServer, makeVirtualServer } from '../support/virtual-servers.ts'
import { place, realServer, sample } from './samples.ts'

const { signal } = new AbortController()

const counted = (address: string, connections: number): CountedVirtualServer => ({
  fields: makeVirtualServer(address),
  traffic: Float64Array.of(connections, 0, 0, 0, 0),
})
const destination = (address: string, port = 8080): CountedDestination => ({
  realServer: makeRealServer(address, 1, port),
  activeConnections: 2,
  inactiveConnections: 3,
  persistentConnections: 0,
  traffic: Float64Array.of(1, 2, 3, 4, 5),
})

test('readIpvs asks for the real servers of what is chosen, until its time is over', async (t) => {
  let nowMs = 0
  t.mock.method(performance, 'now', () => nowMs)
  const asked: string[] = []
  const ipvs = {
    listCountedServices: async () => [counted('10.96.0.1', 1), counted('10.96.0.2', 0), counted('10.96.0.3', 1)],
    listCountedDestinations: async (id: object) => {
      asked.push('address' in id ? String(id.address) : '')
      nowMs += 20
      return [destination('10.244.0.1')]
    },
  }
  const choose = ({ places }: Sample): string[] => [...places.keys(), 'gone']
  const { places, unread } = await readIpvs(ipvs, { choose, budgetMs: 30, signal })
  assert.deepEqual(asked, ['10.96.0.1', '10.96.0.2'])
  assert.equal(unread, 1)
  assert.equal(places.get('10.96.0.3:80/tcp')?.realServers, undefined)
  assert.deepEqual([places.get('10.96.0.1:80/tcp')?.isUsed, places.get('10.96.0.2:80/tcp')?.isUsed], [true, false])
  assert.equal(places.get('10.96.0.1:80/tcp')?.realServers?.get('10.244.0.1:8080')?.active, 2)
  await readIpvs(ipvs, { choose: () => [], signal })
  assert.equal(asked.length, 2)
})

test('RatesReader has rates from the second read on, and reads the busiest virtual servers first', async () => {
  const orders: (readonly string[])[] = []
  const samples = [
    sample(0, { A: place([5, 0, 0, 0, 0], {}), B: place([9, 0, 0, 0, 0], {}) }),
    sample(1000, { A: place([8, 0, 0, 0, 0], {}), B: place([10, 0, 0, 0, 0], {}) }),
    sample(2000, { A: place([8, 0, 0, 0, 0], {}), B: place([10, 0, 0, 0, 0], {}) }),
  ]
  const reader = new RatesReader({
    read: async ({ choose }) => {
      const next = samples.shift() ?? sample(0, {})
      orders.push(choose(next))
      return next
    },
  })
  const options = { sort: 'connections', withRealServers: true, signal } as const
  assert.equal(await reader.next({ ...options, withRealServers: false }), undefined)
  assert.deepEqual([...((await reader.next(options))?.places.get('A')?.traffic ?? [])], [3, 0, 0, 0, 0])
  await reader.next(options)
  assert.deepEqual(orders, [[], ['B', 'A'], ['A', 'B']])
})

const SAVED = [
  '*nat',
  ':KUBE-SERVICES - [0:0]',
  ':KUBE-NODEPORTS - [0:0]',
  ':KUBE-EXT-A - [0:0]',
  ':KUBE-SVC-A - [0:0]',
  ':KUBE-SEP-A - [0:0]',
  '[7:9] -A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment "demo/web:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-A',
  '[0:0] -A KUBE-NODEPORTS -p tcp -m comment --comment "demo/web:http" -m tcp --dport 30080 -j KUBE-EXT-A',
  '[0:0] -A KUBE-EXT-A -j KUBE-SVC-A',
  '[7:9] -A KUBE-SVC-A -m comment --comment "demo/web:http -> 10.244.0.1:8080" -j KUBE-SEP-A',
  '[7:9] -A KUBE-SEP-A -p tcp -m comment --comment "demo/web:http" -m tcp -j DNAT --to-destination 10.244.0.1:8080',
  'COMMIT',
].join('\n')

const flow = (
  destinationOfClient: string,
  port: number,
  endpoint: string,
  protocol: Flow['protocol'] = 'tcp',
): Flow => ({
  family: 'IPv4',
  protocol,
  original: { source: '10.0.0.9', sourcePort: 4000, destination: destinationOfClient, destinationPort: port, zone: 0 },
  reply: { source: endpoint, sourcePort: 8080, destination: '10.0.0.9', destinationPort: 4000, zone: 0 },
  zone: 0,
  id: 1,
})

/** A list of flows that begins again once in the middle, as that of a busy kernel does. */
function conntrackOf(
  flows: readonly (readonly [flow: Flow, isActive: boolean, isByRule?: boolean])[],
  size = flows.length,
) {
  let lists = 0
  return {
    get lists() {
      return lists
    },
    tableSize: async () => ({ flows: size, limit: undefined }),
    visitFlows: async (
      { family, protocol }: FlowFilter,
      visit: (one: Flow, state: FlowState) => void,
      options: { readonly onRestart?: () => void } = {},
    ) => {
      lists++
      const own = flows.filter(([one]) => one.family === family && one.protocol === protocol)
      const visitAll = (some: typeof own): void => {
        for (const [one, isActiveTcp, isByRule = true] of some) visit(one, { isActiveTcp, isByRule })
      }
      visitAll(own.slice(0, 1))
      options.onRestart?.()
      visitAll(own)
    },
  }
}

const FLOWS = [
  [flow('10.96.0.1', 80, '10.244.0.1'), true],
  [flow('10.0.2.15', 30_080, '10.244.0.1'), true],
  [flow('10.96.0.1', 80, '10.244.0.1'), false],
  [flow('10.244.0.1', 8080, '10.244.0.1'), true, false],
  [flow('192.0.2.7', 443, '10.244.0.1'), true],
] as const

test('readRules joins the counters of rules with the flows through the frontends', async () => {
  const conntrack = conntrackOf(FLOWS)
  const read = (of: typeof conntrack | undefined) =>
    readRules({ families: ['IPv4'], saveCounters: async () => SAVED, conntrack: of, signal })
  const { places, withoutConnections } = await read(conntrack)
  assert.equal(withoutConnections, undefined)
  const web = places.get('demo/web:http/tcp')
  assert.deepEqual([web?.servicePort, web?.addresses], ['demo/web:http', ['10.96.0.1', '0.0.0.0']])
  assert.deepEqual([...(web?.traffic ?? [])], [7, NaN, NaN, NaN, NaN])
  const { active, inactive } = web?.realServers?.get('10.244.0.1:8080') ?? realServer([])
  // A flow past the Services and one through an address that no rule has are left out.
  assert.deepEqual([active, inactive], [2, 1])
  assert.match((await read(undefined)).withoutConnections ?? '', /nf_conntrack_netlink/)
})

test('readRules does not list very many flows', async () => {
  const conntrack = conntrackOf(FLOWS, 50_001)
  const sampled = await readRules({ families: ['IPv4'], saveCounters: async () => SAVED, conntrack, signal })
  assert.match(sampled.withoutConnections ?? '', /50001 flows/)
  assert.equal(conntrack.lists, 0)
  assert.ok(Number.isNaN(sampled.places.get('demo/web:http/tcp')?.realServers?.get('10.244.0.1:8080')?.active))
})

test('countFlowsTo counts flows that a rule translated, and UDP flows that IPVS translated, by address or by endpoint', async () => {
  const conntrack = conntrackOf([
    ...FLOWS,
    [flow('10.96.0.1', 80, '10.244.0.1'), true, false],
    [flow('10.96.0.1', 53, '10.244.0.1', 'udp'), false, false],
    [flow('10.244.0.1', 53, '10.244.0.1', 'udp'), false, false],
  ])
  const count = (target: string, protocols: readonly Flow['protocol'][] = ['tcp', 'sctp']) =>
    countFlowsTo(conntrack, protocols, new Set([target]), signal)
  assert.deepEqual(await count('10.244.0.1'), { active: 3, inactive: 1 })
  assert.deepEqual(await count('10.244.0.1:8080'), { active: 3, inactive: 1 })
  assert.deepEqual(await count('10.244.0.1:9090'), { active: 0, inactive: 0 })
  assert.deepEqual(await count('10.244.0.1', ['udp']), { active: 0, inactive: 1 })
  const before = conntrack.lists
  await count('[fd00::1]:8080', ['tcp'])
  assert.equal(conntrack.lists, before + 1, 'one family only')
})

test('countInVirtualServers counts the endpoints that are asked for, leaves out UDP, and says where they are', async () => {
  const ids = [counted('10.96.0.1', 0), counted('10.96.0.2', 0)].map(({ fields }) => fields)
  const udp = { ...counted('10.96.0.3', 0).fields, protocol: 'udp' } as const
  const asked: string[] = []
  const ipvs = {
    listDestinations: async (id: object) => {
      const address = 'address' in id ? String(id.address) : ''
      asked.push(address)
      return address === '10.96.0.1'
        ? [destination('10.244.0.1'), destination('10.244.0.1', 9090)]
        : [destination('10.244.0.2')]
    },
  }
  const count = (target: string) => countInVirtualServers(ipvs, [...ids, udp], new Set([target]), signal)
  assert.deepEqual(await count('10.244.0.1'), { active: 4, inactive: 6, found: [ids[0]] })
  assert.deepEqual(await count('10.244.0.1:9090'), { active: 2, inactive: 3, found: [ids[0]] })
  assert.deepEqual(await count('10.244.0.9'), { active: 0, inactive: 0, found: [] })
  assert.ok(!asked.includes('10.96.0.3'))
})

test('countStreams adds what rules translated, and reads the long list of flows only where there can be any', async () => {
  const targets = new Set(['10.244.0.1'])
  const count = async (hasRules: boolean, active: number | undefined) => {
    const conntrack = conntrackOf(FLOWS)
    const inVirtualServers = active === undefined ? undefined : async () => ({ active, inactive: 10 })
    const counts = await countStreams({ inVirtualServers, conntrack, targets, hasRules, signal })
    return [counts.active, counts.inactive, conntrack.lists]
  }
  // TCP and SCTP are listed apart.
  assert.deepEqual(await count(true, undefined), [3, 1, 2])
  assert.deepEqual(await count(true, 5), [8, 11, 2])
  assert.deepEqual(await count(false, 5), [5, 10, 0])
  assert.deepEqual(await count(false, 0), [3, 11, 2], 'from before a switch of the mode')
  const without = (hasRules: boolean) =>
    countStreams({
      inVirtualServers: async () => ({ active: 0, inactive: 2 }),
      conntrack: undefined,
      targets,
      hasRules,
      signal,
    })
  assert.deepEqual(await without(false), { active: 0, inactive: 2 })
  await assert.rejects(without(true), { code: 'conntrack-missing' })
})
