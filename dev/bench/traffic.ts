/** The phase `traffic`: new connections through one ClusterIP, from a client and to endpoints in network namespaces. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { IptablesTable } from './iptables-table.ts'
import type { MeasureOptions } from './task.ts'
import type { Measured } from './result.ts'
import { percentile } from './statistics.ts'
import { type Expected, SERVICE_PORT } from './table-view.ts'
import { TrafficNetwork } from './traffic-network.ts'

/** What a run makes. */
export const COUNTS = { requests: 2_000, connections: 8_000, clients: 8 } as const
/** Connections before the first one that counts. */
const WARM_UP = 200
const TIMEOUT_MS = 600_000

const run = promisify(execFile)

export async function trafficPhase({ api, mode, traffic, say }: MeasureOptions): Promise<Measured> {
  if (traffic === undefined) throw new Error('the task names no clients')
  const { program, requests, connections, clients } = traffic
  const service = middleOf(api.expected())
  const network = await TrafficNetwork.start(service.endpoints, program)
  try {
    const rulesBefore = mode === 'iptables' ? await rulesBeforeOf(service) : null
    const connect = (count: number, by: number): Promise<Asked> => askAll(network, program, service.address, count, by)
    await connect(WARM_UP, 1)
    const { latenciesUs } = await connect(requests, 1)
    const [latencyP50Us, latencyP99Us] = [percentile(latenciesUs, 0.5), percentile(latenciesUs, 0.99)]
    const connectionsPerSecond = (connections / (await connect(connections, clients)).totalUs) * 1e6
    say(
      `request p50 ${latencyP50Us?.toFixed(0)} µs, p99 ${latencyP99Us?.toFixed(0)} µs, ${connectionsPerSecond.toFixed(0)} connections a second`,
    )
    return { rulesBefore, latencyP50Us, latencyP99Us, connectionsPerSecond }
  } finally {
    network.remove()
  }
}

/** The Service in the middle of the list, through which traffic is sent. */
export function middleOf(all: readonly Expected[]): Expected {
  const measured = all[Math.floor(all.length / 2)]
  if (measured === undefined) throw new Error('there is no Service')
  return measured
}

async function rulesBeforeOf(measured: Expected): Promise<number> {
  const table = new IptablesTable()
  try {
    return await table.rulesBefore(measured)
  } finally {
    table.close()
  }
}

/** Connections that `traffic ask` made. */
export interface Asked {
  /** Of each connection; empty with more than one client. */
  readonly latenciesUs: readonly number[]
  readonly totalUs: number
}

/** Makes new connections from the client's namespace; rejects when one of them fails. */
async function askAll(
  { client }: TrafficNetwork,
  program: string,
  address: string,
  count: number,
  clients: number,
): Promise<Asked> {
  const args = [program, 'ask', address, `${SERVICE_PORT}`, `${count}`, `${clients}`]
  const { stdout } = await run('ip', ['netns', 'exec', client, ...args], {
    timeout: TIMEOUT_MS,
    maxBuffer: 64 * 1024 * 1024,
  })
  return parseTraffic(stdout)
}

/** Reads what `traffic ask` prints. */
export function parseTraffic(output: string): Asked {
  const total = /^total=([\d.]+)$/m.exec(output)?.[1]
  if (total === undefined) throw new Error(`the clients print no total: ${output.slice(0, 200)}`)
  return { latenciesUs: [...output.matchAll(/^[\d.]+$/gm)].map(([text]) => Number(text)), totalUs: Number(total) }
}
