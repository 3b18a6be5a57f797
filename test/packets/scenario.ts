/**
 * What the packet oracle gives to a node: a configuration, what else filters there, and Services
 * with their endpoints, generated with fast-check. Service `i` has the addresses that end in `i`.
 */
import fc from 'fast-check'
import { IP_FAMILIES, type IpFamily, type Protocol } from '../../src/values/protocol.ts'
import { ADDRESSES, clientAddress, NODE, type Pod, POD_PORT } from '../support/cluster.ts'

/** Where pods and the node answer, in every protocol. */
export const TARGET_PORTS = [POD_PORT, 9090] as const

/** The node port of the first port of Service 1 is also the port of other Services. */
export const SHARED_PORT = 30_010
export const HEALTH_CHECK_PORTS = { first: 32_000, last: 32_999 } as const

export type Backend = Pod | 'node'
/** Conditions of endpoints. */
export const STATES = {
  ready: { ready: true, serving: true, terminating: false },
  'not ready': { ready: false, serving: false, terminating: false },
  terminating: { ready: false, serving: true, terminating: true },
  ended: { ready: false, serving: false, terminating: true },
} as const

export interface PortCase {
  readonly protocol: Protocol
  readonly port: number
  readonly targetPort: (typeof TARGET_PORTS)[number]
  readonly isNamed: boolean
}

export interface ServiceCase {
  readonly type: 'ClusterIP' | 'NodePort' | 'LoadBalancer' | 'ExternalName' | 'headless'
  readonly families: readonly IpFamily[]
  readonly ports: readonly PortCase[]
  readonly endpoints: readonly { readonly at: Backend; readonly state: keyof typeof STATES }[]
  readonly internal: 'Cluster' | 'Local'
  readonly external: 'Cluster' | 'Local'
  readonly affinity: boolean
  readonly externalIPs: boolean
  /** Of load balancers. `node`: the address is this node's; `external IP`: it is an external IP too. */
  readonly ingress: 'VIP' | 'Proxy' | 'node' | 'external IP' | 'none'
  readonly allocatesNodePorts: boolean
  readonly sourceRanges: keyof typeof SOURCE_RANGES
}

export interface Scenario {
  /** Fields of KubeProxyConfiguration, without `kubeIPVS`. */
  readonly configuration: Readonly<Record<string, unknown>>
  readonly virtualAddresses: 'addresses' | 'routes'
  /**
   * In the back end of iptables that the node uses: whether the last rule of INPUT drops requests to
   * HEALTH_CHECK_PORTS, and the policy of FORWARD.
   */
  readonly policies: { readonly input: 'ACCEPT' | 'DROP'; readonly forward: 'ACCEPT' | 'DROP' }
  readonly services: readonly ServiceCase[]
}

const single = ({ IPv4, IPv6 }: Readonly<Record<IpFamily, string>>): string[] => [`${IPv4}/32`, `${IPv6}/128`]
export const SOURCE_RANGES = {
  none: [],
  'the client': single(ADDRESSES.client),
  'some clients': ['10.0.2.112/29', 'fd00:10:0:2::110/124'],
  'pod b': single(ADDRESSES.b),
  'this node': single(NODE),
  all: ['10.0.2.200/32', '0.0.0.0/0', '::/0'],
  'of IPv4': ['10.0.2.200/32'],
} as const
/** One of the further addresses of the client that is in the range of some clients. */
export const SOME_CLIENT = clientAddress(11)

const clusterCIDR = '10.244.0.0/16,fd00:10:244::/47'
const DETECTORS = [
  { clusterCIDR },
  { detectLocalMode: 'NodeCIDR' },
  { detectLocalMode: 'BridgeInterface', detectLocal: { bridgeInterface: 've-b' } },
  { detectLocalMode: 'InterfaceNamePrefix', detectLocal: { interfaceNamePrefix: 've-' } },
  {},
] as const
const NODE_PORT_ADDRESSES = [
  undefined,
  undefined,
  ['primary'],
  ['10.0.2.0/24', 'fd00:10:0:2::/64'],
  ['10.244.0.254/32', 'fd00:10:244::fe/128'],
  ['127.0.0.0/8', '::1/128'],
] as const

const configurations = fc
  .record({
    detector: fc.constantFrom(...DETECTORS),
    nodePortAddresses: fc.constantFrom(...NODE_PORT_ADDRESSES),
    masqueradeAll: fc.nat(3).map((number) => number === 0),
    masqueradeBit: fc.constantFrom(14, 14, 5),
  })
  .map(({ detector, nodePortAddresses, masqueradeAll, masqueradeBit }) => ({
    ...detector,
    ...(nodePortAddresses === undefined ? {} : { nodePortAddresses }),
    iptables: { masqueradeAll, masqueradeBit },
  }))

const serviceCases: fc.Arbitrary<ServiceCase> = fc.record({
  type: fc.oneof(
    { weight: 6, arbitrary: fc.constant('LoadBalancer' as const) },
    { weight: 3, arbitrary: fc.constantFrom('NodePort' as const, 'ClusterIP' as const) },
    { weight: 1, arbitrary: fc.constantFrom('ExternalName' as const, 'headless' as const) },
  ),
  families: fc.constantFrom<readonly IpFamily[]>(IP_FAMILIES, IP_FAMILIES, IP_FAMILIES, ['IPv4'], ['IPv6']),
  ports: fc.uniqueArray(
    fc.record({
      protocol: fc.constantFrom<Protocol>('tcp', 'udp', 'sctp'),
      port: fc.constantFrom(80, 80, 443, 443, SHARED_PORT),
      targetPort: fc.constantFrom(...TARGET_PORTS),
      isNamed: fc.boolean(),
    }),
    { minLength: 1, maxLength: 4, selector: ({ protocol, port }) => `${protocol} ${port}` },
  ),
  endpoints: fc.uniqueArray(
    fc.record({
      at: fc.constantFrom<Backend>('a', 'a', 'b', 'c', 'c', 'node'),
      state: fc.constantFrom<keyof typeof STATES>('ready', 'ready', 'ready', 'not ready', 'terminating', 'ended'),
    }),
    { maxLength: 4, selector: ({ at }) => at },
  ),
  internal: fc.constantFrom('Cluster', 'Cluster', 'Local'),
  external: fc.constantFrom('Cluster', 'Local'),
  affinity: fc.boolean(),
  externalIPs: fc.constantFrom(true, true, false),
  ingress: fc.constantFrom('VIP', 'VIP', 'VIP', 'Proxy', 'node', 'external IP', 'none'),
  allocatesNodePorts: fc.constantFrom(true, true, false),
  sourceRanges: fc.constantFrom<keyof typeof SOURCE_RANGES>('none', 'none', ...keysOf(SOURCE_RANGES)),
})

/** Scenarios with this many Services. */
export const scenarios = (services: number): fc.Arbitrary<Scenario> =>
  fc.record({
    configuration: configurations,
    virtualAddresses: fc.constantFrom('addresses', 'routes'),
    policies: fc.record({
      input: fc.constantFrom('ACCEPT', 'DROP'),
      forward: fc.constantFrom('ACCEPT', 'ACCEPT', 'ACCEPT', 'DROP'),
    }),
    services: fc.array(serviceCases, { minLength: services, maxLength: services }),
  })

const everyPort = (['tcp', 'udp', 'sctp'] as const).map(
  (protocol): PortCase => ({
    protocol,
    port: 80,
    targetPort: POD_PORT,
    isNamed: false,
  }),
)
const endpointsAt = (...places: readonly Backend[]): ServiceCase['endpoints'] =>
  places.map((at) => ({ at, state: 'ready' }))
const USUAL: ServiceCase = {
  type: 'LoadBalancer',
  families: IP_FAMILIES,
  ports: everyPort,
  endpoints: endpointsAt('a', 'c'),
  internal: 'Cluster',
  external: 'Cluster',
  affinity: false,
  externalIPs: true,
  ingress: 'VIP',
  allocatesNodePorts: true,
  sourceRanges: 'none',
}

/** Needs every rule and every set of a firewall. */
export const EVERY_RULE: Scenario = {
  configuration: { clusterCIDR },
  virtualAddresses: 'addresses',
  policies: { input: 'DROP', forward: 'DROP' },
  services: [
    USUAL,
    { ...USUAL, externalIPs: false, sourceRanges: 'the client' },
    {
      ...USUAL,
      ports: [...everyPort, { protocol: 'tcp', port: SHARED_PORT, targetPort: POD_PORT, isNamed: false }],
      sourceRanges: 'this node',
      external: 'Local',
      endpoints: endpointsAt('a'),
    },
    { ...USUAL, type: 'NodePort', externalIPs: false, external: 'Local', endpoints: endpointsAt('b', 'node') },
    { ...USUAL, type: 'NodePort', externalIPs: false, endpoints: [] },
  ],
}

const VIPS = {
  ClusterIP: { IPv4: '10.96.0.', IPv6: 'fd00:10:96::' },
  ExternalIP: { IPv4: '192.0.2.', IPv6: 'fd00:192::' },
  LoadBalancer: { IPv4: '198.51.100.', IPv6: 'fd00:198::' },
} as const

/** The VIP of Service `number`, whether it has one or not. */
export const vip = (number: number, kind: keyof typeof VIPS, family: IpFamily): string =>
  `${VIPS[kind][family]}${number}`

export function loadBalancerIp({ ingress }: ServiceCase, number: number, family: IpFamily): string {
  if (ingress === 'node') return NODE[family]
  return vip(number, ingress === 'external IP' ? 'ExternalIP' : 'LoadBalancer', family)
}

export function hasVip({ type, externalIPs, ingress }: ServiceCase, kind: keyof typeof VIPS): boolean {
  if (type === 'ExternalName' || type === 'headless') return false
  if (kind === 'ExternalIP') return externalIPs
  return kind === 'ClusterIP' || (type === 'LoadBalancer' && ingress !== 'none' && ingress !== 'Proxy')
}

/** The node port of a port of Service `number`, and the one for its health checks. */
export const nodePort = (number: number, portIndex: number): number => 30_000 + 10 * number + portIndex
export const healthCheckPort = (number: number): number => HEALTH_CHECK_PORTS.first + number

export const hasNodePorts = ({ type, allocatesNodePorts }: ServiceCase): boolean =>
  type === 'NodePort' || (type === 'LoadBalancer' && allocatesNodePorts)
export const hasHealthCheck = ({ type, external }: ServiceCase): boolean =>
  type === 'LoadBalancer' && external === 'Local'

/** The keys of a record of this type. */
function keysOf<Key extends string>(record: Readonly<Record<Key, unknown>>): Key[] {
  return Object.keys(record) as Key[] // a literal has no others
}
