/**
 * The packets that a scenario is asked with: every client to every frontend, to other ports and
 * addresses beside them, and to what is no Service at all. A run sends a part of them.
 */
import { IP_FAMILIES, type IpFamily, type Protocol } from '../../src/values/protocol.ts'
import { ADDRESSES, type From, NODE, POD_PORT } from '../support/cluster.ts'
import type { Place } from '../support/net-namespace.ts'
import {
  hasHealthCheck,
  hasNodePorts,
  hasVip,
  healthCheckPort,
  loadBalancerIp,
  nodePort,
  type Scenario,
  SOME_CLIENT,
  TARGET_PORTS,
  vip,
} from './scenario.ts'

/**
 * What is asked, and how often beside the others. `missing` is a frontend that the Service does not
 * have; `other port` and `ping` are at an address of a Service.
 */
const WEIGHTS = {
  ClusterIP: 5,
  ExternalIP: 4,
  LoadBalancer: 6,
  NodePort: 6,
  'health check': 1,
  missing: 1,
  'NodePort at a VIP': 1,
  'other port': 1,
  ping: 1,
  'no Service': 1,
} as const
export type Kind = keyof typeof WEIGHTS
export const KINDS = Object.keys(WEIGHTS) as Kind[] // the keys of a literal

export interface Packet {
  readonly kind: Kind
  readonly from: From
  /** Of the sender, where it is not the usual one. */
  readonly address?: string
  readonly family: IpFamily
  readonly to: Place
  /** Of the Service in the scenario, from 1; 0 without one. */
  readonly service: number
}

type Target = Omit<Packet, 'from' | 'address'>
interface Sender {
  readonly from: From
  readonly address?: Readonly<Record<IpFamily, string>>
}

/** On the links to the pods. */
const GATEWAY = { IPv4: '10.244.0.254', IPv6: 'fd00:10:244::fe' }
const LOOPBACK = { IPv4: '127.0.0.1', IPv6: '::1' }
export const SENDERS: readonly Sender[] = [
  { from: 'client' },
  { from: 'client', address: SOME_CLIENT },
  { from: 'other' },
  { from: 'a' },
  { from: 'b' },
  { from: 'c' },
  { from: 'node' },
  { from: 'node', address: NODE },
  { from: 'node', address: GATEWAY },
]
/** Here nothing listens. */
const OTHER_PORT = 81
const PROTOCOLS: readonly Protocol[] = ['tcp', 'udp', 'sctp']

/** All of them, in a fixed order. */
export function packetsOf(scenario: Scenario): Packet[] {
  const targets = IP_FAMILIES.flatMap((family) => [
    ...scenario.services.flatMap((_, index) => targetsOf(scenario, index, family)),
    ...otherTargets(family),
  ])
  return withoutDoubles(targets).flatMap((target) =>
    SENDERS.filter(({ from }) => from === 'node' || target.to.address !== LOOPBACK[target.family]).map(
      ({ from, address }) => ({
        ...target,
        from,
        ...(address === undefined ? {} : { address: address[target.family] }),
      }),
    ),
  )
}

/** The kind that counts where targets of several kinds have the same place: the first of these. */
const PRECEDENCE: readonly Kind[] = ['LoadBalancer', 'ExternalIP', 'ClusterIP', 'NodePort']

/**
 * One target for each place. A load-balancer address may be an external IP of the same Service, or
 * one of the node, with a port that is the node port of another Service: the source ranges of the
 * load balancer hold there.
 */
function withoutDoubles(targets: readonly Target[]): readonly Target[] {
  const byPlace = Map.groupBy(targets, ({ to }) => `${to.protocol} ${to.address} ${to.port}`)
  return [...byPlace.values()].flatMap((same) => {
    const kind = PRECEDENCE.find((one) => same.some((target) => target.kind === one))
    return same.find((target) => kind === undefined || target.kind === kind) ?? []
  })
}

/** The first of a list, by the weights of their kinds. */
export function chosenPackets(packets: readonly Packet[], count: number): Packet[] {
  const ofKind = new Map<Kind, number>()
  const turns = packets.map((packet) => {
    const rank = ofKind.get(packet.kind) ?? 0
    ofKind.set(packet.kind, rank + 1)
    return { packet, turn: rank / WEIGHTS[packet.kind] }
  })
  return turns
    .sort((a, b) => a.turn - b.turn)
    .slice(0, count)
    .map(({ packet }) => packet)
}

function targetsOf({ services }: Scenario, index: number, family: IpFamily): Target[] {
  const one = services[index]
  if (one === undefined || !one.families.includes(family)) return []
  const number = index + 1
  const target = (kind: Kind, protocol: Place['protocol'], address: string, port: number): Target => ({
    kind,
    family,
    to: { protocol, address, port },
    service: number,
  })
  const vips = {
    ClusterIP: vip(number, 'ClusterIP', family),
    ExternalIP: vip(number, 'ExternalIP', family),
    LoadBalancer: loadBalancerIp(one, number, family),
  } as const
  const everyVip = Object.entries(vips) as ['ClusterIP' | 'ExternalIP' | 'LoadBalancer', string][] // its own keys
  return [
    ...one.ports.flatMap(({ protocol, port }, portIndex) => [
      ...everyVip.map(([kind, address]) => target(hasVip(one, kind) ? kind : 'missing', protocol, address, port)),
      ...[NODE, GATEWAY, LOOPBACK].map((address) =>
        target(hasNodePorts(one) ? 'NodePort' : 'missing', protocol, address[family], nodePort(number, portIndex)),
      ),
      ...everyVip.map(([, address]) => target('NodePort at a VIP', protocol, address, nodePort(number, portIndex))),
    ]),
    ...everyVip.flatMap(([, address]) => [
      target('other port', PROTOCOLS[index % PROTOCOLS.length] ?? 'tcp', address, OTHER_PORT),
      target('other port', 'tcp', address, POD_PORT),
      ...(hasHealthCheck(one) ? [target('other port', 'tcp', address, healthCheckPort(number))] : []),
      target('ping', 'ping', address, 0),
    ]),
    ...(hasHealthCheck(one) ? [target('health check', 'tcp', NODE[family], healthCheckPort(number))] : []),
  ]
}

/** Traffic that no Service is for. */
function otherTargets(family: IpFamily): Target[] {
  const places: Place[] = PROTOCOLS.flatMap((protocol) => [
    ...(['a', 'c'] as const).map((pod) => ({ protocol, address: ADDRESSES[pod][family], port: TARGET_PORTS[0] })),
    { protocol, address: NODE[family], port: TARGET_PORTS[1] },
    { protocol, address: NODE[family], port: OTHER_PORT },
    { protocol, address: vip(99, 'ClusterIP', family), port: 80 },
  ])
  places.push(
    { protocol: 'ping', address: NODE[family], port: 0 },
    { protocol: 'ping', address: ADDRESSES.b[family], port: 0 },
  )
  return places.map((to) => ({ kind: 'no Service', family, to, service: 0 }))
}
