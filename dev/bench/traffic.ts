/** Real traffic through one ClusterIP in the measured kernel, and then changes, for the experiment. */
import { execFile } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { IptablesTable } from './iptables-table.ts'
import { changePhase, type MeasureOptions, SETTLE_MS, tableComplete } from './measure.ts'
import type { MeasuredProgram } from './measured-program.ts'
import type { ExperimentCounts } from './options.ts'
import { percentile } from './statistics.ts'
import { type Expected, SERVICE_PORT } from './table-view.ts'
import { TrafficNetwork } from './traffic-network.ts'

export interface TrafficTask extends ExperimentCounts {
  /** Path of the compiled `traffic.c`. */
  readonly program: string
}

/** What one boot measures; times in the units of the names. */
export interface TrafficMeasured {
  /** Rules of KUBE-SERVICES before that of the measured Service; null in ipvs mode, which has no such list. */
  readonly rulesBefore: number | null
  /** From connect(2) to the end of the response on a new connection. */
  readonly latencyP50Us: number | null
  readonly latencyP99Us: number | null
  readonly connectionsPerSecond: number | null
  /** How many changes were timed. */
  readonly changes: number
  /** From the change in the API server to the kernel. */
  readonly changeP50Ms: number | null
  readonly changeP99Ms: number | null
}

/** Connections before the first one that counts. */
const WARM_UP = 200
const TIMEOUT_MS = 600_000

const run = promisify(execFile)

/** Starts the program, and ends it when something fails. */
export async function measureTraffic(
  options: MeasureOptions,
  task: TrafficTask,
): Promise<{ readonly program: MeasuredProgram; readonly result: TrafficMeasured }> {
  const { api, mode, say } = options
  const measured = middleOf(api.expected())
  const network = await TrafficNetwork.start(measured.endpoints, task.program)
  const program = options.start(false)
  try {
    const completeMs = await tableComplete(options, program, program.startedMs + TIMEOUT_MS)
    say(`table complete after ${((completeMs - program.startedMs) / 1000).toFixed(1)} s`)
    await sleep(SETTLE_MS)
    const rulesBefore = mode === 'iptables' ? await rulesBeforeOf(measured) : null
    const connections = (count: number, clients: number): Promise<Asked> =>
      askAll(network, task.program, measured.address, count, clients)
    await connections(WARM_UP, 1)
    const { latenciesUs } = await connections(task.requests, 1)
    const [latencyP50Us, latencyP99Us] = [percentile(latenciesUs, 0.5), percentile(latenciesUs, 0.99)]
    say(`${latenciesUs.length} requests, p50 ${latencyP50Us?.toFixed(0)} µs, p99 ${latencyP99Us?.toFixed(0)} µs`)
    const { totalUs } = await connections(task.connections, task.clients)
    const connectionsPerSecond = (task.connections / totalUs) * 1e6
    say(`${connectionsPerSecond.toFixed(0)} connections a second`)
    const { changes, changeP50Ms, changeP99Ms } = await changePhase(options, program)
    return {
      program,
      result: {
        rulesBefore,
        latencyP50Us,
        latencyP99Us,
        connectionsPerSecond,
        changes: changes ?? 0,
        changeP50Ms: changeP50Ms ?? null,
        changeP99Ms: changeP99Ms ?? null,
      },
    }
  } catch (error) {
    await program.stop()
    throw error
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
