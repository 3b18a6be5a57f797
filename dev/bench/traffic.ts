/**
 * Real traffic through one ClusterIP in the measured kernel, and then changes, for the experiment:
 *
 *     client (namespace) ── node (this process's namespace) ── pods (namespace)
 *
 * The client is like a pod on the node, and every endpoint of the measured Service is an address of `pods`. `traffic.c` sends and
 * answers.
 */
import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { IptablesTable } from './iptables-table.ts'
import { changePhase, type MeasureOptions, SETTLE_MS, tableComplete } from './measure.ts'
import type { MeasuredProgram } from './measured-program.ts'
import type { ExperimentCounts } from './options.ts'
import type { Mode } from './result.ts'
import { percentile } from './statistics.ts'
import { type Expected, SERVICE_PORT } from './table-view.ts'

const run = promisify(execFile)

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
const SERVER_PROCESSES = 8
const POD_PORT = 8080
/** Names in /run/netns, which other measurements in namespaces of one kernel share. */
const CLIENT = `client-${process.pid}`
const PODS = `pods-${process.pid}`
const TIMEOUT_MS = 600_000
/** Longer than minSyncPeriod of iptables mode (1 s), so that no change waits for it. */
const BETWEEN_CHANGES_MS = 1_200

/** Starts the program, and ends it when something fails. */
export async function measureTraffic(
  options: MeasureOptions,
  mode: Mode,
  task: TrafficTask,
): Promise<{ readonly program: MeasuredProgram; readonly result: TrafficMeasured }> {
  const { api, services, say } = options
  const all = api.expected()
  const measured = all[Math.floor(services / 2)]
  if (measured === undefined) throw new Error(`there is no Service in the middle of ${services}`)
  buildNetwork([...measured.endpoints].map((endpoint) => endpoint.replace(/:.*/, '')))
  const server = spawn('ip', ['netns', 'exec', PODS, task.program, 'serve', `${POD_PORT}`, `${SERVER_PROCESSES}`], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(server.stdout, 'data')
  const program = options.start(false)
  try {
    const completeMs = await tableComplete(options, program, program.startedMs + TIMEOUT_MS)
    say(`table complete after ${((completeMs - program.startedMs) / 1000).toFixed(1)} s`)
    await sleep(SETTLE_MS)
    const rulesBefore = mode === 'iptables' ? await rulesBeforeOf(measured) : null
    await connections(task.program, measured.address, WARM_UP, 1)
    const latencies = (await connections(task.program, measured.address, task.requests, 1)).latenciesUs
    const [latencyP50Us, latencyP99Us] = [percentile(latencies, 0.5), percentile(latencies, 0.99)]
    say(`${latencies.length} requests, p50 ${latencyP50Us?.toFixed(0)} µs, p99 ${latencyP99Us?.toFixed(0)} µs`)
    const { totalUs } = await connections(task.program, measured.address, task.connections, task.clients)
    const connectionsPerSecond = (task.connections / totalUs) * 1e6
    say(`${connectionsPerSecond.toFixed(0)} connections a second`)
    const { changes, changeP50Ms, changeP99Ms } = await changePhase(options, program, BETWEEN_CHANGES_MS)
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
    server.kill('SIGKILL')
    for (const name of [CLIENT, PODS]) execFileSync('ip', ['netns', 'delete', name])
  }
}

async function rulesBeforeOf(measured: Expected): Promise<number> {
  const table = new IptablesTable()
  try {
    return await table.rulesBefore(measured)
  } finally {
    table.close()
  }
}

/** Makes new connections from the client's namespace; rejects when one of them fails. */
async function connections(
  program: string,
  address: string,
  count: number,
  clients: number,
): Promise<{ readonly latenciesUs: readonly number[]; readonly totalUs: number }> {
  const args = [program, 'ask', address, `${SERVICE_PORT}`, `${count}`, `${clients}`]
  const { stdout } = await run('ip', ['netns', 'exec', CLIENT, ...args], {
    timeout: TIMEOUT_MS,
    maxBuffer: 64 * 1024 * 1024,
  })
  return parseTraffic(stdout)
}

/** Reads what `traffic ask` prints. */
export function parseTraffic(output: string): { readonly latenciesUs: readonly number[]; readonly totalUs: number } {
  const total = /^total=([\d.]+)$/m.exec(output)?.[1]
  if (total === undefined) throw new Error(`the clients print no total: ${output.slice(0, 200)}`)
  return { latenciesUs: [...output.matchAll(/^[\d.]+$/gm)].map(([text]) => Number(text)), totalUs: Number(total) }
}

/** Each connection has a port of its own: the kernel keeps it for a minute after the end. */
function buildNetwork(endpoints: readonly string[]): void {
  const link = (name: string, device: string, node: string, address: string): string => `
ip netns add ${name}
ip link add ${device} type veth peer name eth0 netns ${name}
ip address add ${node}/30 dev ${device}
ip link set ${device} up
ip -n ${name} link set lo up
ip -n ${name} link set eth0 up
ip -n ${name} address add ${address}/30 dev eth0
ip -n ${name} route add default via ${node}`
  const script = `echo 1 >/proc/sys/net/ipv4/ip_forward
${link(CLIENT, 'v-client', '192.168.100.1', '192.168.100.2')}
${link(PODS, 'v-pods', '192.168.101.1', '192.168.101.2')}
ip netns exec ${CLIENT} sh -c 'echo 1024 65000 >/proc/sys/net/ipv4/ip_local_port_range'
${endpoints.map((address) => `ip -n ${PODS} address add ${address}/32 dev lo\nip route add ${address} via 192.168.101.2`).join('\n')}`
  execFileSync('sh', ['-ec', script])
}
