/**
 * One fault in a guest: starts node, program and traffic, makes the fault, writes a change, ends
 * the fault, and prints one line of JSON (Seen).
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { holdConnections, rateOfConnections } from '../../bench/traffic-client.ts'
import { TrafficNetwork } from '../../bench/traffic-network.ts'
import type { Fault, Seen } from './fault.ts'
import { FAULTS } from './faults.ts'
import { ChaosNode, when } from './node.ts'
import { OperatorView } from './operator.ts'
import { tableLines, without } from './tables.ts'

/** The task from the host, as one argument of JSON. */
export interface ChaosTask {
  readonly fault: string
  /** How long the fault lasts. */
  readonly seconds: number
  /** Established connections, with a request each in a second. */
  readonly held: number
  /** New connections a second. */
  readonly rate: number
  readonly entry: string
  /** Path of the compiled `traffic.c`. */
  readonly traffic: string
}

/** An established connection that says nothing for longer is lost. */
const SILENT_SECONDS = 120
const BEFORE_MS = 3_000
const AFTER_MS = 5_000
/** After the end of the fault, until everything is as before. */
const RECOVERY_MS = 240_000
const POLL_MS = 250
const LINES = 5

async function main(task: ChaosTask): Promise<void> {
  const fault = FAULTS.find(({ name }) => name === task.fault)
  if (fault === undefined) throw new Error(`no fault is called ${task.fault}`)
  const node = new ChaosNode({
    entry: task.entry,
    mode: fault.mode ?? 'ipvs',
    configuration: fault.configuration ?? {},
  })
  await node.openApi()
  await fault.prepare?.(node)
  const network = await TrafficNetwork.start(ChaosNode.endpoints, task.traffic)
  node.start()
  await node.works()
  const client = { program: task.traffic, namespace: network.client, places: node.places(fault.nodePort ?? true) }
  const held = await holdConnections({ ...client, count: task.held, periodMs: 1_000, silentSeconds: SILENT_SECONDS })
  const made = await rateOfConnections({ ...client, perSecond: task.rate })
  await sleep(BEFORE_MS)
  try {
    const seen = await during(fault, node, task.seconds)
    await sleep(AFTER_MS)
    const reports = { held: await held.report(), made: await made.report() }
    const failures = `${held.failures}${made.failures}`.split('\n').filter((line) => line !== '')
    const result: Seen = { ...seen, ...reports, failures: failures.slice(0, LINES) }
    process.stdout.write(`${JSON.stringify(result)}\n`)
  } catch (error) {
    process.stderr.write(`${node.log().split('\n').slice(-20).join('\n')}\n`)
    throw error
  } finally {
    await node.close()
    await Promise.all([held.close(), made.close()])
    network.remove()
  }
}

async function during(
  fault: Fault,
  node: ChaosNode,
  seconds: number,
): Promise<Omit<Seen, 'held' | 'made' | 'failures'>> {
  const before = await tableLines()
  const operator = await OperatorView.begin(node.status, node.log)
  await fault.inject(node)
  const faultMs = performance.now()
  const added = node.add()
  const limitMs = seconds * 1000 + RECOVERY_MS
  const changed = when(added.isServed, limitMs)
  let isOver = false
  const hasAll = async (): Promise<boolean> => isOver || without(before, await paused()).length === 0
  const repaired = fault.expectation.repairedWithinS === undefined ? null : when(hasAll, limitMs)
  await sleep(seconds * 1000)
  const status = await operator.look()
  await fault.heal?.(node)
  const endMs = performance.now()
  const changeMs = await changed
  const changeAfterEndMs = changeMs === null ? null : Math.max(0, faultMs + changeMs - endMs)
  const repairedMs = await repaired
  isOver = true
  added.remove()
  let differences: string[] = []
  await when(async () => {
    const now = await paused()
    differences = [
      ...without(before, now).map((line) => `lacks ${line}`),
      ...without(now, before).map((line) => `has ${line}`),
    ]
    return differences.length === 0
  }, RECOVERY_MS)
  await node.works()
  return {
    seconds: (endMs - faultMs) / 1000,
    changeMs,
    changeAfterEndMs,
    repairedMs,
    differences: differences.slice(0, LINES),
    operator: await operator.end(status),
    notes: node.notes,
  }
}

/** The tables, read not too often: each look starts several programs. */
async function paused(): Promise<ReadonlySet<string>> {
  await sleep(POLL_MS)
  return tableLines()
}

await main(JSON.parse(process.argv[2] ?? '') as ChaosTask) // written by chaos.ts
process.exit(0)
