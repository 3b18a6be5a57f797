/**
 * The compiled traffic of the bench in a cluster's namespaces: servers in place of pods a and c,
 * and clients in the client's namespace. For a thousand connections and more, which sockets of this
 * process would be too slow for.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TRAFFIC_VARIABLE } from '../../dev/testing/variables.ts'
import { compile } from '../../dev/bench/floor.ts'
import {
  type HeldReport,
  holdConnections,
  type RateReport,
  rateOfConnections,
  type TrafficClient,
  type TrafficPlace,
} from '../../dev/bench/traffic-client.ts'
import { POD_PORT } from './cluster.ts'

/** Source ports of held connections. */
const FIRST_PORT = 10_000
/**
 * Source ports of new connections, this many for each client. Conntrack keeps a connection that was
 * reset for 10 s more. A SYN from the same port belongs to it then, and the rest of that connection
 * to none once the 10 s are over, so that its client gets a reset from the node.
 */
const RATE = { firstPort: 20_000, ports: 11_000, clients: 4 } as const

async function compileTraffic(folder: string): Promise<string> {
  const compiled = await compile(join(import.meta.dirname, '../../dev/bench/traffic.c'), folder)
  assert.ok('program' in compiled, JSON.stringify(compiled))
  return compiled.program
}

export class ClusterTraffic {
  readonly #folder: string
  readonly #program: string
  readonly #servers: ChildProcess[] = []
  /** Connections that were opened to be held, each with its own source port. */
  #held = 0
  #rates = 0
  readonly #clients: TrafficClient<unknown>[] = []

  /** Starts the servers. The cluster must be started, without servers of TCP. */
  static async start(): Promise<ClusterTraffic> {
    const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-cluster-traffic-'))
    const traffic = new ClusterTraffic(folder, process.env[TRAFFIC_VARIABLE] ?? (await compileTraffic(folder)))
    for (const host of ['a', 'other']) await traffic.#serve(`${host}-${process.pid}`)
    return traffic
  }

  private constructor(folder: string, program: string) {
    this.#folder = folder
    this.#program = program
  }

  async #serve(namespace: string): Promise<void> {
    const argv = [
      '--pdeathsig',
      'KILL',
      '--',
      'ip',
      'netns',
      'exec',
      namespace,
      this.#program,
      'serve',
      `${POD_PORT}`,
      '1',
    ]
    const server = spawn('setpriv', argv, { stdio: ['ignore', 'pipe', 'inherit'] })
    this.#servers.push(server)
    if (server.stdout !== null) await once(server.stdout, 'data')
  }

  get #clientOptions() {
    return { program: this.#program, namespace: `client-${process.pid}` }
  }

  /** Established connections that each send a request in each period. */
  async hold(places: readonly TrafficPlace[], count: number, periodMs: number): Promise<TrafficClient<HeldReport>> {
    const firstPort = FIRST_PORT + this.#held
    this.#held += count
    const held = await holdConnections({ ...this.#clientOptions, places, count, periodMs, firstPort })
    this.#clients.push(held)
    return held
  }

  /** New connections at a steady rate, from ports that no other client has used. */
  async rate(places: readonly TrafficPlace[], perSecond: number): Promise<TrafficClient<RateReport>> {
    assert.ok(this.#rates < RATE.clients, 'there are no more source ports')
    const firstPort = RATE.firstPort + RATE.ports * this.#rates++
    const rate = await rateOfConnections({ ...this.#clientOptions, places, perSecond, firstPort })
    this.#clients.push(rate)
    return rate
  }

  async close(): Promise<void> {
    for (const client of this.#clients) await client.close()
    for (const server of this.#servers) server.kill('SIGKILL')
    rmSync(this.#folder, { recursive: true })
  }
}
