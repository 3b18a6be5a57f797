/**
 * Source ranges of load balancers: a client outside them gets no answer and no refusal, wherever it
 * is; the Service's other frontends answer every client. Pods a and b are on this node; a answers.
 * `explain` must predict all of it.
 */
import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { after, before, describe, it } from 'node:test'
import { firewallOfRun } from '../../dev/testing/firewalls.ts'
import type { IpFamily } from '../../src/values/protocol.ts'
import { ADDRESSES, type Addresses, Cluster, clientAddress, type From, NODE, REFUSAL_MS } from '../support/cluster.ts'
import type { Workbench } from '../support/daemon.ts'
import {
  bothFamilies,
  everyKind,
  frontend,
  inBothFamilies,
  type Kind,
  NEEDS_OF,
  PROTOCOLS,
  settled,
  VIRTUAL_ADDRESSES,
} from '../support/every-kind.ts'
import { Predictions } from '../support/predictions.ts'

const single = ({ IPv4, IPv6 }: Addresses): string[] => [`${IPv4}/32`, `${IPv6}/128`]
/** Ranges by Service, next to its specification. 10.0.2.112 is in 10.0.2.112/29, and ::112 in ::110/124. */
const SERVICES: Readonly<Record<string, readonly [readonly string[], Readonly<Record<string, unknown>>?]>> = {
  'of one client': [single(ADDRESSES.client)],
  'of one client, policy Local': [single(ADDRESSES.client), { externalTrafficPolicy: 'Local' }],
  'of some clients': [['10.0.2.112/29', 'fd00:10:0:2::110/124']],
  'of one pod': [single(ADDRESSES.b)],
  'of this node': [single(NODE)],
  'of all clients': [['10.0.2.200/32', 'fd00:10:0:2::200/128', '0.0.0.0/0', '::/0']],
  'of IPv4 only': [['10.0.2.200/32']],
  'of other networks': [['203.0.113.0/24', 'fd00:203::/64']],
  // The ninth: its VIPs are external IPs too.
  'of one client, VIPs in both roles': [
    single(ADDRESSES.client),
    { externalIPs: ['192.0.2.9', 'fd00:192::9', '198.51.100.9', 'fd00:198::9'] },
  ],
}
const numberOf = (name: string): number => Object.keys(SERVICES).indexOf(name) + 1

/** One of the client's further addresses that is in the range of some clients. */
const SOME_CLIENT = clientAddress(11)
const NOTHING = { IPv4: 'nothing', IPv6: 'nothing' }
const MASQUERADED = { IPv4: 'a node', IPv6: 'a node' }
/** The nftables firewall drops what the node sends before IPVS sees it, so that a UDP socket gets an error: deviation 68. */
const IS_NODE_DROPPED_AT_ONCE = firewallOfRun() === 'nftables'
const OWN = { IPv4: 'a own', IPv6: 'a own' }
interface Row {
  readonly ranges: string
  readonly from: From
  /** Default: the client's. */
  readonly address?: Addresses
  /** Default: LoadBalancer. */
  readonly kind?: Kind
  readonly expected: Readonly<Record<IpFamily, string>>
}
const ROWS: readonly Row[] = [
  { ranges: 'of one client', from: 'client', expected: MASQUERADED },
  { ranges: 'of one client', from: 'client', address: SOME_CLIENT, expected: NOTHING },
  { ranges: 'of one client', from: 'other', expected: NOTHING },
  { ranges: 'of one client', from: 'b', expected: NOTHING },
  { ranges: 'of one client', from: 'a', expected: NOTHING },
  { ranges: 'of one client', from: 'node', expected: NOTHING },
  { ranges: 'of one client', from: 'other', kind: 'ClusterIP', expected: MASQUERADED },
  { ranges: 'of one client', from: 'other', kind: 'NodePort', expected: MASQUERADED },
  { ranges: 'of one client', from: 'other', kind: 'ExternalIP', expected: MASQUERADED },
  { ranges: 'of one client, policy Local', from: 'client', expected: OWN },
  { ranges: 'of one client, policy Local', from: 'other', expected: NOTHING },
  { ranges: 'of one client, policy Local', from: 'b', expected: NOTHING },
  { ranges: 'of one client, policy Local', from: 'node', expected: NOTHING },
  { ranges: 'of some clients', from: 'client', address: SOME_CLIENT, expected: MASQUERADED },
  { ranges: 'of some clients', from: 'client', expected: NOTHING },
  { ranges: 'of one pod', from: 'b', expected: MASQUERADED },
  { ranges: 'of one pod', from: 'a', expected: NOTHING },
  { ranges: 'of one pod', from: 'client', expected: NOTHING },
  { ranges: 'of one pod', from: 'node', expected: NOTHING },
  { ranges: 'of this node', from: 'node', expected: MASQUERADED },
  { ranges: 'of this node', from: 'client', expected: NOTHING },
  { ranges: 'of this node', from: 'b', expected: NOTHING },
  { ranges: 'of all clients', from: 'client', expected: MASQUERADED },
  { ranges: 'of all clients', from: 'other', expected: MASQUERADED },
  { ranges: 'of all clients', from: 'b', expected: MASQUERADED },
  { ranges: 'of all clients', from: 'node', expected: MASQUERADED },
  { ranges: 'of IPv4 only', from: 'client', expected: { IPv4: 'nothing', IPv6: 'a node' } },
  { ranges: 'of IPv4 only', from: 'node', expected: { IPv4: 'nothing', IPv6: 'a node' } },
  { ranges: 'of other networks', from: 'client', expected: NOTHING },
  { ranges: 'of other networks', from: 'node', expected: NOTHING },
  { ranges: 'of one client, VIPs in both roles', from: 'client', expected: MASQUERADED },
  { ranges: 'of one client, VIPs in both roles', from: 'other', expected: NOTHING },
  { ranges: 'of one client, VIPs in both roles', from: 'b', expected: NOTHING },
  { ranges: 'of one client, VIPs in both roles', from: 'node', expected: NOTHING },
  { ranges: 'of one client, VIPs in both roles', from: 'other', kind: 'ExternalIP', expected: MASQUERADED },
]

// One cluster, so that no client uses a port twice: the kernel remembers SCTP connections.
let cluster: Cluster
before(() => {
  cluster = Cluster.start(PROTOCOLS)
})
after(() => cluster.stop())

for (const virtualAddresses of VIRTUAL_ADDRESSES)
  describe(`source ranges to virtual IPs as ${virtualAddresses}`, { concurrency: 1000 }, () => {
    let bench: Workbench
    let daemon: ChildProcess
    const predictions = new Predictions()
    before(async () => {
      bench = bothFamilies({}, undefined, virtualAddresses)
      for (const [name, [loadBalancerSourceRanges, spec]] of Object.entries(SERVICES))
        bench.write(
          `${numberOf(name)}.yaml`,
          ...everyKind(numberOf(name), ['a'], { loadBalancerSourceRanges, ...spec }),
        )
      daemon = bench.start()
      await settled(Object.keys(SERVICES).length, undefined, virtualAddresses)
    })
    after(async () => {
      await predictions.check()
      // The next daemon begins with an empty kernel, or its requests would be answered by what this one left.
      await bench.stop(daemon)
      assert.equal((await bench.command('cleanup')).code, 0)
      await bench.close()
    })

    for (const protocol of ['tcp', 'udp', 'sctp'] as const)
      describe(protocol, NEEDS_OF[protocol], () => {
        for (const { ranges, from, address, kind = 'LoadBalancer', expected } of ROWS)
          it(`${ranges}: ${from} at ${address?.IPv4 ?? 'its own address'} asks ${kind}`, () =>
            inBothFamilies(async (family) => {
              const place = frontend(numberOf(ranges), kind, family, protocol)
              const source = address?.[family]
              const asked = { withinMs: REFUSAL_MS, ...(source === undefined ? {} : { address: source }) }
              const outcome = await cluster.ask(from, place, asked)
              const isRefusedAtOnce = IS_NODE_DROPPED_AT_ONCE && from === 'node' && protocol === 'udp'
              const lost = isRefusedAtOnce ? 'EPERM' : 'nothing'
              assert.equal(outcome, expected[family] === 'nothing' ? lost : expected[family], family)
              predictions.note(from, place, source, outcome)
              if (outcome === lost) predictions.only(from, place, [lost], source)
            }))
      })
  })
