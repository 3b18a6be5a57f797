/**
 * Which traffic to a ClusterIP is masqueraded, for each way to configure what is local: pod a sees
 * the client's own address and port, or the node's. Pods a and b are on this node, c and `other` on
 * another. Each row starts on what the daemon of the row before left, so neighbouring rows expect
 * different things. What `explain` predicts must be the same.
 */
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { Cluster, type From } from '../support/cluster.ts'
import { type Workbench } from '../support/daemon.ts'
import { eventually } from '../support/deadline.ts'
import { bothFamilies, everyKind, FAMILIES, frontend, settled, VIRTUAL_ADDRESSES } from '../support/every-kind.ts'
import { Predictions } from '../support/predictions.ts'

const PROTOCOLS = ['tcp', 'udp'] as const
const clusterCIDR = '10.244.0.0/16,fd00:10:244::/47'
const ROWS: readonly [string, Readonly<Record<string, unknown>>, Readonly<Partial<Record<From, 'own' | 'node'>>>][] = [
  ['ClusterCIDR', { clusterCIDR }, { client: 'node', other: 'node', node: 'node', b: 'own', c: 'own' }],
  ['NodeCIDR', { detectLocalMode: 'NodeCIDR' }, { client: 'node', other: 'node', node: 'node', b: 'own', c: 'node' }],
  ['no detector', {}, { client: 'own', other: 'own', node: 'node', b: 'own', c: 'own' }],
  [
    'InterfaceNamePrefix',
    { detectLocalMode: 'InterfaceNamePrefix', detectLocal: { interfaceNamePrefix: 've-' } },
    { client: 'node', other: 'node', node: 'node', b: 'own', c: 'node' },
  ],
  [
    'BridgeInterface, the link of the wrong pod',
    { detectLocalMode: 'BridgeInterface', detectLocal: { bridgeInterface: 've-a' } },
    { client: 'node', other: 'node', node: 'node', b: 'node', c: 'node' },
  ],
  [
    'BridgeInterface',
    { detectLocalMode: 'BridgeInterface', detectLocal: { bridgeInterface: 've-b' } },
    { client: 'node', other: 'node', node: 'node', b: 'own', c: 'node' },
  ],
  [
    'masqueradeAll',
    { clusterCIDR, iptables: { masqueradeAll: true } },
    { client: 'node', other: 'node', node: 'node', b: 'node', c: 'node' },
  ],
  [
    'masqueradeBit',
    { clusterCIDR, iptables: { masqueradeBit: 5 } },
    { client: 'node', other: 'node', node: 'node', b: 'own', c: 'own' },
  ],
]

describe('masquerading', () => {
  let cluster: Cluster
  let bench: Workbench
  before(() => {
    cluster = Cluster.start()
  })
  afterEach(() => bench.close())
  after(() => cluster.stop())

  for (const virtualAddresses of VIRTUAL_ADDRESSES)
    for (const [name, configuration, byAddresses] of ROWS)
      it(`by ${name}, virtual IPs as ${virtualAddresses}`, async () => {
        // With routes the node uses its own address, so that its traffic needs masquerading only where all has it.
        const nodeNeedsNone = virtualAddresses === 'routes' && byAddresses.client === 'own'
        const expected = nodeNeedsNone ? { ...byAddresses, node: 'own' } : byAddresses
        bench = bothFamilies({}, configuration, virtualAddresses)
        bench.write('web.yaml', ...everyKind(1, ['a']))
        bench.start()
        await settled(1, undefined, virtualAddresses)
        await eventually(async () => {
          for (const family of FAMILIES)
            for (const protocol of PROTOCOLS) {
              const place = frontend(1, 'ClusterIP', family, protocol)
              const seen: Partial<Record<From, string>> = {}
              for (const from of Object.keys(expected) as From[]) seen[from] = await cluster.ask(from, place)
              const wanted = Object.fromEntries(Object.entries(expected).map(([from, source]) => [from, `a ${source}`]))
              assert.deepEqual(seen, wanted, `${family} ${protocol}`)
            }
        })
        const predictions = new Predictions()
        for (const family of FAMILIES)
          for (const protocol of PROTOCOLS)
            for (const [from, source] of Object.entries(expected) as [From, string][])
              predictions.only(from, frontend(1, 'ClusterIP', family, protocol), [`a ${source}`])
        await predictions.check()
      })
})
