/**
 * Services with a frontend of every kind, in both families and every protocol, numbered: Service 3
 * has 10.96.0.3, node port 30003, 192.0.2.3 and 198.51.100.3. The numbers are decimal digits in
 * IPv6 addresses too, so the highest is 99.
 */
import assert from 'node:assert/strict'
import type { IpFamily, Protocol } from '../../src/values/protocol.ts'
import { ADDRESSES, NODE, type Pod, POD_PORT } from './cluster.ts'
import { Workbench } from './daemon.ts'
import { type Manifest, node, service, slice } from './manifests.ts'
import { boundAddresses, localRoutes, virtualServers } from './kernel-state.ts'
import { needs } from '../kernel/needs.ts'
import type { Place } from './net-namespace.ts'
import { eventually } from './deadline.ts'

export const KINDS = ['ClusterIP', 'NodePort', 'ExternalIP', 'LoadBalancer'] as const
export type Kind = (typeof KINDS)[number]
export const FAMILIES: readonly IpFamily[] = ['IPv4', 'IPv6']
/** Checks both families at the same time. */
export async function inBothFamilies(check: (family: IpFamily) => Promise<void>): Promise<void> {
  await Promise.all(FAMILIES.map(check))
}

/** Protocols with what a test of them needs. */
export const NEEDS_OF: Readonly<Record<Place['protocol'], ReturnType<typeof needs>>> = {
  ping: needs(),
  tcp: needs(),
  udp: needs(),
  sctp: needs('sctp', 'sctp-sockets'),
}
/** The protocols that this kernel supports. */
export const PROTOCOLS = (['tcp', 'udp', 'sctp'] as const).filter((protocol) => NEEDS_OF[protocol].skip === false)

const VIPS: Readonly<Record<Exclude<Kind, 'NodePort'>, Readonly<Record<IpFamily, string>>>> = {
  ClusterIP: { IPv4: '10.96.0.', IPv6: 'fd00:10:96::' },
  ExternalIP: { IPv4: '192.0.2.', IPv6: 'fd00:192::' },
  LoadBalancer: { IPv4: '198.51.100.', IPv6: 'fd00:198::' },
}

/** Values of kubeIPVS.virtualAddresses. */
export const VIRTUAL_ADDRESSES = ['addresses', 'routes'] as const
export type VirtualAddresses = (typeof VIRTUAL_ADDRESSES)[number]

/** A daemon's folder, with a Node that has both families; the pods' addresses are the cluster's. */
export function bothFamilies(
  ipvs: Readonly<Record<string, unknown>> = {},
  configuration: Readonly<Record<string, unknown>> = { clusterCIDR: '10.244.0.0/16,fd00:10:244::/47' },
  virtualAddresses: VirtualAddresses = 'addresses',
): Workbench {
  const bench = new Workbench(ipvs, { kubeIPVS: { virtualAddresses }, ...configuration })
  const spec = { podCIDRs: ['10.244.0.0/24', 'fd00:10:244::/64'] }
  bench.write(
    'node.yaml',
    node(
      FAMILIES.map((family) => NODE[family]),
      { spec },
    ),
  )
  return bench
}

/**
 * Waits until all frontends of this many Services exist, each with this many endpoints if a number
 * is given, and no virtual IP is there in another way if one is given: an earlier daemon may have
 * left it.
 */
export async function settled(
  services: number,
  endpoints?: number,
  kind?: VirtualAddresses,
  deadlineMs?: number,
): Promise<void> {
  await eventually(() => {
    const lines = virtualServers()
    const count = lines.filter((line) => line.startsWith('-A')).length
    // Node ports are at two addresses of each family.
    assert.equal(count, services * FAMILIES.length * PROTOCOLS.length * (KINDS.length + 1))
    if (endpoints !== undefined) assert.equal(lines.length, count * (1 + endpoints))
    const virtualIps = services * FAMILIES.length * (KINDS.length - 1)
    const found = { addresses: boundAddresses().length, routes: localRoutes().length }
    assert.equal(found.addresses + found.routes, virtualIps)
    if (kind !== undefined) assert.equal(found[kind], virtualIps)
  }, deadlineMs)
}

/** The frontend of Service `number`. */
export function frontend(number: number, kind: Kind, family: IpFamily, protocol: Protocol): Place {
  return kind === 'NodePort'
    ? { protocol, address: NODE[family], port: 30_000 + number }
    : { protocol, address: `${VIPS[kind][family]}${number}`, port: 80 }
}

/** Service `number` of type LoadBalancer and its slices. `node`: an endpoint in the network of the node itself. */
export function everyKind(
  number: number,
  pods: readonly (Pod | 'node')[],
  spec: Readonly<Record<string, unknown>> = {},
): Manifest[] {
  const name = `every-kind-${number}`
  const vips = (kind: Exclude<Kind, 'NodePort'>): string[] => FAMILIES.map((family) => `${VIPS[kind][family]}${number}`)
  const ports = PROTOCOLS.map((protocol) => ({ name: protocol, protocol: protocol.toUpperCase() }))
  const asked = {
    type: 'LoadBalancer',
    clusterIPs: vips('ClusterIP'),
    ipFamilies: FAMILIES,
    ipFamilyPolicy: 'RequireDualStack',
    externalIPs: vips('ExternalIP'),
    ports: ports.map((port) => ({ ...port, port: 80, nodePort: 30_000 + number, targetPort: POD_PORT })),
    ...spec,
  }
  const status = { loadBalancer: { ingress: vips('LoadBalancer').map((ip) => ({ ip })) } }
  const slices = FAMILIES.map((family) =>
    slice(name, [], {
      addressType: family,
      ports: ports.map((port) => ({ ...port, port: POD_PORT })),
      endpoints: pods.map((pod) => ({
        addresses: [(pod === 'node' ? NODE : ADDRESSES[pod])[family]],
        conditions: { ready: true },
        nodeName: pod === 'c' ? 'node1' : 'node0',
      })),
    }),
  )
  return [service(name, asked, { status }), ...slices]
}
