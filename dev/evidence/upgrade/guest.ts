/**
 * The part of the evidence of upgrades that runs in the guest: for each journey fresh nodes, on
 * which one proxy follows another while connections are counted. Prints one line of JSON, Outcome.
 */
import { execFile } from 'node:child_process'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { ApiServer } from '../../api-server/server.ts'
import { type HeldReport, holdConnections, rateOfConnections, type TrafficClient } from '../../bench/traffic-client.ts'
import { HUB_ADDRESS, Network } from './network.ts'
import { type Commands, NodeProxy } from './node-proxy.ts'
import { more } from './objects.ts'
import { type Journey, nameOf, proxiesOf, type Proxy } from './proxies.ts'
import { isReload, pairsOf, promisedFor, type Step } from './rows.ts'
import { FOLLOWED, frontends, putEndpoint, putObjects } from './services.ts'

/** The task from the host, as one argument of JSON. */
export interface UpgradeTask {
  readonly journeys: readonly Journey[]
  readonly commands: Commands
  /** Path of the compiled `traffic.c`. */
  readonly traffic: string
}

export interface Outcome {
  readonly steps: readonly Step[]
  /** Journeys that ended early. */
  readonly broken: readonly string[]
}

/**
 * Established connections that each step and node begins with, their period, and new ones a second
 * of each node.
 */
const HELD = 60
const PERIOD_MS = 1_000
const RATE = 50
/** Traffic before a step and after it. */
const BEFORE_MS = 1_000
const AFTER_MS = 3_000
/** So long what is left over has time to go, and what a cleanup has removed to be written again. */
const SETTLED_MS = 60_000
const FOLLOWS_MS = 120_000
/** The limit of one connection to an endpoint that is not there yet. */
const ASK_MS = 15_000
const POLL_MS = 500
const FIRST_HELD_PORT = 10_000
/**
 * More of a step than it has established connections, and new ones: an attempt that nothing
 * translated stays in conntrack for two minutes, and would keep the next one with its port from
 * being translated.
 */
const PORTS_OF_STEP = 100
const FIRST_NEW_PORT = 20_000
const NEW_PORTS_OF_STEP = 6_000
const FAILURES = 3
const run = promisify(execFile)

/** What a fresh start leaves on each node, by the number of nodes and the proxy. */
type References = Map<string, readonly ReadonlySet<string>[]>
const keyOf = (nodes: number, proxy: Proxy): string => `${nodes} ${nameOf(proxy)}`

/** Fresh nodes of one cluster. */
class Cluster {
  readonly nodes: readonly NodeProxy[]
  readonly #network: Network
  readonly #api: ApiServer
  readonly #traffic: string
  readonly #held: { readonly client: TrafficClient<HeldReport>; dropped: number }[] = []

  static async start(count: number, { commands, traffic }: UpgradeTask): Promise<Cluster> {
    const network = await Network.start(count, traffic)
    const api = new ApiServer()
    putObjects(api.store, count)
    putEndpoint(api.store, false)
    await api.listen(0, HUB_ADDRESS)
    const nodes = Array.from({ length: count }, (_, node) => new NodeProxy(node, api.url, commands))
    return new Cluster(nodes, network, api, traffic)
  }

  private constructor(nodes: readonly NodeProxy[], network: Network, api: ApiServer, traffic: string) {
    this.nodes = nodes
    this.#network = network
    this.#api = api
    this.#traffic = traffic
  }

  async begin(proxy: Proxy): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.start(proxy)))
    await this.follow()
  }

  /**
   * Resolves to the milliseconds until clients on all nodes reached a new endpoint, and were
   * refused when it had gone.
   */
  async follow(): Promise<number> {
    const startedMs = performance.now()
    for (const isThere of [true, false]) {
      putEndpoint(this.#api.store, isThere)
      for (const client of this.nodes.keys())
        while ((await this.#connects(client)) !== isThere) {
          if (performance.now() - startedMs > FOLLOWS_MS)
            throw new Error(
              `no node follows an endpoint that is ${isThere ? 'new' : 'gone'}:\n${this.nodes.map(({ logTail }) => logTail).join('\n')}`,
            )
          await sleep(POLL_MS / 5)
        }
    }
    return Math.round(performance.now() - startedMs)
  }

  /** Traffic from a client on each node, during something that happens. */
  async during(step: number, happen: () => Promise<void>): Promise<Pick<Step, 'established' | 'fresh' | 'failures'>> {
    const clients = [...this.nodes.keys()].map((node) => ({
      program: this.#traffic,
      namespace: `client-${node}`,
      places: frontends(this.nodes.length),
    }))
    const firstPort = FIRST_HELD_PORT + step * PORTS_OF_STEP
    const held = await Promise.all(
      clients.map((client) => holdConnections({ ...client, firstPort, count: HELD, periodMs: PERIOD_MS })),
    )
    this.#held.push(...held.map((client) => ({ client, dropped: 0 })))
    const made = await Promise.all(
      clients.map((client) =>
        rateOfConnections({ ...client, perSecond: RATE, firstPort: FIRST_NEW_PORT + step * NEW_PORTS_OF_STEP }),
      ),
    )
    await sleep(BEFORE_MS)
    await happen()
    await sleep(AFTER_MS)
    const lost = await this.#lost()
    const [ofHeld, ofMade] = [
      await Promise.all(held.map((client) => client.report())),
      await Promise.all(made.map((client) => client.report())),
    ]
    await Promise.all(made.map((client) => client.close()))
    return {
      established: { ...lost, longestMs: Math.max(...ofHeld.map(({ longestMs }) => longestMs)) },
      fresh: {
        made: ofMade.reduce((sum, one) => sum + one.made, 0),
        failed: ofMade.reduce((sum, one) => sum + one.failed, 0),
        slow: ofMade.reduce((sum, one) => sum + one.slow, 0),
        longestMs: Math.max(...ofMade.map(({ longestMs }) => longestMs)),
      },
      failures: [...held, ...made]
        .flatMap(({ failures }) => failures.split('\n', FAILURES))
        .filter((line) => line !== ''),
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#held.map(({ client }) => client.close()), ...this.nodes.map((node) => node.stop())])
    await this.#api.close()
    this.#network.remove()
  }

  /** Of the connections of this step and of those before it. */
  async #lost(): Promise<{ open: number; lost: number }> {
    let [open, lost] = [0, 0]
    for (const group of this.#held) {
      const { connections, dropped } = await group.client.report()
      open += connections - group.dropped
      lost += dropped - group.dropped
      group.dropped = dropped
    }
    return { open, lost }
  }

  async #connects(client: number): Promise<boolean> {
    const argv = [this.#traffic, 'ask', FOLLOWED.address, String(FOLLOWED.port), '1', '1']
    return run('ip', ['netns', 'exec', `client-${client}`, ...argv], { timeout: ASK_MS }).then(
      () => true,
      () => false,
    )
  }
}

async function referencesOf(task: UpgradeTask): Promise<References> {
  const references: References = new Map()
  for (const journey of task.journeys)
    for (const proxy of proxiesOf(journey)) {
      const key = keyOf(journey.nodes, proxy)
      if (references.has(key)) continue
      await withCluster(journey.nodes, task, async (cluster) => {
        await cluster.begin(proxy)
        await sleep(AFTER_MS)
        references.set(key, await Promise.all(cluster.nodes.map((node) => node.objects())))
      })
    }
  return references
}

async function withCluster(nodes: number, task: UpgradeTask, use: (cluster: Cluster) => Promise<void>): Promise<void> {
  const cluster = await Cluster.start(nodes, task)
  try {
    await use(cluster)
  } finally {
    await cluster.close()
  }
}

async function travel(journey: Journey, cluster: Cluster, references: References, steps: Step[]): Promise<void> {
  await cluster.begin(journey.first)
  for (const [index, pair] of pairsOf(journey).entries()) {
    const node = cluster.nodes[pair.node]
    const fresh = references.get(keyOf(journey.nodes, pair.to))?.[pair.node]
    if (node === undefined || fresh === undefined) throw new Error('a journey names a node that is not there')
    process.stderr.write(`  ${nameOf(pair.from)} to ${nameOf(pair.to)}${pair.isCleanup ? ', cleanup' : ''}\n`)
    let [followsMs, leftovers, missing]: [number, readonly string[], readonly string[]] = [0, [], []]
    const stall = monitorEventLoopDelay({ resolution: 10 })
    stall.enable()
    const counted = await cluster.during(index, async () => {
      if (pair.isCleanup) await node.cleanup()
      else if (isReload(pair)) node.configure(pair.to)
      else await node.start(pair.to)
      const endMs = performance.now() + SETTLED_MS
      for (;;) {
        const objects = await node.objects()
        leftovers = more(objects, fresh)
        missing = more(fresh, objects)
        const awaited = missing.length + (promisedFor(pair).noLeftovers ? leftovers.length : 0)
        if (awaited === 0 || performance.now() > endMs) break
        await sleep(POLL_MS)
      }
      followsMs = await cluster.follow()
    })
    stall.disable()
    steps.push({ ...pair, ...counted, heldMs: Math.round(stall.max / 1e6), followsMs, leftovers, missing })
  }
}

async function main(task: UpgradeTask): Promise<void> {
  const steps: Step[] = []
  const broken: string[] = []
  const references = await referencesOf(task)
  for (const journey of task.journeys)
    await withCluster(journey.nodes, task, (cluster) => travel(journey, cluster, references, steps)).catch(
      (error: unknown) => void broken.push(`${nameOf(journey.first)} and on: ${String(error)}`),
    )
  process.stdout.write(`${JSON.stringify({ steps, broken } satisfies Outcome)}\n`)
}

await main(JSON.parse(process.argv[2] ?? '') as UpgradeTask) // written by upgrade.ts
process.exit(0)
