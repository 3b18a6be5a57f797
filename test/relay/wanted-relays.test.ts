/**
 * Which node ports are relayed, and to which endpoints. The tests pass Services through
 * DesiredFrontends, so WantedRelays gets the same calls as in the daemon.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type RelayChange, WantedRelays } from '../../src/relay/wanted-relays.ts'
import { AnnotationReader, annotationsText } from '../../src/service/annotations.ts'
import type { NodeContext } from '../../src/service/node-context.ts'
import type { Service, SliceEndpoint } from '../../src/service/objects.ts'
import { DesiredFrontends } from '../../src/sync/desired-frontends.ts'
import { IP_FAMILIES, type IpFamily } from '../../src/values/protocol.ts'
import { endpoint, service, servicePort, slice } from '../support/objects.ts'

/** Node ports have an address, and none with `nodePortAddresses: [localhost]`. */
const NODE: NodeContext = {
  nodeName: 'node0',
  zone: 'a',
  nodeIps: { IPv4: '10.0.2.15' },
  localAddresses: new Set(['10.0.2.15']),
  nodePortAddresses: { IPv4: ['10.0.2.15'], IPv6: [] },
}
const WITHOUT_NODE_PORTS: NodeContext = { ...NODE, nodePortAddresses: { IPv4: [], IPv6: [] } }

const web = (change: Partial<Service> = {}): Service =>
  service({
    createdAtMs: 1000,
    clusterIps: { IPv4: '10.96.10.1' },
    ports: [servicePort({ name: 'http', port: 80, nodePort: 30080 })],
    ...change,
  })

const here = (address: string, change: Partial<SliceEndpoint> = {}): SliceEndpoint =>
  endpoint({ address, nodeName: 'node0', ...change })
const there = (address: string, change: Partial<SliceEndpoint> = {}): SliceEndpoint =>
  endpoint({ address, nodeName: 'node1', ...change })

/** `IPv4 30080 demo/web 10.1.0.1:8080`, with weights and affinity if there are any, or `IPv4 30080 gone` */
function text({ key, port }: RelayChange): string {
  if (port === undefined) return `${key} gone`
  const endpoints = port.endpoints.map(({ address, port: number }, index) => {
    const weight = port.weights?.[index]
    return ` ${address}:${number}${weight === undefined ? '' : `=${weight}`}`
  })
  return `${key} ${port.namespace}/${port.name}${endpoints.join('')}${port.affinityMs === 0 ? '' : ` ${port.affinityMs} ms`}`
}

function newWorld(node = NODE, families: readonly IpFamily[] = IP_FAMILIES) {
  const desired = new DesiredFrontends(node, { annotations: new AnnotationReader('rr') })
  const wanted = new WantedRelays(families)
  const changes = (): string[] => {
    desired.flushAll({ frontend: wanted.frontend.bind(wanted), problems: () => {} })
    return wanted.changes().map(text).sort()
  }
  return {
    changes,
    put: (value: Service): string[] => {
      desired.apply({ kind: 'services', key: `${value.namespace}/${value.name}`, value })
      return changes()
    },
    remove: (key: string): string[] => {
      desired.apply({ kind: 'services', key, value: undefined })
      return changes()
    },
    endpoints: (...endpoints: readonly SliceEndpoint[]): string[] => {
      desired.apply({ kind: 'endpointslices', key: 'demo/web-1', value: slice({ endpoints }) })
      return changes()
    },
  }
}

describe('WantedRelays', () => {
  it('follows the endpoints of a node port, also where node ports have no other address', () => {
    for (const node of [NODE, WITHOUT_NODE_PORTS]) {
      const { put, endpoints, changes, remove } = newWorld(node)
      assert.deepEqual(put(web()), ['IPv4 30080 demo/web'])
      const two = 'IPv4 30080 demo/web 10.1.0.1:8080 10.2.0.1:8080'
      assert.deepEqual(endpoints(here('10.1.0.1'), there('10.2.0.1')), [two])
      assert.deepEqual(changes(), [])
      // What changes nothing for clients is no change.
      assert.deepEqual(endpoints(here('10.1.0.1'), there('10.2.0.1'), there('10.2.0.2', { ready: false })), [])
      assert.deepEqual(endpoints(there('10.2.0.1')), ['IPv4 30080 demo/web 10.2.0.1:8080'])
      assert.deepEqual(remove('demo/web'), ['IPv4 30080 gone'])
      assert.deepEqual(remove('demo/web'), [])
    }
  })

  it('wants TCP alone, ports with a node port alone, and each of them in each family', () => {
    const { put } = newWorld()
    const ports = [
      servicePort({ name: 'a', port: 80, nodePort: 30080 }),
      servicePort({ name: 'b', port: 81, nodePort: 30081, protocol: 'udp' }),
      servicePort({ name: 'c', port: 82, nodePort: 30082, protocol: 'sctp' }),
      servicePort({ name: 'd', port: 83 }),
      servicePort({ name: 'e', port: 84, nodePort: 30084 }),
    ]
    const clusterIps = { IPv4: '10.96.10.1', IPv6: 'fd00::1' }
    assert.deepEqual(put(web({ ports, clusterIps })), [
      'IPv4 30080 demo/web',
      'IPv4 30084 demo/web',
      'IPv6 30080 demo/web',
      'IPv6 30084 demo/web',
    ])
    const single = newWorld(NODE, ['IPv6'])
    assert.deepEqual(single.put(web({ ports, clusterIps })), ['IPv6 30080 demo/web', 'IPv6 30084 demo/web'])
  })

  it('follows a node port that changes, and one that goes', () => {
    const { put } = newWorld()
    put(web())
    const moved = web({ ports: [servicePort({ name: 'http', port: 80, nodePort: 30090 })] })
    assert.deepEqual(put(moved), ['IPv4 30080 gone', 'IPv4 30090 demo/web'])
    assert.deepEqual(put(web({ ports: [servicePort({ name: 'http', port: 80 })] })), ['IPv4 30090 gone'])
  })

  it('under external policy Local has the endpoints of this node, and no others when there are none', () => {
    const { put, endpoints } = newWorld()
    put(web({ externalTrafficPolicy: 'Local' }))
    assert.deepEqual(endpoints(here('10.1.0.1'), there('10.2.0.1')), ['IPv4 30080 demo/web 10.1.0.1:8080'])
    assert.deepEqual(endpoints(there('10.2.0.1')), ['IPv4 30080 demo/web'])
    // The other policy is that of the cluster IP.
    assert.deepEqual(put(web({ internalTrafficPolicy: 'Local' })), ['IPv4 30080 demo/web 10.2.0.1:8080'])
  })

  it('has terminating endpoints when no other one is left, and those of the zone where hints say so', () => {
    const { put, endpoints } = newWorld()
    put(web())
    const ending = { ready: false, serving: true, terminating: true }
    assert.deepEqual(endpoints(there('10.2.0.1', ending), there('10.2.0.2')), ['IPv4 30080 demo/web 10.2.0.2:8080'])
    assert.deepEqual(endpoints(there('10.2.0.1', ending)), ['IPv4 30080 demo/web 10.2.0.1:8080'])
    assert.deepEqual(endpoints(there('10.2.0.3', { zoneHints: ['a'] }), there('10.2.0.4', { zoneHints: ['b'] })), [
      'IPv4 30080 demo/web 10.2.0.3:8080',
    ])
  })

  it('has affinity, and the weights that the Service chooses', () => {
    const { put, endpoints } = newWorld()
    endpoints(here('10.1.0.1', { zone: 'a' }), there('10.2.0.1', { zone: 'b' }))
    assert.deepEqual(put(web({ affinityTimeoutSeconds: 60 })), [
      'IPv4 30080 demo/web 10.1.0.1:8080 10.2.0.1:8080 60000 ms',
    ])
    const weighted = (rules: string): Service =>
      web({
        annotations: annotationsText(
          new Map([
            ['kube-ipvs.io/scheduler', 'wrr'],
            ['kube-ipvs.io/weights', rules],
          ]),
        ),
      })
    assert.deepEqual(put(weighted('same-zone=9,other=2')), ['IPv4 30080 demo/web 10.1.0.1:8080=9 10.2.0.1:8080=2'])
    assert.deepEqual(endpoints(there('10.2.0.1', { zone: 'b' })), ['IPv4 30080 demo/web 10.2.0.1:8080=2'])
  })

  it('gives a node port that two Services claim to the older one', () => {
    const { put, remove } = newWorld()
    put(web())
    assert.deepEqual(put(web({ name: 'old', createdAtMs: 1, clusterIps: { IPv4: '10.96.10.2' } })), [
      'IPv4 30080 demo/old',
    ])
    assert.deepEqual(put(web({ name: 'new', createdAtMs: 2000, clusterIps: { IPv4: '10.96.10.3' } })), [])
    assert.deepEqual(remove('demo/old'), ['IPv4 30080 demo/web'])
  })

  it('has no port that is a health check port, whichever comes first', () => {
    const checks = (name: string): Service =>
      web({
        name,
        clusterIps: { IPv4: '10.96.10.9' },
        ports: [servicePort({ name: 'http', port: 80 })],
        loadBalancerVips: ['203.0.113.10'],
        externalTrafficPolicy: 'Local',
        healthCheckNodePort: 30080,
      })
    const { put, remove } = newWorld()
    assert.deepEqual(put(web()), ['IPv4 30080 demo/web'])
    assert.deepEqual(put(checks('lb')), ['IPv4 30080 gone'])
    assert.deepEqual(remove('demo/lb'), ['IPv4 30080 demo/web'])
    const other = newWorld()
    assert.deepEqual(other.put(checks('lb')), [])
    assert.deepEqual(other.put(web()), ['IPv4 30080 gone'])
    assert.deepEqual(other.remove('demo/lb'), ['IPv4 30080 demo/web'])
  })
})
