/**
 * Predicts the way of a few packets to Services of ipvs mode: from a pod of this node, from outside
 * and from the node itself, in each family. Rules of firewalls that drop them are not found
 * otherwise: which chains they pass is the firewall's own design.
 * @impure
 */
import type { Packet, PacketPath, PathStep } from '../explain/types.ts'
import type { VirtualServerFields } from '../ipvs/types.ts'
import { virtualServerKey } from '../ipvs/types.ts'
import type { Look } from '../modes/look/look.ts'
import { PacketReader } from '../modes/look/packet-reader.ts'
import { familyOf } from '../values/address.ts'
import { IP_FAMILIES, type IpFamily } from '../values/protocol.ts'
import type { PathFact } from './rule-facts.ts'

/** Addresses of TEST-NET-2 and of the documentation prefix: of no pod, no node and no Service. */
const OUTSIDE: Readonly<Record<IpFamily, string>> = { IPv4: '198.51.100.77', IPv6: '2001:db8::77' }
/** Virtual servers whose endpoints are read to find a pod of this node, and endpoints that are tried. */
const MAX_SERVERS = 200
const MAX_CANDIDATES = 30

/** The families whose virtual servers have a pod of this node, with its address. */
type Pods = { readonly [family in IpFamily]?: string }

/** Rejects when the kernel cannot be read. Loads no module that a start would not load. */
export async function readPaths(look: Look, signal: AbortSignal): Promise<readonly PathFact[]> {
  const reader = await PacketReader.open(look, signal)
  const { virtualServers, virtualIps } = reader.picture
  const servers = Array.from(virtualServers.values()).filter(({ protocol }) => protocol === 'tcp')
  if (servers.length === 0) return []
  const pods = await findPods(look, reader, servers, signal)
  const paths: PathFact[] = []
  for (const family of IP_FAMILIES) {
    const own = servers.filter((server) => server.family === family)
    // A node port is a virtual server at an address of the node; clients outside may reach no other.
    const cluster = own.find(({ address }) => virtualIps.has(address))
    const nodePort = own.find(({ address }) => !virtualIps.has(address))
    const { [family]: pod } = pods
    for (const [from, source, server] of [
      ['pod', pod, cluster],
      ['node', undefined, cluster],
      ['outside', OUTSIDE[family], nodePort],
    ] as const)
      if (server !== undefined && (from !== 'pod' || source !== undefined))
        paths.push(pathFact(from, server, await reader.explain(packetTo(server, source), signal)))
  }
  return paths
}

/** An endpoint that is reached through an interface that leads to no other machine. */
async function findPods(
  look: Look,
  reader: PacketReader,
  servers: readonly VirtualServerFields[],
  signal: AbortSignal,
): Promise<Pods> {
  const pods: { [family in IpFamily]?: string } = {}
  const ipvs = await look.needIpvs(signal)
  const seen = new Set<string>()
  for (const server of servers.slice(0, MAX_SERVERS)) {
    if (pods[server.family] !== undefined) continue
    for (const { realServer } of await ipvs.listDestinations(server, { signal })) {
      const { address } = realServer
      if (seen.has(address) || seen.size >= MAX_CANDIDATES) continue
      seen.add(address)
      const { arrivesAt } = await reader.explain(packetTo(server, address), signal)
      if (arrivesAt === undefined || reader.picture.interfaces.get(arrivesAt)?.isUplink !== false) continue
      pods[familyOf(address)] = address
      break
    }
  }
  return pods
}

function packetTo({ address, port, protocol }: VirtualServerFields, source: string | undefined): Packet {
  return { source, destination: address, port, protocol }
}

/** Exported for tests. */
export function pathFact(from: PathFact['from'], server: VirtualServerFields, path: PacketPath): PathFact {
  const { steps, outcomes, source = '' } = path
  const fact = { from, source, destination: virtualServerKey(server), hook: '', table: '', chain: '', rule: '' }
  // Where every outcome is the same, it does not matter on what each depends.
  const results = outcomes.map(({ end }) => {
    if (end.kind === 'dropped' || end.kind === 'refused') return end.kind
    return end.kind === 'endpoint' && end.answer.kind === 'dropped' ? 'no-answer' : 'passes'
  })
  const [result = 'unsure'] = results
  if (results.some((other) => other !== result)) return { ...fact, result: 'unsure' }
  if (result === 'passes' || result === 'unsure') return { ...fact, result }
  const [outcome] = outcomes
  const answer =
    outcome?.end.kind === 'endpoint' && outcome.end.answer.kind === 'dropped' ? outcome.end.answer.steps : []
  const decisive = [...steps, ...(outcome?.steps ?? []), ...answer].findLast(({ effect }) => ENDS.has(effect.kind))
  // Without a usable real server IPVS refuses, which is no matter of rules.
  if (decisive === undefined || decisive.table === 'ipvs' || decisive.table === 'routing')
    return { ...fact, result: 'passes' }
  return { ...fact, result, ...placeOf(decisive) }
}

const ENDS: ReadonlySet<PathStep['effect']['kind']> = new Set(['drop', 'refuse', 'policy', 'no-real-server', 'route'])

function placeOf({ hook, table, chain, rule }: PathStep): Pick<PathFact, 'hook' | 'table' | 'chain' | 'rule'> {
  return { hook, table, chain, rule: rule.replace(`-A ${chain} `, '') }
}
