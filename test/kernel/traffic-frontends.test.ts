/**
 * Which endpoint answers at a frontend of each kind, and which client the endpoint sees: the
 * client's own address and port, or the node's. In both modes, with both back ends of iptables;
 * what `explain` predicts is compared with each answer. In iptables mode endpoints are chosen at
 * random, so a client repeats its request until every expected endpoint has answered; virtual
 * servers take turns, while nothing else connects to the same frontend.
 * @also-bare
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { firewallOfRun } from '../../dev/testing/firewalls.ts'
import type { IpFamily } from '../../src/values/protocol.ts'
import { isBareGuest } from '../support/bare-guest.ts'
import { ADDRESSES, type Addresses, Cluster, type From, NODE, POD_PORT, REFUSAL_MS } from '../support/cluster.ts'
import { type Workbench } from '../support/daemon.ts'
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
  settled,
} from '../support/every-kind.ts'
import { rulesText } from '../support/kernel-state.ts'
import type { Place } from '../support/net-namespace.ts'
import { Predictions } from '../support/predictions.ts'
import { sh } from '../support/programs.ts'
import { needs } from './needs.ts'

const POLICIES = ['Cluster', 'Local'] as const
type Policy = (typeof POLICIES)[number]
type Mode = 'ipvs' | 'iptables'

/**
 * The numbers of the Services. Pods a and b are on this node, c is on another. Those named after a
 * policy have pods a and c; `host` is answered by this node itself; the others have pod a, and
 * source ranges for one client or for this node, in iptables mode (traffic-source-ranges.test.ts
 * has ipvs mode).
 */
const NUMBER = {
  Cluster: 1,
  Local: 2,
  host: 3,
  'one client': 4,
  'this node': 5,
  'one client, VIPs in both roles': 6,
} as const
const single = ({ IPv4, IPv6 }: Addresses): string[] => [`${IPv4}/32`, `${IPv6}/128`]
const RANGES = {
  'one client': single(ADDRESSES.client),
  'this node': single(NODE),
  'one client, VIPs in both roles': single(ADDRESSES.client),
} as const
/** The VIPs of Service 6 are external IPs too. */
const BOTH_ROLES = { externalIPs: ['192.0.2.6', 'fd00:192::6', '198.51.100.6', 'fd00:198::6'] }

const BOTH = 'a node, c node'
/**
 * Service traffic from outside is masqueraded unless an external policy Local keeps the client's
 * address; a pod's traffic to a ClusterIP is not, except to itself. In iptables mode pods and the
 * node itself reach every endpoint of an external address with policy Local; virtual servers know
 * no clients.
 */
const ROWS: readonly (readonly [
  to: 'ClusterIP' | 'external',
  from: From,
  cluster: string,
  local: string | Readonly<Record<Mode, string>>,
])[] = [
  ['ClusterIP', 'client', BOTH, 'a node'],
  ['ClusterIP', 'other', BOTH, 'a node'],
  ['ClusterIP', 'node', BOTH, 'a node'],
  ['ClusterIP', 'b', 'a own, c own', 'a own'],
  ['ClusterIP', 'a', 'a node, c own', 'a node'],
  ['external', 'client', BOTH, 'a own'],
  ['external', 'other', BOTH, 'a own'],
  ['external', 'node', BOTH, { ipvs: 'a own', iptables: BOTH }],
  ['external', 'b', BOTH, { ipvs: 'a own', iptables: 'a own, c own' }],
  ['external', 'a', BOTH, { ipvs: 'a node', iptables: 'a node, c own' }],
]
/** To a process of this node, which is not masqueraded on arrival. */
const HOST_ROWS = [
  ['client', /^node own$/],
  ['b', /^node own$/],
  ['node', /^node (?:node|own)$/],
] as const
const GUARDED: readonly [ranges: keyof typeof RANGES, from: From, kind: Kind, expected: string][] = [
  ['one client', 'client', 'LoadBalancer', 'a node'],
  ['one client', 'other', 'LoadBalancer', 'nothing'],
  ['one client', 'b', 'LoadBalancer', 'nothing'],
  ['one client', 'node', 'LoadBalancer', 'nothing'],
  ['one client', 'other', 'ClusterIP', 'a node'],
  ['one client', 'other', 'NodePort', 'a node'],
  ['this node', 'node', 'LoadBalancer', 'a node'],
  ['this node', 'client', 'LoadBalancer', 'nothing'],
  ['one client, VIPs in both roles', 'client', 'LoadBalancer', 'a node'],
  ['one client, VIPs in both roles', 'other', 'LoadBalancer', 'nothing'],
  ['one client, VIPs in both roles', 'other', 'ExternalIP', 'a node'],
]

/** The firewall that the runner wants for ipvs mode; undefined: the usual one, of iptables. */
const FIREWALL = firewallOfRun()
/** In ipvs mode the last is how virtual IPs are local. */
const SETUPS = (
  [
    ['ipvs', 'nft', 'iptables-nft', 'addresses'],
    ['ipvs', 'nft', 'iptables-nft', 'routes'],
    ['ipvs', 'legacy', 'legacy-iptables', 'addresses'],
    ['iptables', 'nft', 'iptables-nft', undefined],
    ['iptables', 'legacy', 'legacy-iptables', undefined],
  ] as const
).filter(([mode, backEnd]) => FIREWALL === undefined || (mode === 'ipvs' && backEnd === 'nft'))
/** What kubelet leaves in the back end that it uses. A node may forward nothing but what rules of iptables accept. */
const nodeOf = (mode: Mode, backEnd: string): string => {
  const forward = mode === 'ipvs' && FIREWALL === undefined ? 'DROP' : 'ACCEPT'
  return `iptables-${backEnd} -t mangle -N KUBE-IPTABLES-HINT
    iptables-${backEnd} -P FORWARD ${forward}; ip6tables-${backEnd} -P FORWARD ${forward}`
}
const noNodeOf = (
  backEnd: string,
): string => `iptables-${backEnd} -P FORWARD ACCEPT; ip6tables-${backEnd} -P FORWARD ACCEPT
  iptables-${backEnd} -t mangle -X KUBE-IPTABLES-HINT`

let cluster: Cluster
before(() => {
  cluster = Cluster.start(PROTOCOLS)
  for (const protocol of PROTOCOLS)
    for (const address of Object.values(NODE)) cluster.serve('node', { protocol, address, port: POD_PORT })
  // The node itself needs a route to an address before a rule of iptables mode can send it elsewhere.
  sh(`ip route replace default via ${ADDRESSES.client.IPv4}; ip -6 route replace default via ${ADDRESSES.client.IPv6}`)
})
after(() => cluster.stop())

for (const [mode, backEnd, need, virtualAddresses] of SETUPS)
  describe(
    `${mode} mode with rules in ${backEnd}${virtualAddresses === undefined ? '' : ` and virtual IPs as ${virtualAddresses}`}`,
    needs(FIREWALL === undefined ? need : 'nft'),
    () => {
      let bench: Workbench
      let predictions: Predictions
      before(async () => {
        if (!isBareGuest) sh(nodeOf(mode, backEnd))
        const clusterCIDR = '10.244.0.0/16,fd00:10:244::/47'
        bench = bothFamilies(
          {},
          { clusterCIDR, mode, iptables: { minSyncPeriod: '0s', syncPeriod: '1s' } },
          virtualAddresses,
        )
        for (const policy of POLICIES) {
          const policies = { internalTrafficPolicy: policy, externalTrafficPolicy: policy }
          bench.write(`${policy}.yaml`, ...everyKind(NUMBER[policy], ['a', 'c'], policies))
        }
        bench.write('host.yaml', ...everyKind(NUMBER.host, ['node']))
        if (mode === 'iptables')
          for (const [name, loadBalancerSourceRanges] of Object.entries(RANGES))
            bench.write(
              `${name}.yaml`,
              ...everyKind(NUMBER[name as keyof typeof RANGES], ['a'], {
                loadBalancerSourceRanges,
                ...(name.endsWith('both roles') ? BOTH_ROLES : {}),
              }),
            )
        bench.start()
        if (mode === 'ipvs') await settled(3, undefined, virtualAddresses)
        else
          await eventually(() => {
            for (const family of FAMILIES) assert.equal(vipRules(backEnd, family), 6 * PROTOCOLS.length * 3, bench.log)
          })
        const isRight = new RegExp(FIREWALL === undefined ? `backEnd="${backEnd}"` : `firewall="${FIREWALL}"`)
        await eventually(() => assert.match(bench.log, isRight))
        predictions = new Predictions()
        cluster.comparison = predictions
      })
      after(async () => {
        cluster.comparison = undefined
        await predictions.check()
        await bench.close()
        assert.equal((await bench.run('cleanup')).code, 0)
        if (!isBareGuest) sh(noNodeOf(backEnd))
        sh('conntrack -F 2>/dev/null')
      })

      const answers = mode === 'ipvs' ? answersInTurn : answersAtRandom
      // Clients of iptables mode do not disturb each other.
      for (const protocol of ['tcp', 'udp', 'sctp'] as const)
        describe(protocol, { ...NEEDS_OF[protocol], concurrency: mode === 'iptables' }, () => {
          for (const kind of KINDS)
            for (const [from, seen] of HOST_ROWS)
              it(`${kind} from ${from} to a process of this node`, () =>
                inBothFamilies(async (family) => {
                  assert.match(await cluster.ask(from, frontend(NUMBER.host, kind, family, protocol)), seen, family)
                }))
          for (const kind of KINDS)
            for (const [to, from, ofCluster, local] of ROWS) {
              if (to !== (kind === 'ClusterIP' ? 'ClusterIP' : 'external')) continue
              const expected: Record<Policy, string> = {
                Cluster: ofCluster,
                Local: typeof local === 'string' ? local : local[mode],
              }
              it(`${kind} from ${from}`, () =>
                inBothFamilies(async (family) => {
                  for (const policy of POLICIES) {
                    const place = frontend(NUMBER[policy], kind, family, protocol)
                    const found = await answers(from, place, expected[policy])
                    assert.equal(found, expected[policy], `${family}, policy ${policy}`)
                    predictions.only(from, place, expected[policy].split(', '))
                  }
                }))
            }
          if (mode !== 'iptables') return
          it('NodePort at 127.0.0.1', async () => {
            const place = { ...frontend(NUMBER.Cluster, 'NodePort', 'IPv4', protocol), address: '127.0.0.1' }
            const found = await answers('node', place, BOTH)
            assert.equal(found, BOTH)
            predictions.only('node', place, found.split(', '))
          })
          for (const [ranges, from, kind, expected] of GUARDED)
            it(`source ranges of ${ranges}: ${kind} from ${from}`, () =>
              inBothFamilies(async (family) => {
                const found = await answers(from, frontend(NUMBER[ranges], kind, family, protocol), expected)
                assert.equal(found, expected, family)
              }))
        })
    },
  )

/** The different outcomes of four requests, sorted: round robin gives both of two endpoints its turn. */
async function answersInTurn(from: From, place: Place): Promise<string> {
  return [...new Set(await cluster.askInTurn(from, place, 4))].sort().join(', ')
}

/** The chance that a wrong choice shows in none of these is one in a million. */
const MOST_QUESTIONS = 40

/** Sends requests until all expected answers have arrived, or an unexpected one. */
async function answersAtRandom(from: From, place: Place, expected: string): Promise<string> {
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

/** Rules for addresses of Services in nat. */
function vipRules(backEnd: string, family: IpFamily): number {
  const program = `${family === 'IPv4' ? 'iptables' : 'ip6tables'}-${backEnd}-save`
  const lines = rulesText(`${program} -t nat`).split('\n')
  return lines.filter((line) => line.startsWith('-A KUBE-SERVICES -d ')).length
}
