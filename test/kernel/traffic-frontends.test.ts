/**
 * Which endpoint answers at a frontend of each kind, and which client the endpoint sees: the client's own address and port,
 * or the node's. Connections alternate between endpoints only while nothing else connects to the same frontend. What `explain`
 * predicts is compared with each answer.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Cluster, type From, NODE, POD_PORT } from '../support/cluster.ts'
import { type Workbench } from '../support/daemon.ts'
import { eventually } from '../support/deadline.ts'
import { sh } from '../support/programs.ts'
import {
  bothFamilies,
  everyKind,
  frontend,
  inBothFamilies,
  KINDS,
  NEEDS_OF,
  PROTOCOLS,
  settled,
} from '../support/every-kind.ts'
import { Predictions } from '../support/predictions.ts'
import { needs } from './needs.ts'

/** Service 1 has policy Cluster, Service 2 Local. Pods a and b are on this node, c is on another. The endpoint of Service 3 is this node. */
const SERVICES = { Cluster: 1, Local: 2 } as const
const POLICIES = ['Cluster', 'Local'] as const
const HOST = 3

/**
 * Service traffic from outside is masqueraded unless an external policy Local keeps the client's address; a pod's traffic
 * to a ClusterIP is not, except to itself.
 */
const ROWS: Readonly<Record<'ClusterIP' | 'external', readonly [From, Record<(typeof POLICIES)[number], string>][]>> = {
  ClusterIP: [
    ['client', { Cluster: 'a node, c node', Local: 'a node' }],
    ['other', { Cluster: 'a node, c node', Local: 'a node' }],
    ['node', { Cluster: 'a node, c node', Local: 'a node' }],
    ['b', { Cluster: 'a own, c own', Local: 'a own' }],
    ['a', { Cluster: 'a node, c own', Local: 'a node' }],
  ],
  external: [
    ['client', { Cluster: 'a node, c node', Local: 'a own' }],
    ['other', { Cluster: 'a node, c node', Local: 'a own' }],
    ['node', { Cluster: 'a node, c node', Local: 'a own' }],
    ['b', { Cluster: 'a node, c node', Local: 'a own' }],
    ['a', { Cluster: 'a node, c node', Local: 'a node' }],
  ],
}

let cluster: Cluster
before(() => {
  cluster = Cluster.start(PROTOCOLS)
  for (const protocol of PROTOCOLS)
    for (const address of Object.values(NODE)) cluster.serve('node', { protocol, address, port: POD_PORT })
})
after(() => cluster.stop())

for (const [backEnd, need, virtualAddresses] of [
  ['nft', 'iptables-nft', 'addresses'],
  ['nft', 'iptables-nft', 'routes'],
  ['legacy', 'legacy-iptables', 'addresses'],
] as const)
  describe(`with rules in ${backEnd} and virtual IPs as ${virtualAddresses}`, needs(need), () => {
    let bench: Workbench
    let predictions: Predictions
    before(async () => {
      // A node may forward nothing but what its rules accept.
      sh(`iptables-${backEnd} -t mangle -N KUBE-IPTABLES-HINT
        iptables-${backEnd} -P FORWARD DROP; ip6tables-${backEnd} -P FORWARD DROP`)
      bench = bothFamilies({}, undefined, virtualAddresses)
      for (const policy of POLICIES) {
        const policies = { internalTrafficPolicy: policy, externalTrafficPolicy: policy }
        bench.write(`${policy}.yaml`, ...everyKind(SERVICES[policy], ['a', 'c'], policies))
      }
      bench.write('host.yaml', ...everyKind(HOST, ['node']))
      bench.start()
      await settled(3, undefined, virtualAddresses)
      await eventually(() => assert.match(bench.log, new RegExp(`backEnd="${backEnd}"`)))
      predictions = new Predictions()
      cluster.comparison = predictions
    })
    after(async () => {
      cluster.comparison = undefined
      await predictions.check()
      await bench.close()
      sh(`ipvsadm -C; ip link delete kube-ipvs0; nft flush ruleset; conntrack -F 2>/dev/null`)
    })

    for (const protocol of ['tcp', 'udp', 'sctp'] as const)
      describe(protocol, NEEDS_OF[protocol], () => {
        for (const kind of KINDS)
          for (const [from, seen] of [
            ['client', /^node own$/],
            ['b', /^node own$/],
            ['node', /^node (?:node|own)$/],
          ] as const)
            it(`${kind} from ${from} to a process of this node, which is not masqueraded on arrival`, () =>
              inBothFamilies(async (family) => {
                assert.match(await cluster.ask(from, frontend(HOST, kind, family, protocol)), seen, family)
              }))
        for (const kind of KINDS)
          for (const [from, expected] of ROWS[kind === 'ClusterIP' ? 'ClusterIP' : 'external'])
            it(`${kind} from ${from}`, () =>
              inBothFamilies(async (family) => {
                for (const policy of POLICIES) {
                  const place = frontend(SERVICES[policy], kind, family, protocol)
                  const outcomes = new Set(await cluster.askInTurn(from, place, 4))
                  assert.equal([...outcomes].sort().join(', '), expected[policy], `${family}, policy ${policy}`)
                  predictions.only(from, place, expected[policy].split(', '))
                }
              }))
      })
  })
