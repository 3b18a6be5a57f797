/**
 * iptables mode on real traffic: which endpoint answers at a frontend of each kind, which client the endpoint sees, and which
 * clients source ranges refuse; with both back ends, both families and every protocol. Endpoints are chosen at random, so a
 * client repeats its request until every expected endpoint has answered.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { IpFamily } from '../../src/values/protocol.ts'
import { ADDRESSES, type Addresses, Cluster, type From, NODE, POD_PORT, REFUSAL_MS } from '../support/cluster.ts'
import { type Workbench } from '../support/daemon.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'
import {
  bothFamilies,
  everyKind,
  FAMILIES,
  frontend,
  inBothFamilies,
  type Kind,
  KINDS,
  NEEDS_OF,
  PROTOCOLS,
} from '../support/every-kind.ts'
import { Predictions } from '../support/predictions.ts'
import { needs } from './needs.ts'

/** The chance that a wrong choice shows in none of these is one in a million. */
const MOST_QUESTIONS = 40
const single = ({ IPv4, IPv6 }: Addresses): string[] => [`${IPv4}/32`, `${IPv6}/128`]

/** Service 1 has policy Cluster, Service 2 Local, both with pods a (here) and c (elsewhere). 3 and 4 are guarded; the endpoint of 5 is this node. */
const POLICIES = ['Cluster', 'Local'] as const
const NUMBER = { Cluster: 1, Local: 2, 'one client': 3, 'this node': 4 } as const
const HOST = 5
const RANGES = { 'one client': single(ADDRESSES.client), 'this node': single(NODE) } as const

/** With policy Local pods and the node itself still reach every endpoint of an external address. */
const ROWS: Readonly<Record<'ClusterIP' | 'external', readonly [From, Record<(typeof POLICIES)[number], string>][]>> = {
  ClusterIP: [
    ['client', { Cluster: 'a node, c node', Local: 'a node' }],
    ['node', { Cluster: 'a node, c node', Local: 'a node' }],
    ['b', { Cluster: 'a own, c own', Local: 'a own' }],
    ['a', { Cluster: 'a node, c own', Local: 'a node' }],
  ],
  external: [
    ['client', { Cluster: 'a node, c node', Local: 'a own' }],
    ['other', { Cluster: 'a node, c node', Local: 'a own' }],
    ['node', { Cluster: 'a node, c node', Local: 'a node, c node' }],
    ['b', { Cluster: 'a node, c node', Local: 'a own, c own' }],
    ['a', { Cluster: 'a node, c node', Local: 'a node, c own' }],
  ],
}
const GUARDED: readonly [ranges: keyof typeof RANGES, from: From, kind: Kind, expected: string][] = [
  ['one client', 'client', 'LoadBalancer', 'a node'],
  ['one client', 'other', 'LoadBalancer', 'nothing'],
  ['one client', 'b', 'LoadBalancer', 'nothing'],
  ['one client', 'node', 'LoadBalancer', 'nothing'],
  ['one client', 'other', 'ClusterIP', 'a node'],
  ['one client', 'other', 'NodePort', 'a node'],
  ['this node', 'node', 'LoadBalancer', 'a node'],
  ['this node', 'client', 'LoadBalancer', 'nothing'],
]

let cluster: Cluster
before(() => {
  cluster = Cluster.start(PROTOCOLS)
  for (const protocol of PROTOCOLS)
    for (const address of Object.values(NODE)) cluster.serve('node', { protocol, address, port: POD_PORT })
})
after(() => cluster.stop())

/** Sends requests until all expected answers have arrived, or an unexpected one. */
async function answers(from: From, place: ReturnType<typeof frontend>, expected: string): Promise<string> {
  const seen = new Set<string>()
  for (let left = MOST_QUESTIONS; left > 0 && seen.size < expected.split(', ').length; left--) {
    const asked = await cluster.ask(from, place, { withinMs: expected === 'nothing' ? 1000 : REFUSAL_MS })
    // When the node drops its own datagram on the way out, the sender gets the error at once.
    const answer = asked === 'EPERM' ? 'nothing' : asked
    seen.add(answer)
    if (!expected.split(', ').includes(answer)) break
  }
  return [...seen].sort().join(', ')
}

for (const [backEnd, need] of [
  ['nft', 'iptables-nft'],
  ['legacy', 'legacy-iptables'],
] as const)
  describe(`iptables mode with rules in ${backEnd}`, needs(need), () => {
    let bench: Workbench
    let predictions: Predictions
    before(async () => {
      // The node itself needs a route to an address before a rule can send it elsewhere.
      sh(`iptables-${backEnd} -t mangle -N KUBE-IPTABLES-HINT
        ip route replace default via ${ADDRESSES.client.IPv4}
        ip -6 route replace default via ${ADDRESSES.client.IPv6}`)
      const clusterCIDR = '10.244.0.0/16,fd00:10:244::/47'
      bench = bothFamilies({}, { clusterCIDR, mode: 'iptables', iptables: { minSyncPeriod: '0s', syncPeriod: '1s' } })
      for (const policy of POLICIES) {
        const policies = { internalTrafficPolicy: policy, externalTrafficPolicy: policy }
        bench.write(`${policy}.yaml`, ...everyKind(NUMBER[policy], ['a', 'c'], policies))
      }
      for (const [name, loadBalancerSourceRanges] of Object.entries(RANGES))
        bench.write(
          `${name}.yaml`,
          ...everyKind(NUMBER[name as keyof typeof RANGES], ['a'], { loadBalancerSourceRanges }),
        )
      bench.write('host.yaml', ...everyKind(HOST, ['node']))
      bench.start()
      await eventually(() => {
        for (const family of FAMILIES) assert.equal(vipRules(backEnd, family), 5 * PROTOCOLS.length * 3, bench.log)
      })
      predictions = new Predictions()
      cluster.comparison = predictions
    })
    after(async () => {
      cluster.comparison = undefined
      await predictions.check()
      await bench.close()
      for (const family of ['iptables', 'ip6tables'])
        for (const table of ['nat', 'filter', 'mangle'])
          sh(`${family}-${backEnd} -t ${table} -F; ${family}-${backEnd} -t ${table} -X`)
      sh('conntrack -F 2>/dev/null')
    })

    for (const protocol of ['tcp', 'udp', 'sctp'] as const)
      describe(protocol, { ...NEEDS_OF[protocol], concurrency: true }, () => {
        for (const kind of KINDS)
          for (const [from, expected] of ROWS[kind === 'ClusterIP' ? 'ClusterIP' : 'external'])
            it(`${kind} from ${from}`, () =>
              inBothFamilies(async (family) => {
                for (const policy of POLICIES) {
                  const found = await answers(from, frontend(NUMBER[policy], kind, family, protocol), expected[policy])
                  assert.equal(found, expected[policy], `${family}, policy ${policy}`)
                  predictions.only(from, frontend(NUMBER[policy], kind, family, protocol), expected[policy].split(', '))
                }
              }))
        for (const kind of KINDS)
          for (const [from, expected] of [
            ['client', /^node own$/],
            ['b', /^node own$/],
            ['node', /^node (?:node|own)$/],
          ] as const)
            it(`${kind} from ${from} to a process of this node`, () =>
              inBothFamilies(async (family) => {
                assert.match(await cluster.ask(from, frontend(HOST, kind, family, protocol)), expected, family)
              }))
        it('NodePort at 127.0.0.1', async () => {
          const place = { ...frontend(NUMBER.Cluster, 'NodePort', 'IPv4', protocol), address: '127.0.0.1' }
          const found = await answers('node', place, 'a node, c node')
          assert.equal(found, 'a node, c node')
          predictions.only('node', place, found.split(', '))
        })
        for (const [ranges, from, kind, expected] of GUARDED)
          it(`source ranges of ${ranges}: ${kind} from ${from}`, () =>
            inBothFamilies(async (family) => {
              const found = await answers(from, frontend(NUMBER[ranges], kind, family, protocol), expected)
              assert.equal(found, expected, family)
            }))
      })
  })

/** Rules for addresses of Services in nat. */
function vipRules(backEnd: string, family: IpFamily): number {
  const program = `${family === 'IPv4' ? 'iptables' : 'ip6tables'}-${backEnd}-save`
  const lines = sh(`${program} -t nat`).split('\n')
  return lines.filter((line) => line.startsWith('-A KUBE-SERVICES -d ')).length
}
