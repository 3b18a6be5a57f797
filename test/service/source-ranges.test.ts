/** Which VIPs the source ranges of a Service guard, and which problems are reported. */
import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import { type NodeContext, READS_NODE_IPS } from '../../src/service/node-context.ts'
import type { Service } from '../../src/service/objects.ts'
import { rangesInForce, sameSourceRanges } from '../../src/service/source-ranges.ts'
import { formatCidr, parseCidrs } from '../../src/values/cidr.ts'
import { IP_FAMILIES } from '../../src/values/protocol.ts'
import { contributionOf } from '../support/contribution.ts'
import { service, servicePort } from '../support/objects.ts'

const NODE: NodeContext = {
  nodeName: 'node0',
  zone: '',
  nodeIps: { IPv4: '10.0.2.15', IPv6: 'fd00:10:0:2::15' },
  localAddresses: new Set(),
  nodePortAddresses: { IPv4: [], IPv6: [] },
}

function withRanges(sourceRanges: readonly string[]): Service {
  return service({
    clusterIps: { IPv4: '10.96.10.1', IPv6: 'fd00:10:96::1' },
    ports: [servicePort({ name: 'http', port: 80, nodePort: 30080 })],
    externalIps: ['198.51.100.7'],
    loadBalancerVips: ['203.0.113.10', '2001:db8:cb::10'],
    sourceRanges,
  })
}

describe('rangesInForce', () => {
  it('does not allow the node when no range of the family contains its IP', () => {
    const rows: readonly (readonly [
      ranges: readonly string[],
      IPv4: boolean | undefined,
      IPv6: boolean | undefined,
    ])[] = [
      [[], undefined, undefined],
      [['192.0.2.0/24'], false, undefined],
      [['10.0.0.0/8'], true, undefined],
      [['192.0.2.0/24', '10.0.2.15/32'], true, undefined],
      [['192.0.2.0/24', '0.0.0.0/0'], undefined, undefined],
      [['192.0.2.0/24', '::/0'], false, undefined],
      [['2001:db8::/32'], undefined, false],
      [['fd00:10:0:2::/64', '192.0.2.0/24'], false, true],
    ]
    for (const [ranges, ipv4, ipv6] of rows)
      assert.deepEqual(
        IP_FAMILIES.map((family) => rangesInForce(parseCidrs(ranges), family, NODE.nodeIps)?.allowsNode),
        [ipv4, ipv6],
        ranges.join(),
      )
    assert.equal(
      rangesInForce(parseCidrs(['10.0.0.0/8']), 'IPv4', {})?.allowsNode,
      false,
      'an unknown IP is in no range',
    )
  })

  it('has only the ranges of its family', () => {
    const firewall = rangesInForce(parseCidrs(['192.0.2.0/24', '2001:db8::/32', '198.51.100.5/32']), 'IPv4', {})
    assert.deepEqual(firewall?.ranges.map(formatCidr), ['192.0.2.0/24', '198.51.100.5/32'])
  })
})

test('sameSourceRanges compares ranges and whether the node may connect', () => {
  const of = (ranges: readonly string[], nodeIp = '10.0.2.15') =>
    rangesInForce(parseCidrs(ranges), 'IPv4', { IPv4: nodeIp })
  assert.ok(sameSourceRanges(undefined, undefined))
  assert.ok(sameSourceRanges(of(['10.0.0.0/8']), of(['10.0.0.0/8', '2001:db8::/32'])))
  assert.ok(!sameSourceRanges(of(['10.0.0.0/8']), of(['10.0.0.0/9'])))
  assert.ok(!sameSourceRanges(of(['10.0.0.0/8']), of(['10.0.0.0/8'], '192.0.2.1')))
  assert.ok(!sameSourceRanges(of(['10.0.0.0/8']), undefined))
})

test('frontendsOf guards only VIPs, and reads the node IPs only for them', () => {
  const { frontends, reads } = contributionOf(withRanges(['192.0.2.0/24']), [], NODE)
  const guarded = [...frontends.values()].filter(({ firewall }) => firewall !== undefined)
  assert.deepEqual(
    guarded.map(({ roles, servicePort }) => `${roles.join('+')} ${servicePort.family}`),
    ['LoadBalancerVip IPv4'],
  )
  assert.notEqual(reads & READS_NODE_IPS, 0)
  assert.equal(contributionOf(withRanges([]), [], NODE).reads & READS_NODE_IPS, 0)
})

describe('sourceRangeProblems', () => {
  it('reports a zero range of each family once', () => {
    const { problems } = contributionOf(withRanges(['0.0.0.0/0', '192.0.2.0/24', '::/0', '2001:db8::/32']), [], NODE)
    assert.deepEqual(
      problems.map(({ code, subject, message }) => [code, subject, message]),
      [
        ['IPv4', '0.0.0.0/0'],
        ['IPv6', '::/0'],
      ].map(([family, range]) => [
        'source-ranges-off',
        'service demo/web',
        `${range} permits every source, so no ${family} range of this Service is enforced`,
      ]),
    )
    assert.deepEqual(contributionOf(withRanges(['192.0.2.0/24']), [], NODE).problems, [])
  })
})
