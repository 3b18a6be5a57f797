import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compareObjects } from '../../../src/cli/explain/objects.ts'
import type { ExplainedObject } from '../../../src/cli/explain/object-types.ts'
import { entryKey, type SetEntry } from '../../../src/ipset/types.ts'
import type { VirtualServer } from '../../../src/ipvs/types.ts'
import type { Live } from '../../../src/modes/look/live-tables.ts'
import { chainsIn, liveTable } from '../../../src/modes/look/service-tables.ts'
import type { Wanted } from '../../../src/explain/wanted.ts'
import { SET_ENTRIES } from '../../../src/ipset/diff.ts'
import { ADDRESSES, hostAddress } from '../../../src/ipvs/address-diff.ts'
import { VIRTUAL_SERVERS } from '../../../src/ipvs/diff.ts'
import { type LocalRoute, localRoute, ROUTES } from '../../../src/ipvs/route-diff.ts'
import { parseSave } from '../../../src/iptables/save-text.ts'
import { makeRealServer, makeVirtualServer } from '../../support/virtual-servers.ts'
import { chainHash } from '../../../src/modes/iptables/chains/chain-names.ts'

const KEY = '10.96.0.1:80/tcp'
const realServer = (address: string, weight = 1) => makeRealServer(address, weight, 8080)
const SERVER = makeVirtualServer('10.96.0.1', [realServer('10.244.0.1'), realServer('10.244.0.2')])
const ENTRY = { set: 'KUBE-CLUSTER-IP', entry: '10.96.0.1,tcp:80' }
const WANTED: readonly Wanted[] = [
  { table: 'virtual-servers', key: KEY, neededBy: KEY, item: SERVER },
  { table: 'addresses', key: '10.96.0.1', neededBy: KEY, item: hostAddress('10.96.0.1') },
  { table: 'set-entries', key: `${ENTRY.set} ${ENTRY.entry}`, neededBy: KEY, item: ENTRY },
]
const TRAFFIC = { connections: 7, packetsIn: 70, packetsOut: 60, bytesIn: 700, bytesOut: 600 }
const PORT = { name: 'demo/web:http', protocol: 'tcp', family: 'IPv4' } as const

const USE = { connections: new Map([['10.244.0.1:8080', { active: 2, inactive: 3 }]]), traffic: TRAFFIC }

interface There {
  readonly server?: VirtualServer | undefined
  readonly entries?: readonly SetEntry[]
  readonly addresses?: readonly string[]
  readonly routes?: readonly LocalRoute[]
  readonly rules?: string
  readonly use?: typeof USE
  readonly hasIpvs?: boolean
}

/** A kernel that has everything of WANTED, but for what is said. */
function live(there: There = {}): Live {
  const { entries = [ENTRY], addresses = ['10.96.0.1'], routes = [], rules, use = USE, hasIpvs = true } = there
  const server = 'server' in there ? there.server : SERVER
  const byKey = <Item>(items: readonly Item[], keyOf: (item: Item) => string) =>
    new Map(items.map((item) => [keyOf(item), item]))
  return {
    tables: {
      'virtual-servers': liveTable(
        VIRTUAL_SERVERS,
        byKey(server === undefined ? [] : [server], () => KEY),
      ),
      'set-entries': liveTable(SET_ENTRIES, byKey(entries, entryKey)),
      addresses: liveTable(
        ADDRESSES,
        byKey(addresses.map(hostAddress), ({ address }) => address),
      ),
      routes: liveTable(
        ROUTES,
        byKey(routes, ({ address }) => address),
      ),
      'chains-IPv4': chainsIn('IPv4', rules === undefined ? undefined : parseSave(rules)),
      'chains-IPv6': undefined,
      nftables: undefined,
    },
    uses: server === undefined ? new Map() : new Map([[KEY, use]]),
    hasIpvs,
    rules: { saved: {}, unread: undefined },
    virtualIps: { device: undefined, routes: new Map(), privateTables: [] },
  }
}

function compared(wanted: readonly Wanted[], there: Live, isWhole = true): readonly ExplainedObject[] {
  return compareObjects(wanted, there, [PORT], [{ key: KEY, isNodePort: true }], isWhole)
}

function withServer(server: VirtualServer): Live {
  return live({ server, use: { connections: new Map(), traffic: TRAFFIC } })
}

test('what is there as wanted is present, with its counters', () => {
  const all = compared(WANTED, live())
  assert.deepEqual(
    all.map(({ kind, state, means, commands }) => [kind, state, means, commands.length]),
    [
      ['virtual-server', 'present', '', 0],
      ['address', 'present', '', 0],
      ['set-entry', 'present', '', 0],
    ],
  )
  assert.deepEqual(all[0]?.virtualServer?.traffic, TRAFFIC)
  assert.deepEqual(
    all[0]?.virtualServer?.realServers.map(({ key, activeConnections, inactiveConnections, state }) => [
      key,
      activeConnections,
      inactiveConnections,
      state,
    ]),
    [
      ['10.244.0.1:8080', 2, 3, 'present'],
      ['10.244.0.2:8080', null, null, 'present'],
    ],
  )
})

test('what is missing has the commands of a pass and says what follows', () => {
  const none = live({ server: undefined, entries: [], addresses: [] })
  const [virtual, address, entry] = compared(WANTED, none)
  assert.equal(virtual?.state, 'missing')
  assert.deepEqual(virtual?.commands, [
    'ipvsadm -A -t 10.96.0.1:80 -s rr',
    'ipvsadm -a -t 10.96.0.1:80 -r 10.244.0.1:8080 -m -w 1',
    'ipvsadm -a -t 10.96.0.1:80 -r 10.244.0.2:8080 -m -w 1',
  ])
  assert.match(virtual?.means ?? '', /^nothing answers/)
  assert.deepEqual(address?.commands, ['ip address add 10.96.0.1/32 dev kube-ipvs0'])
  assert.match(address?.means ?? '', /does not answer for the address/)
  assert.deepEqual([entry?.state, entry?.commands], ['missing', ['ipset add KUBE-CLUSTER-IP 10.96.0.1,tcp:80']])
  assert.match(entry?.means ?? '', /not masqueraded/)
  const nothing = compared(WANTED, live({ server: undefined, entries: [], addresses: [], hasIpvs: false }))
  assert.deepEqual(
    nothing.map(({ state }) => state),
    ['missing', 'missing', 'missing'],
  )
  assert.match(nothing[0]?.means ?? '', /no IPVS/)
})

test('a real server that is missing, too much or draining is named', () => {
  const missing = compared(WANTED, withServer({ ...SERVER, realServers: [realServer('10.244.0.1')] }))[0]
  assert.deepEqual([missing?.state, missing?.means], ['differs', '10.244.0.2:8080 should get traffic and does not'])
  const more = [...SERVER.realServers, realServer('10.244.0.3')]
  const extra = compared(WANTED, withServer({ ...SERVER, realServers: more }))[0]
  assert.equal(extra?.means, '10.244.0.3:8080 gets traffic and should not')
  const drains = [...SERVER.realServers, realServer('10.244.0.3', 0)]
  const draining = compared(WANTED, withServer({ ...SERVER, realServers: drains }))[0]
  assert.equal(draining?.state, 'present')
  assert.equal(draining?.virtualServer?.realServers[2]?.state, 'draining')
  const silent = withServer({ ...SERVER, realServers: [realServer('10.244.0.1', 0), realServer('10.244.0.2')] })
  const judged = compared(
    WANTED.map((one) =>
      one.table === 'virtual-servers'
        ? { ...one, item: silent.tables['virtual-servers']?.items.get(one.key) ?? one.item }
        : one,
    ),
    silent,
  )[0]
  assert.equal(judged?.state, 'present')
  assert.deepEqual(
    judged.virtualServer?.realServers.map(({ state }) => state),
    ['suspect', 'present'],
  )
  const weight = compared(
    WANTED,
    withServer({ ...SERVER, realServers: [realServer('10.244.0.1', 5), realServer('10.244.0.2')] }),
  )[0]
  assert.match(weight?.means ?? '', /^10\.244\.0\.1:8080 has another weight/)
  const scheduler = compared(WANTED, withServer({ ...SERVER, scheduler: 'wlc' }))[0]
  assert.match(scheduler?.means ?? '', /another scheduler/)
})

test('entries of the same address and port that nothing wants are extra', () => {
  const entries = [
    ENTRY,
    { set: 'KUBE-LOAD-BALANCER-FW', entry: '10.96.0.1,tcp:80' },
    { set: 'KUBE-LOAD-BALANCER-SOURCE-CIDR', entry: '10.96.0.1,tcp:80,10.0.0.0/8' },
    { set: 'KUBE-NODE-PORT-LOCAL-TCP', entry: '80' },
    // Of others: another port, another address, hairpin entries.
    { set: 'KUBE-LOAD-BALANCER-FW', entry: '10.96.0.1,tcp:800' },
    { set: 'KUBE-LOAD-BALANCER-FW', entry: '10.96.0.10,tcp:80' },
    { set: 'KUBE-LOOP-BACK', entry: '10.96.0.1,tcp:80,10.96.0.1' },
    { set: 'somebody-elses', entry: '10.96.0.1,tcp:80' },
  ]
  const there = live({ entries })
  const extra = compared(WANTED, there).filter(({ state }) => state === 'extra')
  assert.deepEqual(
    extra.map(({ place, name, commands }) => [place, name, commands[0]]),
    [
      ['KUBE-LOAD-BALANCER-FW', '10.96.0.1,tcp:80', 'ipset del KUBE-LOAD-BALANCER-FW 10.96.0.1,tcp:80'],
      [
        'KUBE-LOAD-BALANCER-SOURCE-CIDR',
        '10.96.0.1,tcp:80,10.0.0.0/8',
        'ipset del KUBE-LOAD-BALANCER-SOURCE-CIDR 10.96.0.1,tcp:80,10.0.0.0/8',
      ],
      ['KUBE-NODE-PORT-LOCAL-TCP', '80', 'ipset del KUBE-NODE-PORT-LOCAL-TCP 80'],
    ],
  )
  for (const { means } of extra) assert.notEqual(means, '')
  // Where rows were left out, one of them may want what no other row does.
  const cut = compared(WANTED, there, false)
  assert.deepEqual(cut.length, WANTED.length)
  assert.ok(cut.every(({ state }) => state !== 'extra'))
})

test('a local route is compared like an address, and only one of both may be there', () => {
  const route = localRoute('10.96.0.1', undefined)
  const wanted: readonly Wanted[] = [{ table: 'routes', key: '10.96.0.1', neededBy: KEY, item: route }]
  const states = (there: Live) => compared(wanted, there).map(({ kind, state }) => `${kind} ${state}`)
  const routes = [route]
  assert.deepEqual(states(live({ routes, addresses: [] })), ['route present'])
  assert.deepEqual(states(live({ routes })), ['route present', 'address extra'])
  assert.deepEqual(states(live({ addresses: [] })), ['route missing'])
  const other = { address: '10.96.0.1', paths: [{ interfaceIndex: 1, source: '10.0.0.9', priority: 0 }] }
  assert.deepEqual(states(live({ addresses: [], routes: [other] })), ['route differs'])
  assert.deepEqual(
    compared(WANTED, live({ routes })).flatMap(({ kind, state }) => (state === 'extra' ? [kind] : [])),
    ['route'],
  )
})

const HASH = chainHash('demo/web:httptcp')
const RULE = `-d 10.96.0.1/32 -p tcp -m comment --comment "demo/web:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-${HASH}`
const OF_PORT = { table: 'chains-IPv4', neededBy: 'demo/web:http' } as const
const chainItem = (chain: string, ...rules: readonly string[]) =>
  ({ kind: 'chain', table: 'nat', chain, rules }) as const
const RULES: readonly Wanted[] = [
  { ...OF_PORT, key: `nat KUBE-SVC-${HASH}`, item: chainItem(`KUBE-SVC-${HASH}`, '-j KUBE-SEP-A') },
  { ...OF_PORT, key: 'nat KUBE-SERVICES', item: chainItem('KUBE-SERVICES', RULE), isPart: true },
]

function saved(...lines: readonly string[]): Live {
  const chains = [...new Set(lines.map((line) => line.split(' ')[1] ?? ''))].map((chain) => `:${chain} - [0:0]`)
  return live({ rules: ['*nat', ...chains, ...lines, 'COMMIT', ''].join('\n'), addresses: [], entries: [] })
}

test('chains and rules of iptables mode are compared without regard to their spelling', () => {
  const spelled = RULE.replace('/32', '').replace('-m tcp --dport 80', '-m tcp --dport 80')
  const states = (there: Live) => compared(RULES, there).map(({ kind, state }) => `${kind} ${state}`)
  const chain = `-A KUBE-SVC-${HASH} -j KUBE-SEP-A`
  assert.deepEqual(states(saved(`-A KUBE-SERVICES ${spelled}`, chain)), ['chain present', 'rule present'])
  assert.deepEqual(states(saved(chain)), ['chain present', 'rule missing'])
  assert.deepEqual(states(saved(`-A KUBE-SERVICES ${RULE}`)), ['chain missing', 'rule present'])
  assert.deepEqual(states(saved(`-A KUBE-SERVICES ${RULE}`, `-A KUBE-SVC-${HASH} -j KUBE-SEP-B`)), [
    'chain differs',
    'rule present',
  ])
  assert.deepEqual(states(live()), ['chain unknown', 'rule unknown'])
})

test('chains and rules of the port that nothing wants are extra, those of others are not', () => {
  const refuse = RULE.replace('cluster IP', 'has no endpoints').replace(/-j .*/, '-j REJECT')
  const other = RULE.replace('demo/web:http ', 'demo/web:https ')
  const there = saved(
    `-A KUBE-SERVICES ${RULE}`,
    `-A KUBE-SERVICES ${refuse}`,
    `-A KUBE-SERVICES ${other}`,
    `-A KUBE-SVC-${HASH} -j KUBE-SEP-A`,
    `-A KUBE-EXT-${HASH} -j KUBE-SVC-${HASH}`,
    '-A KUBE-EXT-AAAAAAAAAAAAAAAA -j RETURN',
  )
  const extra = compared(RULES, there).filter(({ state }) => state === 'extra')
  assert.deepEqual(
    extra.map(({ kind, name }) => [kind, name]),
    [
      ['chain', `KUBE-EXT-${HASH}`],
      ['rule', refuse],
    ],
  )
})

test('a rule that only counts is not missing on a kernel without counters', () => {
  const rule = '-d 127.0.0.0/8 -p tcp -m tcp --dport 30080 -m nfacct --nfacct-name  x -j KUBE-EXT-A'
  const item = chainItem('KUBE-NODEPORTS', rule)
  const wanted: readonly Wanted[] = [{ ...OF_PORT, key: 'nat KUBE-NODEPORTS', item, isPart: true }]
  const state = (there: Live) => compared(wanted, there)[0]?.state
  assert.equal(state(saved('-A KUBE-SERVICES -j RETURN')), 'unknown')
  assert.equal(state(saved('-A KUBE-FORWARD -m nfacct --nfacct-name y')), 'missing')
  assert.equal(state(saved(`-A KUBE-NODEPORTS ${rule}`)), 'present')
})
