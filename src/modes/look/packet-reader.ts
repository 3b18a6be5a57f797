/**
 * Reads from the kernel what decides the path of a packet, and predicts paths with it. Rules, sets,
 * virtual servers and links are read once; routes and real servers are asked for as predictions
 * need them. This changes nothing, and needs neither a running daemon nor the API server.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type {
  Answers,
  KernelPicture,
  PictureInterface,
  Questions,
  RouteAnswer,
  RouteQuestion,
} from '../../explain/picture.ts'
import { predictPath } from '../../explain/predict.ts'
import { PacketSet } from '../../explain/sets.ts'
import type { Packet, PacketPath, RouteDecision } from '../../explain/types.ts'
import { CATALOGUE } from '../../ipset/catalogue.ts'
import { type RealServer, type VirtualServerFields, type VirtualServerKey, virtualServerKey } from '../../ipvs/types.ts'
import { isSysctlOn } from '../../node/sysctl.ts'
import { KernelError } from '../../netlink/errors.ts'
import { RTN_LOCAL, RTN_UNICAST } from '../../netlink/route-codec.ts'
import type { RtnetlinkConnection } from '../../netlink/rtnetlink.ts'
import { firstNames } from '../../values/lists.ts'
import { CodedError, errorText } from '../../values/errors.ts'
import { isLinkLocal, isLoopback } from '../../values/address.ts'
import { SERVICE_DEVICE } from '../../values/well-known.ts'
import type { Look } from './look.ts'
import { readRules } from './packet-rules.ts'

/** More rounds of questions than any path needs: each follows what the round before has found. */
const MAX_ROUNDS = 32

export class PacketReader {
  readonly picture: KernelPicture
  readonly #look: Look
  readonly #links: ReadonlyMap<number, string>
  readonly #routes = new Map<string, RouteAnswer>()
  readonly #realServers = new Map<VirtualServerKey, readonly RealServer[]>()

  /** Reads the picture. Rejects when the kernel cannot be read (EPERM). */
  static async open(look: Look, signal: AbortSignal): Promise<PacketReader> {
    const links = await look.rtnetlink.listLinks({ signal })
    const { limits, ...rules } = await readRules(look, signal)
    const picture: KernelPicture = {
      ...rules,
      limits: [...limits, ...(await policyRouting(look.rtnetlink, signal))],
      ...(await readVirtualServers(look, signal)),
      ...(await readLinks(look, links, signal)),
      sets: await readSets(look, signal),
      ipvsTracksConnections: isSet('net/ipv4/vs/conntrack'),
      forwards: {
        IPv4: isSet('net/ipv4/ip_forward'),
        IPv6: isSet('net/ipv6/conf/all/forwarding'),
      },
      seesBridged: {
        IPv4: isSet('net/bridge/bridge-nf-call-iptables'),
        IPv6: isSet('net/bridge/bridge-nf-call-ip6tables'),
      },
    }
    return new PacketReader(picture, look, new Map(links.map(({ index, name }) => [index, name])))
  }

  private constructor(picture: KernelPicture, look: Look, links: ReadonlyMap<number, string>) {
    this.picture = picture
    this.#look = look
    this.#links = links
  }

  /** The predicted path. Rejects when the kernel cannot be asked. */
  async explain(packet: Packet, signal: AbortSignal): Promise<PacketPath> {
    const answers: Answers = { routes: this.#routes, realServers: this.#realServers }
    for (let round = 0; ; round++) {
      // A round may take a second, and a deadline needs a turn of the event loop to end the rest.
      await nextTurn()
      signal.throwIfAborted()
      const { path, questions } = predictPath(this.picture, answers, packet)
      if (questions.routes.size === 0 && questions.realServers.size === 0) return path
      if (round === MAX_ROUNDS)
        throw new CodedError('path-endless', `the path of the packet leads on after ${MAX_ROUNDS} rounds of questions`)
      await this.#answer(questions, signal)
    }
  }

  async #answer({ routes, realServers }: Questions, signal: AbortSignal): Promise<void> {
    for (const [key, question] of routes) this.#routes.set(key, await this.#askRoute(question, signal))
    for (const key of realServers) {
      const server = this.picture.virtualServers.get(key)
      const ipvs = server && (await this.#look.ipvs(signal))
      const found = server === undefined ? [] : ((await ipvs?.listDestinations(server, { signal })) ?? [])
      this.#realServers.set(
        key,
        found.map(({ realServer }) => realServer),
      )
    }
  }

  async #askRoute(question: RouteQuestion, signal: AbortSignal): Promise<RouteAnswer> {
    const { destination, source, arrivesAt, mark } = question
    const inInterfaceIndex = arrivesAt === undefined ? undefined : this.#indexOf(arrivesAt)
    if (arrivesAt !== undefined && inInterfaceIndex === undefined) return refused('ENODEV')
    try {
      const found = await this.#look.rtnetlink.lookUpRoute({ destination, source, inInterfaceIndex, mark }, { signal })
      return { decision: this.#decisionOf(found), source: arrivesAt === undefined ? found.source : undefined }
    } catch (error) {
      if (error instanceof KernelError && ROUTE_ERRORS.has(error.code)) return refused(error.code)
      throw error
    }
  }

  #decisionOf(found: Awaited<ReturnType<RtnetlinkConnection['lookUpRoute']>>): RouteDecision {
    if (found.type === RTN_LOCAL) return { kind: 'local' }
    const name = this.#links.get(found.outInterfaceIndex ?? 0)
    if (found.type !== RTN_UNICAST || name === undefined)
      return { kind: 'none', error: ERROR_OF_TYPE[found.type] ?? 'ENETUNREACH' }
    return { kind: 'out', interface: name, gateway: found.gateway }
  }

  #indexOf(name: string): number | undefined {
    for (const [index, other] of this.#links) if (other === name) return index
    return undefined
  }
}

/** What the kernel says of a packet that it would not route. */
const ROUTE_ERRORS: ReadonlySet<string> = new Set([
  'ENETUNREACH',
  'EHOSTUNREACH',
  'EINVAL',
  'EACCES',
  'EXDEV',
  'ENODEV',
])

/** By RTN_* of linux/rtnetlink.h: blackhole, unreachable, prohibit. */
const ERROR_OF_TYPE: Readonly<Record<number, string>> = { 6: 'EINVAL', 7: 'EHOSTUNREACH', 8: 'EACCES' }

function refused(error: string): RouteAnswer {
  return { decision: { kind: 'none', error }, source: undefined }
}

/** Rules that are named one by one. */
const MAX_RULES = 5

/**
 * The routing of a packet is asked for with what is known of it at that point, which is not all
 * that rules of policy routing may look at.
 */
async function policyRouting(rtnetlink: RtnetlinkConnection, signal: AbortSignal): Promise<readonly string[]> {
  try {
    const rules = (await rtnetlink.listPolicyRules({ signal })).filter(({ selectors }) => selectors.length > 0)
    if (rules.length === 0) return []
    const named = rules.slice(0, MAX_RULES).map(({ family, priority, table, selectors }) => {
      const words = [...(family === 'IPv6' ? ['-6'] : []), `${priority}:`, ...selectors, `lookup ${table}`]
      return `"${words.join(' ')}"`
    })
    return [
      `policy routing by the client or the interface (ip rule) is followed only where a packet arrives, not for what IPVS sends and for answers: ${firstNames(named, MAX_RULES, rules.length)}`,
    ]
  } catch (error) {
    return [`the rules of policy routing cannot be read: ${errorText(error)}`]
  }
}

async function readVirtualServers(
  look: Look,
  signal: AbortSignal,
): Promise<Pick<KernelPicture, 'virtualServers' | 'fwmarks'>> {
  const virtualServers = new Map<VirtualServerKey, VirtualServerFields>()
  const fwmarks = new Set<number>()
  for (const service of (await (await look.ipvs(signal))?.listServices({ signal })) ?? []) {
    if (service.kind === 'address') virtualServers.set(virtualServerKey(service.fields), service.fields)
    else fwmarks.add(service.fields.fwmark)
  }
  return { virtualServers, fwmarks }
}

async function readLinks(
  look: Look,
  links: readonly { readonly index: number; readonly name: string; readonly kind: string }[],
  signal: AbortSignal,
): Promise<Pick<KernelPicture, 'interfaces' | 'virtualIps'>> {
  const { rtnetlink } = look
  const uplinks = await rtnetlink.listGatewayInterfaces({ signal })
  const byIndex = Map.groupBy(await rtnetlink.listAddresses({ signal }), ({ interfaceIndex }) => interfaceIndex)
  const interfaces = new Map<string, PictureInterface>()
  const virtualIps = new Set((await look.virtualIps(signal)).routes.keys())
  for (const { index, name, kind } of links) {
    const addresses = (byIndex.get(index) ?? [])
      .map(({ address }) => address)
      .filter((address) => !isLoopback(address) && !isLinkLocal(address))
    if (name === SERVICE_DEVICE) for (const address of addresses) virtualIps.add(address)
    interfaces.set(name, { kind, addresses: name === SERVICE_DEVICE ? [] : addresses, isUplink: uplinks.has(index) })
  }
  return { interfaces, virtualIps }
}

/** Our sets; none when the kernel has no ipset. */
async function readSets(look: Look, signal: AbortSignal): Promise<ReadonlyMap<string, PacketSet>> {
  const sets = new Map<string, PacketSet>()
  const ipset = await look.ipset(signal)
  for (const set of ipset === undefined ? [] : CATALOGUE) {
    const entries = await ipset?.listEntries(set, { signal })
    if (entries !== undefined) sets.set(set.name, new PacketSet(set.type, entries))
  }
  return sets
}

/** Whether a setting is not 0; false where the kernel does not have it. */
const isSet = (name: string): boolean => isSysctlOn(name) ?? false
