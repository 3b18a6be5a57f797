/**
 * A node with two pods, another node with a third, and a client, all on one network; both families
 * everywhere:
 *
 *     client 10.0.2.100 ──┐                             ┌── a 10.244.0.1
 *                         ├── lan ── eth0 10.0.2.15 ────┤
 *     other 10.0.2.16 ────┘                             └── b 10.244.0.2
 *     (and pod c 10.244.1.1 there)
 *
 * This process's namespace is the node. Pods answer each message with their name and the client's
 * address. Traffic to addresses outside the network is routed to the node, Service addresses
 * included; other nodes and pods answer by the shortest way. The kernel's limit on refusals (a few
 * a second) is switched off.
 */
import type { Socket as UdpSocket } from 'node:dgram'
import { writeFileSync } from 'node:fs'
import type { Server, Socket } from 'node:net'
import type { IpFamily, Protocol } from '../../src/values/protocol.ts'
import { familyOf } from '../../src/values/address.ts'
import { run } from './programs.ts'
import { deadline } from './deadline.ts'
import {
  type Answer,
  exchange,
  type Failure,
  listenStream,
  listenUdp,
  openAnsweredStream,
  openStream,
} from './exchange.ts'
import { inside, leave, type Namespace, type Place } from './net-namespace.ts'

export type Addresses = Readonly<Record<IpFamily, string>>

/** The node's own: on eth0, and on each pod's link. */
export const NODE: Addresses = { IPv4: '10.0.2.15', IPv6: 'fd00:10:0:2::15' }
const GATEWAY: Addresses = { IPv4: '10.244.0.254', IPv6: 'fd00:10:244::fe' }
export const NODES_OWN = new Set(Object.values(NODE).concat(Object.values(GATEWAY)))
/** The port at which pods answer, in every protocol. */
export const POD_PORT = 8080

/** The client. `node` uses an address that the kernel chooses, the others use their own. */
export type From = 'client' | 'a' | 'b' | 'c' | 'other' | 'node'
export const ADDRESSES: Readonly<Record<Exclude<From, 'node'>, Addresses>> = {
  client: { IPv4: '10.0.2.100', IPv6: 'fd00:10:0:2::100' },
  other: { IPv4: '10.0.2.16', IPv6: 'fd00:10:0:2::16' },
  a: { IPv4: '10.244.0.1', IPv6: 'fd00:10:244::1' },
  b: { IPv4: '10.244.0.2', IPv6: 'fd00:10:244::2' },
  c: { IPv4: '10.244.1.1', IPv6: 'fd00:10:244:1::1' },
}
export type Pod = 'a' | 'b' | 'c'
/** Below /proc/sys/net: forwarding, refusals without a limit, and pings by datagram sockets. */
const SETTINGS = {
  'ipv4/ip_forward': '1',
  'ipv6/conf/all/forwarding': '1',
  'ipv4/icmp_ratelimit': '0',
  'ipv6/icmp/ratelimit': '0',
  'ipv4/ping_group_range': '0 0',
}
/**
 * Source ports, used in turn. Two connections of one client to one pod through two frontends must
 * not have the same one: the pod's answers are then alike, and IPVS takes them to the wrong
 * connection. The kernel would choose ports at random. The daemon listens at 10249 and 10256 of the
 * node.
 */
const CLIENT_PORTS = { first: 11_000, last: 29_999 } as const
const NAMESPACES = ['lan', 'client', 'other', 'a', 'b'] as const
/** The client's further addresses: 10.0.2.101 to 10.0.2.116, and the same in IPv6. */
export const FURTHER_CLIENTS = 16
export const clientAddress = (index: number): Addresses => ({
  IPv4: `10.0.2.${101 + index}`,
  IPv6: `fd00:10:0:2::${101 + index}`,
})

/**
 * How long a refusal may take on a fast kernel: the first may arrive while the socket is still
 * inside `connect`, and TCP sends again after one second, SCTP after three.
 */
export const REFUSAL_MS = 4000

export interface Asked {
  /** Default: the client's. */
  readonly address?: string
  readonly port?: number
  /** How long to wait for an answer on a fast kernel; default 10 s. */
  readonly withinMs?: number
}

/**
 * The outcome of a request: `a own` when pod a answered and saw the client's address and port,
 * `a node` when it saw one of the node's addresses; any other address as it is. Otherwise
 * `refused`, `nothing`, an error's name, or `echo` for a ping.
 */
export type Outcome = string

export interface Comparison {
  /** @param address of the client, where it is not its only one */
  note(from: From, to: Place, address: string | undefined, happened: Outcome): void
}

export class Cluster {
  readonly #suffix: string
  readonly #servers: (Server | UdpSocket)[] = []
  /** Of all clusters of this process: the kernel remembers connections of an earlier one for a minute. */
  static #lastClientPort: number = CLIENT_PORTS.last
  /** Receives what happened to each request, to compare it with what is predicted for it (predictions.ts). */
  comparison: Comparison | undefined
  /** The clients that a pod has seen, whether the answer arrived or not: `POD ADDRESS`. */
  readonly seen = new Set<string>()

  /**
   * @param protocols those in which pods answer
   * @param name of the cluster, where this process has several
   */
  static start(protocols: readonly Protocol[] = ['tcp', 'udp'], name = ''): Cluster {
    const suffix = `${process.pid}${name}`
    const namespaceOf = (host: string): string => `${host}-${suffix}`
    const namespaces = NAMESPACES.map(namespaceOf)
    ip(
      undefined,
      namespaces.map((namespace) => `netns add ${namespace}`),
    )
    for (const namespace of [undefined, ...namespaces]) {
      inside(namespace, set)
      ip(namespace, ['link set lo up'])
    }
    const lan = namespaceOf('lan')
    ip(lan, ['link add br0 type bridge mcast_snooping 0', 'link set br0 up'])
    ip(undefined, [`link add eth0 type veth peer name node netns ${lan}`, ...addresses('eth0', NODE, 24, 64)])
    ip(lan, ['link set node master br0 up'])
    for (const name of ['client', 'other'] as const) {
      ip(lan, [
        `link add ${name} type veth peer name eth0 netns ${namespaceOf(name)}`,
        `link set ${name} master br0 up`,
      ])
      ip(namespaceOf(name), [
        ...addresses('eth0', ADDRESSES[name], 24, 64),
        ...(name === 'other'
          ? addresses('lo', ADDRESSES.c, 32, 128)
          : Array.from({ length: FURTHER_CLIENTS }, (_, index) =>
              addresses('eth0', clientAddress(index), 24, 64),
            ).flat()),
        ...Object.values(NODE).map((node) => `route add default via ${node}`),
        ...(name === 'other' ? [`route add 10.244.0.0/24 via ${NODE.IPv4}`] : []),
      ])
    }
    ip(undefined, [
      `route add 10.244.1.0/24 via ${ADDRESSES.other.IPv4}`,
      `route add fd00:10:244:1::/64 via ${ADDRESSES.other.IPv6}`,
    ])
    for (const pod of ['a', 'b'] as const) {
      const inner = namespaceOf(pod)
      ip(undefined, [
        `link add ve-${pod} type veth peer name eth0 netns ${inner}`,
        ...addresses(`ve-${pod}`, GATEWAY, 32, 128),
      ])
      ip(
        undefined,
        Object.values(ADDRESSES[pod]).map((address) => `route add ${address} dev ve-${pod}`),
      )
      ip(inner, [
        ...addresses('eth0', ADDRESSES[pod], 32, 128),
        ...Object.values(GATEWAY).flatMap((gateway) => [
          `route add ${gateway} dev eth0`,
          `route add default via ${gateway}`,
        ]),
      ])
    }
    return new Cluster(protocols, suffix)
  }

  private constructor(protocols: readonly Protocol[], suffix: string) {
    this.#suffix = suffix
    for (const pod of ['a', 'b', 'c'] as const)
      for (const address of Object.values(ADDRESSES[pod]))
        for (const protocol of protocols) this.serve(pod, { protocol, address, port: POD_PORT })
  }

  /** Starts a server there that answers as pods do. */
  serve(host: From, at: Place): void {
    this.#servers.push(at.protocol === 'udp' ? this.#datagrams(host, at) : this.#streams(host, at))
  }

  #streams(host: From, at: Place): Server {
    return listenStream(this.#namespaceOf(host), at, (socket) => {
      const answer = this.#answer(host, socket.remoteAddress, socket.remotePort)
      socket.on('error', () => undefined).on('data', () => socket.write(`${answer}\n`))
      socket.unref() // the end of the other side may never be announced
    })
  }

  #datagrams(host: From, at: Place): UdpSocket {
    const socket = listenUdp(this.#namespaceOf(host), at)
    return socket.on('message', (_, { address, port }) => {
      socket.send(this.#answer(host, address, port), port, address)
    })
  }

  /** The address is undefined once the client has closed the connection. */
  #answer(host: From, address: string | undefined, port: number | undefined): string {
    const who = address?.replace('::ffff:', '')
    if (who !== undefined) this.seen.add(`${host} ${who}`)
    return `${host} ${who} ${port}`
  }

  async ask(from: From, to: Place, asked: Asked = {}): Promise<Outcome> {
    const outcome = await this.#ask(from, to, asked)
    this.comparison?.note(from, to, asked.address, outcome)
    return outcome
  }

  /** The answer itself: the server's name, and the client's address and port as the server saw them. */
  exchange(from: From, to: Place, { address, port, withinMs = 10_000 }: Asked = {}): Promise<Answer | Failure> {
    return exchange({
      namespace: this.#namespaceOf(from),
      to,
      address: address ?? ownAddress(from, to),
      port: port ?? this.#nextPort(to),
      withinMs: deadline(withinMs),
    })
  }

  async #ask(from: From, to: Place, asked: Asked): Promise<Outcome> {
    const answer = await this.exchange(from, to, asked)
    if (typeof answer === 'string') return answer === 'ECONNREFUSED' ? 'refused' : answer
    if (to.protocol === 'ping') return 'echo'
    const [pod, source = '', sourcePort] = answer.text.split(' ')
    if (`${source} ${sourcePort}` === answer.local) return `${pod} own`
    return `${pod} ${NODES_OWN.has(source) ? 'node' : source}`
  }

  /** A lasting connection. */
  connect(from: From, to: Place): Promise<Socket> {
    return openStream(this.#namespaceOf(from), ownAddress(from, to), to, this.#nextPort(to))
  }

  /** A lasting connection that has been answered. */
  async hold(from: From, to: Place): Promise<{ readonly end: () => void }> {
    const socket = await openAnsweredStream(this.#namespaceOf(from), ownAddress(from, to), to, this.#nextPort(to))
    socket.unref() // a test that fails leaves it behind
    return { end: () => socket.resetAndDestroy() }
  }

  #nextPort({ protocol }: Place): number {
    if (protocol === 'ping') return 0
    Cluster.#lastClientPort =
      Cluster.#lastClientPort === CLIENT_PORTS.last ? CLIENT_PORTS.first : Cluster.#lastClientPort + 1
    return Cluster.#lastClientPort
  }

  #namespaceOf(host: From): Namespace {
    return host === 'node' ? undefined : `${host === 'c' ? 'other' : host}-${this.#suffix}`
  }

  /** The same request several times, one after the other; stops after one without an answer. */
  async askInTurn(from: From, to: Place, times: number, asked?: Asked): Promise<Outcome[]> {
    const outcomes: Outcome[] = []
    while (outcomes.length < times && outcomes.at(-1) !== 'nothing') outcomes.push(await this.ask(from, to, asked))
    return outcomes
  }

  stop(): void {
    for (const server of this.#servers) server.close()
    const names = NAMESPACES.map((host) => `${host}-${this.#suffix}`)
    for (const name of names) leave(name)
    ip(
      undefined,
      names.map((name) => `netns delete ${name}`),
    )
  }
}

/** The source address of `from`; the kernel chooses that of the node. */
function ownAddress(from: From, { address }: Place): string {
  const family = familyOf(address)
  return from === 'node' ? { IPv4: '0.0.0.0', IPv6: '::' }[family] : ADDRESSES[from][family]
}

function set(): void {
  for (const [name, value] of Object.entries(SETTINGS)) writeFileSync(`/proc/sys/net/${name}`, value)
}

function ip(namespace: Namespace, lines: readonly string[]): void {
  inside(namespace, () => run(['ip', '-batch', '-'], lines.join('\n')))
}

function addresses(link: string, { IPv4, IPv6 }: Addresses, length4: number, length6: number): string[] {
  return [
    `link set ${link} up`,
    `address add ${IPv4}/${length4} dev ${link}`,
    `address add ${IPv6}/${length6} dev ${link} nodad`,
  ]
}
