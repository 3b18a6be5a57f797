import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { NFT_FAMILY, nftKey } from '../../../../src/nftables/types.ts'
import { elementsOf, hairpinElements } from '../../../../src/modes/ipvs/nftables-firewall/elements.ts'
import { SET_NAMES } from '../../../../src/modes/ipvs/nftables-firewall/layout.ts'
import type { FrontendRole } from '../../../../src/service/frontends.ts'
import { parseCidr } from '../../../../src/values/cidr.ts'
import { type FrontendChange, frontendOf } from '../../../support/frontends.ts'
import { service } from '../../../support/objects.ts'

const LOCAL = service({ externalTrafficPolicy: 'Local' })
const CHECKED = service({ healthCheckNodePort: 32_000, externalTrafficPolicy: 'Local' })
const RANGE = parseCidr('192.0.2.0/24')
assert.ok(RANGE !== undefined)
const [CLOSED, OPEN] = [false, true].map((allowsNode) => ({ ranges: [RANGE], allowsNode }))

const of = (...roles: FrontendRole[]): FrontendChange => ({ roles, address: '203.0.113.1' })
const HERE = '203.0.113.1 . tcp . 80'
const VIP = 'virtual-ips 203.0.113.1'

interface Row {
  readonly name: string
  readonly change: FrontendChange
  readonly expected: readonly string[]
}
const ROWS: readonly Row[] = [
  { name: 'a cluster IP', change: of('ClusterIP'), expected: [`cluster-ips ${HERE}`, VIP] },
  {
    name: 'a cluster IP of a Service with external policy Local',
    change: { ...of('ClusterIP'), service: LOCAL },
    expected: [`cluster-ips ${HERE}`, VIP],
  },
  { name: 'a load-balancer address', change: of('LoadBalancerVip'), expected: [`external-ips ${HERE}`, VIP] },
  {
    name: 'a load-balancer address, policy Local',
    change: { ...of('LoadBalancerVip'), service: LOCAL },
    expected: [`external-ips-local ${HERE}`, VIP],
  },
  { name: 'an external IP', change: of('ExternalIP'), expected: [`external-ips ${HERE}`, VIP] },
  {
    name: 'an external IP, policy Local',
    change: { ...of('ExternalIP'), service: LOCAL },
    expected: [`external-ips-local ${HERE}`, VIP],
  },
  {
    name: 'both kinds of external address, policy Local',
    change: { ...of('LoadBalancerVip', 'ExternalIP'), service: LOCAL },
    expected: [`external-ips-local ${HERE}`, VIP],
  },
  {
    name: 'a cluster IP that is an external address too',
    change: of('ClusterIP', 'ExternalIP'),
    expected: [`external-ips ${HERE}`, VIP],
  },
  {
    name: 'a cluster IP that is an external address too, policy Local',
    change: { ...of('ClusterIP', 'LoadBalancerVip'), service: LOCAL },
    expected: [`cluster-ips ${HERE}`, VIP],
  },
  { name: 'a node port', change: { ...of('NodePort'), bind: false }, expected: [`node-ports ${HERE}`] },
  {
    name: 'a node port, policy Local',
    change: { ...of('NodePort'), bind: false, service: LOCAL },
    expected: [`node-ports-local ${HERE}`],
  },
  {
    name: 'a node port with the number of the port, at the cluster IP',
    change: of('ClusterIP', 'NodePort'),
    expected: [`external-ips ${HERE}`, VIP],
  },
  {
    name: 'a node port with the number of the port, at the cluster IP, policy Local',
    change: { ...of('ClusterIP', 'NodePort'), service: LOCAL },
    expected: [`cluster-ips ${HERE}`, VIP],
  },
  {
    name: 'an address of the node as load-balancer address',
    change: { ...of('LoadBalancerVip'), bind: false },
    expected: [`external-ips ${HERE}`],
  },
  {
    name: 'a health check node port',
    change: { ...of('LoadBalancerVip'), service: CHECKED },
    expected: [`external-ips-local ${HERE}`, 'health-check-ports tcp . 32000', VIP],
  },
  {
    name: 'source ranges without this node',
    change: { ...of('LoadBalancerVip'), firewall: CLOSED },
    expected: [`closed-to-node ${HERE}`, `external-ips ${HERE}`, VIP],
  },
  {
    name: 'source ranges with this node',
    change: { ...of('LoadBalancerVip'), firewall: OPEN },
    expected: [`external-ips ${HERE}`, VIP],
  },
]

describe('elements of a frontend', () => {
  for (const { name, change, expected } of ROWS)
    it(`${name}: in the sets that serve all its roles, in the order in which they may be added`, () => {
      const found = elementsOf(frontendOf(change)).map(({ set, value }) => `${set} ${value}`)
      assert.deepEqual(found, expected)
      const places = found.map((one) => SET_NAMES.findIndex((set) => one.startsWith(`${set} `)))
      assert.deepEqual(
        places,
        places.toSorted((a, b) => a - b),
      )
    })

  it('of IPv6 are in the table of IPv6', () => {
    const elements = elementsOf(frontendOf({ address: 'fd00:10:96::1', port: 53, servicePort: { protocol: 'udp' } }))
    assert.deepEqual(elements.map(nftKey), [
      'ip6 element cluster-ips fd00:10:96::1 . udp . 53',
      'ip6 element virtual-ips fd00:10:96::1',
    ])
    for (const { family } of elements) assert.equal(NFT_FAMILY[family], 'ip6')
  })

  it('hairpins are the endpoints on this node, one list for all frontends of a Service port', () => {
    const local = frontendOf({}, ['10.244.0.1', '10.244.0.2'])
    const hairpins = hairpinElements(local, 'node1')
    assert.deepEqual(
      hairpins.map(({ set, value }) => `${set} ${value}`),
      ['hairpins 10.244.0.1 . tcp . 8080 . 10.244.0.1', 'hairpins 10.244.0.2 . tcp . 8080 . 10.244.0.2'],
    )
    assert.equal(hairpinElements(local, 'node1'), hairpins)
    assert.deepEqual(hairpinElements(local, 'node0'), [])
  })
})
