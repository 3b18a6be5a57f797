/** The view of the node that frontends are made from, and what is wrong with it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NodeState } from '../../src/service/node-state.ts'
import type { Node, Service } from '../../src/service/objects.ts'
import { service, servicePort } from '../support/objects.ts'
import { formatProblem } from '../../src/values/errors.ts'
import type { IpFamily } from '../../src/values/protocol.ts'

const NODE: Node = {
  name: 'node0',
  zone: '',
  addresses: ['192.168.1.2'],
  podCidrs: [],
  taintKeys: [],
  deleting: false,
  labels: {},
}
const CLUSTER_IPS = { IPv4: '10.96.0.1', IPv6: 'fd00:96::1' } as const

function withPort(families: readonly IpFamily[], nodePort: number): Service {
  const clusterIps = Object.fromEntries(families.map((family) => [family, CLUSTER_IPS[family]]))
  return service({ clusterIps, ports: [servicePort({ port: 80, nodePort })] })
}

test('a node without an IPv6 address has a problem with primary only while a Service has an IPv6 node port', () => {
  const settings = { nodeName: 'node0', bindAddress: '' }
  const state = new NodeState({ ...settings, nodePortAddresses: () => ['primary'] })
  const problems = (): readonly string[] => state.context().problems.map(formatProblem)
  state.setNode(NODE)
  assert.deepEqual(problems(), [], 'no Service')
  // Each row: what is set, whether problems may have changed, and whether there is one.
  const rows: readonly [key: string, value: Service | undefined, isChanged: boolean, isProblem: boolean][] = [
    ['demo/a', withPort(['IPv4', 'IPv6'], 0), false, false],
    ['demo/b', withPort(['IPv4'], 30_080), true, false],
    ['demo/c', withPort(['IPv4', 'IPv6'], 30_081), true, true],
    ['demo/d', withPort(['IPv6'], 30_082), false, true],
    ['demo/c', undefined, false, true],
    ['demo/d', withPort(['IPv6'], 0), true, false],
    ['demo/unknown', undefined, false, false],
  ]
  for (const [key, value, isChanged, isProblem] of rows) {
    assert.equal(state.setService(key, value), isChanged, key)
    const text =
      'configuration: nodePortAddresses: no IPv6 address of this node is known, so IPv6 node ports of Services answer nowhere'
    assert.deepEqual(problems(), isProblem ? [text] : [], key)
  }
})

test('a Node that is gone or lists no address keeps its addresses, and one that lists others has those', () => {
  const state = new NodeState({ nodeName: 'node0', bindAddress: '', nodePortAddresses: () => ['primary'] })
  state.setAddresses([
    { interfaceName: 'eth0', address: '192.168.1.2' },
    { interfaceName: 'eth0', address: 'fd00::2' },
  ])
  const rows: readonly (readonly [node: Node | undefined, IPv4: readonly string[], IPv6: readonly string[]])[] = [
    [{ ...NODE, addresses: [] }, [], []],
    [{ ...NODE, addresses: ['192.168.1.2', 'fd00::2'] }, ['192.168.1.2'], ['fd00::2']],
    [undefined, ['192.168.1.2'], ['fd00::2']],
    [{ ...NODE, addresses: [], zone: 'b' }, ['192.168.1.2'], ['fd00::2']],
    [NODE, ['192.168.1.2'], []],
  ]
  for (const [node, IPv4, IPv6] of rows) {
    state.setNode(node)
    const { context } = state.context()
    assert.deepEqual(context.nodePortAddresses, { IPv4, IPv6 })
    assert.equal(context.zone, state.node?.zone)
  }
  assert.equal(state.node?.zone, '')
})

test('a Node that is registered again without podCIDRs keeps those that it had', () => {
  const state = new NodeState({ nodeName: 'node0', bindAddress: '', nodePortAddresses: () => [] })
  const known: readonly (readonly string[])[] = [[], ['10.244.0.0/24'], [], ['10.244.9.0/24']].map((podCidrs) => {
    state.setNode({ ...NODE, podCidrs })
    return state.node?.podCidrs ?? []
  })
  assert.deepEqual(known, [[], ['10.244.0.0/24'], ['10.244.0.0/24'], ['10.244.9.0/24']])
})

test('a Service with a node port changes nothing where primary is not configured', () => {
  const state = new NodeState({ nodeName: 'node0', bindAddress: '', nodePortAddresses: () => [] })
  assert.equal(state.setService('demo/a', withPort(['IPv4', 'IPv6'], 30_080)), false)
  assert.deepEqual(state.context().problems, [])
})
