/**
 * A node with one firewall, and the cluster around it, in network namespaces of its own. The
 * program writes its tables and ends, so that nothing repairs what a mutation breaks; a server of
 * ours stands for its health checks. Several worlds exist at the same time.
 */
import { ADDRESSES, Cluster, NODE } from '../support/cluster.ts'
import { Workbench } from '../support/daemon.ts'
import { FAMILIES, PROTOCOLS } from '../support/every-kind.ts'
import type { Answer, Failure } from '../support/exchange.ts'
import { type Firewall, FIREWALLS } from '../support/firewalls.ts'
import { enterNewNamespace, type Home, thisHome } from '../support/net-namespace.ts'
import { finish, sh } from '../support/programs.ts'
import { manifestsOf } from './manifests.ts'
import { type Packet, SENDERS } from './packets.ts'
import { HEALTH_CHECK_PORTS, hasHealthCheck, healthCheckPort, type Scenario, TARGET_PORTS } from './scenario.ts'
import { installSpy, readTraces, type Traces } from './spy.ts'

/** What became of a packet; worlds are compared by these texts. */
export interface Observation {
  /** `answered by a`, `refused by ICMP`, `nothing`, or the error that its sender got. */
  readonly verdict: string
  /** The source that the server saw: `its own`, or an address; empty without an answer. */
  readonly source: string
  /** Left on a packet behind the firewall, in either direction; empty: none. */
  readonly mark: string
  /** Its connection in conntrack; empty: none. */
  readonly flow: string
}

/** A packet under way. */
export interface Sent {
  readonly packet: Packet
  readonly port: number
  readonly answer: Answer | Failure
}

const MEETINGS = 3
const MEETING_MS = 500

export class World {
  readonly firewall: Firewall
  readonly #home: Home
  readonly #cluster: Cluster

  /** Worlds start one after the other. Fails unless the rules of this firewall, and of no other, are in force. */
  static async start(firewall: Firewall, scenario: Scenario): Promise<World> {
    enterNewNamespace()
    const world = new World(firewall, thisHome(), Cluster.start(PROTOCOLS, `-${firewall.name}`))
    try {
      world.#serve(scenario)
      prepare(firewall, scenario)
      installSpy()
      await applyOnce(firewall, scenario)
      for (const one of FIREWALLS)
        if ((finish(one.proof).code === 0) !== (one === firewall))
          throw new Error(`${one.name} is ${one === firewall ? 'not ' : ''}in force in the world of ${firewall.name}`)
      return world
    } catch (error) {
      world.close()
      throw error
    }
  }

  private constructor(firewall: Firewall, home: Home, cluster: Cluster) {
    this.firewall = firewall
    this.#home = home
    this.#cluster = cluster
  }

  #serve({ services }: Scenario): void {
    const [, second] = TARGET_PORTS
    for (const protocol of PROTOCOLS)
      for (const family of FAMILIES) {
        for (const pod of ['a', 'b', 'c'] as const)
          this.#cluster.serve(pod, { protocol, address: ADDRESSES[pod][family], port: second })
        for (const port of TARGET_PORTS) this.#cluster.serve('node', { protocol, address: NODE[family], port })
      }
    for (const [index, one] of services.entries())
      if (hasHealthCheck(one))
        for (const family of FAMILIES)
          this.#cluster.serve('node', { protocol: 'tcp', address: NODE[family], port: healthCheckPort(index + 1) })
  }

  /** Lets hosts find each other, as far as they may: many packets at once to one not yet found are lost. */
  async meet(): Promise<void> {
    for (let attempt = 0; attempt < MEETINGS; attempt++) {
      this.#home.enter()
      const pings = SENDERS.flatMap(({ from, address }) =>
        FAMILIES.map((family) => {
          const to = { protocol: 'ping', address: (from === 'node' ? ADDRESSES.other : NODE)[family], port: 0 } as const
          const own = from === 'node' ? undefined : address?.[family]
          return this.#cluster.exchange(from, to, {
            withinMs: MEETING_MS,
            ...(own === undefined ? {} : { address: own }),
          })
        }),
      )
      if ((await Promise.all(pings)).every((answer) => typeof answer !== 'string')) return
    }
  }

  /** Sends packets at the same time, from this port on; waits until each is answered, refused or late. */
  send(packets: readonly Packet[], firstPort: number, withinMs: number): Promise<Sent[]> {
    this.#home.enter()
    const sent = packets.map(async (packet, index): Promise<Sent> => {
      const { from, to, address } = packet
      const port = firstPort + index
      const asked = { port, withinMs, ...(address === undefined ? {} : { address }) }
      return { packet, port, answer: await this.#cluster.exchange(from, to, asked) }
    })
    return Promise.all(sent)
  }

  /** What became of packets that were sent. */
  observe(sent: readonly Sent[]): Observation[] {
    this.#home.enter()
    const traces = readTraces()
    return sent.map((one) => observationOf(one, traces))
  }

  /** Runs a shell script on the node. */
  run(script: string): string {
    this.#home.enter()
    return sh(script)
  }

  close(): void {
    this.#home.enter()
    this.#cluster.stop()
    enterNewNamespace()
    this.#home.leave()
  }
}

/** What else there is on the node before the program starts. */
function prepare({ backEnd }: Firewall, { policies: { input, forward } }: Scenario): void {
  const { first, last } = HEALTH_CHECK_PORTS
  const commands = ['iptables', 'ip6tables'].flatMap((program) => [
    `${program}-${backEnd} -A INPUT -p tcp --dport ${first}:${last} -j ${input}`,
    `${program}-${backEnd} -P FORWARD ${forward}`,
  ])
  // What kubelet leaves in the back end that it uses.
  sh(`set -e\n${commands.join('\n')}\niptables-${backEnd} -t mangle -N KUBE-IPTABLES-HINT`)
}

/** Runs the program once. The scheduler chooses an endpoint by the client's address alone, in every world the same. */
async function applyOnce({ name, kubeIPVS }: Firewall, scenario: Scenario): Promise<void> {
  const { virtualAddresses, configuration } = scenario
  const bench = new Workbench({ scheduler: 'sh' }, { ...configuration, kubeIPVS: { virtualAddresses, ...kubeIPVS } })
  try {
    bench.write('node.yaml', ...manifestsOf(scenario))
    const { code, stdout, stderr } = await bench.command('', '--once')
    if (code !== 0) throw new Error(`kube-ipvs --once with ${name} ended with ${code}:\n${stdout}${stderr}`)
  } finally {
    await bench.close()
  }
}

function observationOf({ packet, port, answer }: Sent, { flows, resets }: Traces): Observation {
  const found = flows.get(port) ?? []
  const marks = found.flatMap(({ mark }) => (mark === 0 ? [] : [`0x${mark.toString(16)}`]))
  const flow = found
    .map(({ text }) => text)
    .sort()
    .join('; ')
  return { ...verdictOf(packet, answer, resets.has(port)), mark: marks.sort().join(), flow }
}

function verdictOf(
  { to }: Packet,
  answer: Answer | Failure,
  isReset: boolean,
): Pick<Observation, 'verdict' | 'source'> {
  if (answer === 'ECONNREFUSED') return { verdict: `refused by ${isReset ? 'reset' : 'ICMP'}`, source: '' }
  if (typeof answer === 'string') return { verdict: answer, source: '' }
  if (to.protocol === 'ping') return { verdict: 'echo', source: '' }
  const [server, source = '', port] = answer.text.split(' ')
  if (`${source} ${port}` === answer.local) return { verdict: `answered by ${server}`, source: 'its own' }
  const [address] = answer.local.split(' ')
  return { verdict: `answered by ${server}`, source: source === address ? `${source} at another port` : source }
}
