/**
 * Reads what the kernel knows of Services in iptables mode: new connections from the counters of
 * rules, and the connections there are from its list of flows, unless that list is too long to be
 * read every second.
 * @impure
 */
import type { ConntrackConnection } from '../conntrack/connection.ts'
import type { Flow } from '../conntrack/types.ts'
import { optionValues } from '../iptables/rule-parts.ts'
import { saveLines } from '../iptables/save-lines.ts'
import { parseSave } from '../iptables/save-text.ts'
import { addressOfKey } from '../ipvs/types.ts'
import { servedFrontends } from '../modes/iptables/saved-frontends.ts'
import { formatEndpoint } from '../values/address.ts'
import type { IpFamily } from '../values/protocol.ts'
import { ANY_ADDRESS } from '../values/well-known.ts'
import { CONNECTIONS, type PlaceSample, type RealServerSample, type Sample, unknownTraffic } from './sample.ts'

export interface RulesReadOptions {
  readonly families: readonly IpFamily[]
  /** The output of `iptables-save -c -t nat`. */
  readonly saveCounters: (family: IpFamily) => Promise<string>
  /** undefined: the kernel does not list its flows. */
  readonly conntrack: Pick<ConntrackConnection, 'tableSize' | 'visitFlows'> | undefined
  readonly signal: AbortSignal
}

/** Longer lists of flows take more than about 200 ms to read. */
const MOST_FLOWS = 50_000

interface ServedPort {
  readonly servicePort: string
  readonly addresses: Set<string>
  readonly realServers: Map<string, { connections: number; active: number; inactive: number }>
}

export async function readRules({ families, saveCounters, conntrack, signal }: RulesReadOptions): Promise<Sample> {
  const places = new Map<string, ServedPort>()
  const frontends = new Map<string, ServedPort>()
  const place = (servicePort: string, protocol: string): ServedPort => {
    const key = `${servicePort}/${protocol}`
    let known = places.get(key)
    if (known === undefined) places.set(key, (known = { servicePort, addresses: new Set(), realServers: new Map() }))
    return known
  }
  const atMs = performance.now()
  for (const family of families) {
    const text = await saveCounters(family)
    for (const { servicePort, protocol, endpoint, connections } of endpointCounters(text))
      place(servicePort, protocol).realServers.set(endpoint, { connections, active: 0, inactive: 0 })
    for (const { service, key } of servedFrontends(parseSave(text).get('nat') ?? new Map(), family)) {
      const found = place(service, key.slice(key.lastIndexOf('/') + 1))
      frontends.set(key, found)
      found.addresses.add(addressOfKey(key))
    }
  }
  const withoutConnections = await countFlows(conntrack, families, frontends, signal)
  const sampled = Array.from(places, ([key, one]) => [key, sampleOf(one, withoutConnections !== undefined)] as const)
  return { mode: 'iptables', atMs, places: new Map(sampled), unread: 0, withoutConnections }
}

/** Adds the flows through Services to their endpoints. Resolves to the reason when it cannot. */
async function countFlows(
  conntrack: RulesReadOptions['conntrack'],
  families: readonly IpFamily[],
  frontends: ReadonlyMap<string, ServedPort>,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (conntrack === undefined) return 'the kernel does not list its flows (module nf_conntrack_netlink)'
  const { flows } = await conntrack.tableSize({ signal })
  if (flows > MOST_FLOWS) return `the kernel has ${flows} flows, too many to count them each time`
  for (const family of families)
    for (const protocol of ['tcp', 'udp', 'sctp'] as const) {
      const counted = new Map<{ active: number; inactive: number }, { active: number; inactive: number }>()
      await conntrack.visitFlows(
        { family, protocol },
        (flow, { isActiveTcp }) => {
          const server = endpointOf(flow, frontends)
          if (server === undefined) return
          const counts = counted.get(server) ?? { active: 0, inactive: 0 }
          counts[isActiveTcp ? 'active' : 'inactive']++
          counted.set(server, counts)
        },
        { signal, onRestart: () => counted.clear() },
      )
      for (const [server, { active, inactive }] of counted) {
        server.active += active
        server.inactive += inactive
      }
    }
  return undefined
}

/** The endpoint of a flow, if a frontend translated its destination. */
function endpointOf({ family, protocol, original, reply }: Flow, frontends: ReadonlyMap<string, ServedPort>) {
  const key = (address: string): string => `${formatEndpoint(address, original.destinationPort)}/${protocol}`
  const place = frontends.get(key(original.destination)) ?? frontends.get(key(ANY_ADDRESS[family]))
  return place?.realServers.get(formatEndpoint(reply.source, reply.sourcePort))
}

function sampleOf({ servicePort, addresses, realServers }: ServedPort, isUnknown: boolean): PlaceSample {
  const servers = new Map<string, RealServerSample>()
  let total = 0
  for (const [key, { connections, active, inactive }] of realServers) {
    total += connections
    const known = isUnknown ? { active: Number.NaN, inactive: Number.NaN } : { active, inactive }
    servers.set(key, { traffic: trafficOf(connections), isDraining: false, ...known })
  }
  return { servicePort, addresses: [...addresses], traffic: trafficOf(total), isUsed: true, realServers: servers }
}

function trafficOf(connections: number): Float64Array {
  const traffic = unknownTraffic()
  traffic[CONNECTIONS] = connections
  return traffic
}

interface EndpointCounter {
  /** `namespace/name:port` */
  readonly servicePort: string
  readonly protocol: string
  /** `10.244.0.1:8080` */
  readonly endpoint: string
  /** Connections that the rule has seen. */
  readonly connections: number
}

const COUNTED = /^\[(\d{1,20}):\d{1,20}\] -A (KUBE-SEP-\S+) ([^]*)$/

/**
 * The endpoints of all Service ports of a family in the output of `iptables-save -c`, one for each
 * chain of an endpoint. A rule of the table nat sees the first packet of each connection only, so
 * the counter of the rule that chooses an endpoint's address is the number of its connections;
 * packets and bytes are counted nowhere. kube-proxy and this program name the Service port in the
 * comment of that rule.
 */
export function endpointCounters(saved: string): readonly EndpointCounter[] {
  const found: EndpointCounter[] = []
  let isNat = false
  for (const line of saveLines(saved)) {
    if (line.startsWith('*')) isNat = line.trim() === '*nat'
    if (!isNat || !line.startsWith('[')) continue
    const [, packets, , rule] = COUNTED.exec(line) ?? []
    if (packets === undefined || rule === undefined) continue
    const options = optionValues(rule)
    const [servicePort = '', protocol, endpoint] = ['--comment', '-p', '--to-destination'].map((name) =>
      options.get(name),
    )
    if (endpoint === undefined || protocol === undefined || !/^\S+\/\S+$/.test(servicePort)) continue
    found.push({ servicePort, protocol, endpoint, connections: Number(packets) })
  }
  return found
}
