/**
 * The node's own addresses, the addresses at which node ports answer, and the node's IPs.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  healthCheckAddressesOf,
  type InterfaceAddress,
  localAddressesOf,
  localHealthChecksOf,
  nodePortAddressesOf,
  nodePortRangesOf,
} from '../../src/service/node-addresses.ts'
import {
  changedFields,
  type NodeContext,
  type NodeIps,
  nodeIpsOf,
  READS_LOCAL_ADDRESSES,
  READS_NODE_IPS,
  READS_NODE_PORT_ADDRESSES,
  READS_ZONE,
} from '../../src/service/node-context.ts'
import type { Node } from '../../src/service/objects.ts'
import { node } from '../support/objects.ts'

function on(interfaceName: string, ...addresses: string[]): InterfaceAddress[] {
  return addresses.map((address) => ({ interfaceName, address }))
}

const INTERFACES: readonly InterfaceAddress[] = [
  ...on('lo', '127.0.0.1', '::1', '192.0.2.53'),
  ...on('eth0', '192.168.1.2', 'fd00:1::2', 'fe80::1', '169.254.20.10'),
  ...on('docker0', '172.17.0.1'),
  ...on('kube-ipvs0', '10.96.0.1', 'fd00:10:96::1'),
]

const ALL4 = ['169.254.20.10', '172.17.0.1', '192.0.2.53', '192.168.1.2']
const ALL6 = ['fd00:1::2']
const IPS: NodeIps = { IPv4: '192.168.1.2', IPv6: 'fd00:1::2' }

test('localAddressesOf excludes kube-ipvs0, loopback and IPv6 link-local addresses', () => {
  assert.deepEqual([...localAddressesOf(INTERFACES)].sort(), [...ALL4, ...ALL6])
  const shared = localAddressesOf([...on('kube-ipvs0', '10.0.0.1'), ...on('eth0', '10.0.0.1')])
  assert.deepEqual([...shared], ['10.0.0.1'], 'one address on two interfaces is the node’s own')
})

test('nodePortAddressesOf returns the addresses that the configuration matches', () => {
  const rows: [
    title: string,
    configured: readonly string[],
    ips: NodeIps,
    ipv4: readonly string[],
    ipv6: readonly string[],
    /** Families without a primary address, then codes of problems. */
    reported: readonly string[],
  ][] = [
    ['nothing configured matches all', [], IPS, ALL4, ALL6, []],
    ['one CIDR', ['192.168.0.0/16'], IPS, ['192.168.1.2'], ALL6, []],
    ['only an IPv4 CIDR leaves IPv6 to match all', ['172.16.0.0/12'], IPS, ['172.17.0.1'], ALL6, []],
    ['only an IPv6 CIDR leaves IPv4 to match all', ['fd00:1::/64'], IPS, ALL4, ['fd00:1::2'], []],
    ['a zero CIDR matches all', ['0.0.0.0/0', '10.0.0.0/8', '::/0'], IPS, ALL4, ALL6, []],
    ['a CIDR that matches nothing', ['198.51.100.0/24'], IPS, [], ALL6, []],
    ['loopback never matches', ['127.0.0.0/8', '::1/128'], IPS, [], [], []],
    ['deviation 9: kube-ipvs0 never matches', ['10.96.0.0/12', 'fd00:10:96::/112'], IPS, [], [], []],
    ['deviation 9: not even under a wide CIDR', ['0.0.0.0/1', 'fc00::/7'], IPS, [], ALL6, []],
    ['host bits and leading zeros', ['192.168.01.77/24'], IPS, ['192.168.1.2'], ALL6, []],
    ['primary', ['primary'], IPS, ['192.168.1.2'], ['fd00:1::2'], []],
    [
      'deviation 25: primary without an IPv6 node IP',
      ['primary'],
      { IPv4: '192.168.1.2' },
      ['192.168.1.2'],
      [],
      ['IPv6'],
    ],
    ['deviation 25: primary while the node is unknown', ['primary'], {}, [], [], ['IPv4', 'IPv6']],
    ['primary with a loopback IP', ['primary'], { IPv4: '127.0.0.1', IPv6: 'fd00:1::2' }, [], ALL6, ['IPv4']],
    ['primary with an IP that no interface has', ['primary'], { IPv4: '192.0.2.1', IPv6: 'fd00:1::2' }, [], ALL6, []],
    ['all matches all', ['all', '10.0.0.0/8'], IPS, ALL4, ALL6, []],
    ['all counts where primary is unknown', ['primary', 'all'], {}, ALL4, ALL6, []],
    ['localhost matches nothing here', ['localhost'], IPS, [], [], []],
    ['primary and localhost', ['primary', 'localhost'], IPS, ['192.168.1.2'], ['fd00:1::2'], []],
    [
      'primary and localhost without an IPv6 node IP',
      ['localhost', 'primary'],
      { IPv4: '192.168.1.2' },
      ['192.168.1.2'],
      [],
      ['IPv6'],
    ],
    ['primary and a CIDR', ['primary', '172.16.0.0/12'], IPS, ['172.17.0.1', '192.168.1.2'], ['fd00:1::2'], []],
    ['a CIDR counts where primary is unknown', ['primary', '172.16.0.0/12', 'fd00::/8'], {}, ['172.17.0.1'], ALL6, []],
    ['what is no CIDR is reported', ['10.0.0.0/99', '172.17.0.0/16'], IPS, ['172.17.0.1'], ALL6, ['node-port-cidr']],
  ]
  for (const [title, configured, ips, ipv4, ipv6, reported] of rows) {
    for (const interfaces of [INTERFACES, INTERFACES.toReversed()]) {
      const { addresses, problems, withoutPrimary } = nodePortAddressesOf(configured, interfaces, ips)
      assert.deepEqual(addresses, { IPv4: ipv4, IPv6: ipv6 }, title)
      assert.deepEqual([...withoutPrimary, ...problems.map(({ code }) => code)], reported, title)
    }
  }
})

test('healthCheckAddressesOf returns the matching addresses, the unspecified address, or the node IP', () => {
  const rows: [title: string, configured: readonly string[], ips: NodeIps, ipv4: string, ipv6: string][] = [
    ['nothing configured: all addresses', [], IPS, '0.0.0.0', '::'],
    ['a zero CIDR: all addresses', ['0.0.0.0/0', '::/0', '192.168.0.0/16'], IPS, '0.0.0.0', '::'],
    ['only IPv4 CIDRs leave IPv6 at all', ['192.168.0.0/16', '172.16.0.0/12'], IPS, '172.17.0.1 192.168.1.2', '::'],
    ['only an IPv6 CIDR leaves IPv4 at all', ['fd00:1::/64'], IPS, '0.0.0.0', 'fd00:1::2'],
    ['loopback counts, once', ['127.0.0.0/8', '::1/128'], IPS, '127.0.0.1', '::1'],
    ['primary', ['primary'], IPS, '192.168.1.2', 'fd00:1::2'],
    ['primary without an IPv6 address', ['primary'], { IPv4: '192.168.1.2' }, '192.168.1.2', ''],
    ['primary and localhost', ['primary', 'localhost'], IPS, '127.0.0.1 192.168.1.2', '::1 fd00:1::2'],
    ['all', ['all', 'primary'], IPS, '0.0.0.0', '::'],
    ['deviation 24: nothing matches', ['198.51.100.0/24', '2001:db8::/64'], IPS, '192.168.1.2', 'fd00:1::2'],
    ['nothing matches, and the node IP is on no interface', ['198.51.100.0/24'], { IPv4: '203.0.113.9' }, '', '::'],
    ['kube-ipvs0 never matches', ['10.96.0.0/12', 'fd00:10:96::/112'], IPS, '192.168.1.2', 'fd00:1::2'],
    ['an IPv6 link-local address never matches', ['fe80::/10'], IPS, '0.0.0.0', 'fd00:1::2'],
  ]
  for (const [title, configured, ips, ipv4, ipv6] of rows) {
    const expected = { IPv4: ipv4.split(' ').filter(Boolean), IPv6: ipv6.split(' ').filter(Boolean) }
    assert.deepEqual(healthCheckAddressesOf(configured, INTERFACES, ips), expected, title)
    assert.deepEqual(healthCheckAddressesOf(configured, INTERFACES.toReversed(), ips), expected, title)
  }
})

test('localHealthChecksOf names the families in which nobody outside may ask for the health of a Service', () => {
  for (const [configured, ips, families] of [
    [[], IPS, []],
    [['localhost'], IPS, ['IPv4', 'IPv6']],
    [['127.0.0.0/8'], IPS, ['IPv4']],
    [['localhost', 'primary'], IPS, []],
    [['localhost', 'primary'], { IPv4: '192.168.1.2' }, ['IPv6']],
    [['localhost', 'all'], IPS, []],
    [['primary'], { IPv4: '192.168.1.2' }, []],
    // Nothing matches, and the port listens at the IP of the node.
    [['203.0.113.0/24'], IPS, []],
    [['203.0.113.0/24'], {}, ['IPv4']],
  ] as const) {
    assert.deepEqual(localHealthChecksOf(configured, INTERFACES, ips), families, configured.join())
  }
})

test('nodeIpsOf takes the first of each family, or bindAddress', () => {
  const at = (...addresses: string[]): Node => node({ addresses })
  const rows: [node: Node | undefined, bindAddress: string, expected: NodeIps][] = [
    [at('10.0.0.5', '10.0.0.6', 'fd00::5', '192.0.2.1'), '', { IPv4: '10.0.0.5', IPv6: 'fd00::5' }],
    [at('fd00::5', '10.0.0.5'), '0.0.0.0', { IPv4: '10.0.0.5', IPv6: 'fd00::5' }],
    [at('10.0.0.5'), '::', { IPv4: '10.0.0.5' }],
    [at('10.0.0.5', 'fd00::5'), '192.0.2.7', { IPv4: '192.0.2.7', IPv6: 'fd00::5' }],
    [at('10.0.0.5'), 'fd00::7', { IPv4: '10.0.0.5', IPv6: 'fd00::7' }],
    [undefined, '192.0.2.7', { IPv4: '192.0.2.7' }],
    [undefined, '', {}],
    // Go's parsers accept these spellings.
    [undefined, '010.0.0.15', { IPv4: '10.0.0.15' }],
    [node({ addresses: ['fd00::1'] }), '::0', { IPv6: 'fd00::1' }],
    [undefined, '0:0::0', {}],
  ]
  for (const [object, bindAddress, expected] of rows) assert.deepEqual(nodeIpsOf(object, bindAddress), expected)
})

test('changedFields names the fields whose content differs', () => {
  const context: NodeContext = {
    nodeName: 'node0',
    zone: 'a',
    nodeIps: IPS,
    localAddresses: new Set(['10.0.0.1', '10.0.0.2']),
    nodePortAddresses: { IPv4: ['10.0.0.1'], IPv6: [] },
  }
  const rows: [change: Partial<NodeContext>, expected: number][] = [
    [{}, 0],
    [{ localAddresses: new Set(['10.0.0.2', '10.0.0.1']), nodePortAddresses: { IPv4: ['10.0.0.1'], IPv6: [] } }, 0],
    [{ zone: undefined }, READS_ZONE],
    [{ nodeIps: { IPv4: '192.168.1.2' } }, READS_NODE_IPS],
    [{ localAddresses: new Set(['10.0.0.1', '10.0.0.3']) }, READS_LOCAL_ADDRESSES],
    [{ localAddresses: new Set(['10.0.0.1']) }, READS_LOCAL_ADDRESSES],
    [{ nodePortAddresses: { IPv4: ['10.0.0.1'], IPv6: ['::2'] } }, READS_NODE_PORT_ADDRESSES],
    [{ localHealthChecks: ['IPv6'] }, READS_NODE_PORT_ADDRESSES],
    [{ localHealthChecks: [] }, 0],
    [{ zone: 'b', nodePortAddresses: { IPv4: ['10.0.0.2'], IPv6: [] } }, READS_ZONE | READS_NODE_PORT_ADDRESSES],
  ]
  for (const [change, expected] of rows) assert.equal(changedFields(context, { ...context, ...change }), expected)
})

test('nodePortRangesOf includes loopback addresses that the configuration names', () => {
  const interfaces = [
    ...on('lo', '127.0.0.1', '::1'),
    ...on('eth0', '10.0.0.1', 'fd00::1'),
    ...on('kube-ipvs0', '10.96.0.1'),
  ]
  const all = { IPv4: ['10.0.0.1', '127.0.0.1'], IPv6: ['::1', 'fd00::1'] }
  const rows: [configured: string[], expected: ReturnType<typeof nodePortRangesOf>][] = [
    [[], { places: { IPv4: 'all', IPv6: 'all' }, addresses: all, includesLoopback: true }],
    [['0.0.0.0/0', '::/0'], { places: { IPv4: 'all', IPv6: 'all' }, addresses: all, includesLoopback: true }],
    [
      ['127.0.0.0/8'],
      {
        places: { IPv4: ['127.0.0.1'], IPv6: 'all' },
        addresses: { IPv4: ['127.0.0.1'], IPv6: all.IPv6 },
        includesLoopback: true,
      },
    ],
    [
      ['10.0.0.0/8', 'fd01::/16'],
      {
        places: { IPv4: ['10.0.0.1'], IPv6: [] },
        addresses: { IPv4: ['10.0.0.1'], IPv6: [] },
        includesLoopback: false,
      },
    ],
    [
      ['primary'],
      {
        places: { IPv4: ['10.0.0.1'], IPv6: [] },
        addresses: { IPv4: ['10.0.0.1'], IPv6: [] },
        includesLoopback: false,
      },
    ],
    [
      ['primary', 'localhost'],
      {
        places: { IPv4: ['10.0.0.1', '127.0.0.1'], IPv6: ['::1'] },
        addresses: { IPv4: ['10.0.0.1', '127.0.0.1'], IPv6: ['::1'] },
        includesLoopback: true,
      },
    ],
    [['localhost', 'all'], { places: { IPv4: 'all', IPv6: 'all' }, addresses: all, includesLoopback: true }],
  ]
  for (const [configured, expected] of rows)
    assert.deepEqual(nodePortRangesOf(configured, interfaces, { IPv4: '10.0.0.1' }), expected, configured.join())
})
