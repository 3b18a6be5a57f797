/**
 * The part of the bench that runs in the measured kernel: the API server, the program that is measured, and this process that
 * observes them. Prints one line of JSON (Measured, for traffic TrafficMeasured, for a cell CellOutcome) on stdout. All files that are written are in memory of the guest: its
 * other files are the host's, and a log line that waits for the host's disk would show in every time.
 */
import { mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import { ApiServerProcess } from './api-server-process.ts'
import type { CellLimits } from './cell.ts'
import { measureCell } from './cell-guest.ts'
import { addNodeAddress, commandOf, NODE_NAME, type ProgramCommand, writeConfiguration } from './guest-node.ts'
import { IptablesTable } from './iptables-table.ts'
import { IpvsTable } from './ipvs-table.ts'
import { MeasuredProgram } from './measured-program.ts'
import { countSystemCalls, type GuestWork, measure, type MeasureOptions } from './measure.ts'
import { NftablesTable } from './nftables-table.ts'
import type { BenchOptions } from './options.ts'
import type { AnyMode, Subject } from './result.ts'
import { type SeenTable, TableView } from './table-view.ts'
import { measureTraffic, type TrafficTask } from './traffic.ts'

/** The task from the host, as one argument of JSON. */
export interface GuestTask
  extends Pick<Subject, 'program'>,
    ProgramCommand,
    Pick<BenchOptions, 'endpoints' | 'changes' | 'idleSeconds' | 'slope' | 'virtualAddresses'>,
    Partial<Pick<BenchOptions, 'slopeChanges' | 'burstWithProbe'>> {
  readonly mode: AnyMode
  readonly work: GuestWork
  readonly services: number
  /** For the work `traffic`. */
  readonly traffic?: TrafficTask
  /** For the work `cell`. */
  readonly cell?: CellLimits
}

/** Fields of the configuration that only our program knows. */
function ownSettings({ program, virtualAddresses }: GuestTask): object {
  return program === 'kube-ipvs' ? { kubeIPVS: { virtualAddresses } } : {}
}

async function tableOf(mode: AnyMode): Promise<SeenTable> {
  switch (mode) {
    case 'ipvs':
      return IpvsTable.open()
    case 'iptables':
      return new IptablesTable()
    case 'nftables':
      return new NftablesTable()
  }
}

async function main(task: GuestTask): Promise<void> {
  const { services, endpoints } = task
  const folder = mkdtempSync('/run/kube-ipvs-bench-')
  addNodeAddress()
  const api = await ApiServerProcess.start(services, endpoints, NODE_NAME)
  const table = new TableView(await tableOf(task.mode))
  try {
    const publishes = task.program === 'kube-ipvs'
    const watched = publishes && task.work === 'whole'
    const command = commandOf(task, writeConfiguration(folder, task.mode, api.url, ownSettings(task)), watched)
    const options: MeasureOptions = {
      ...task,
      api,
      table,
      publishes,
      start: (stopped) =>
        new MeasuredProgram({
          command,
          stopped,
          logFile: join(folder, 'program.log'),
          ...(watched ? { readings: join(folder, 'readings') } : {}),
        }),
      say: (text) =>
        process.stderr.write(`  ${services} x ${endpoints}, ${task.program} in ${task.mode} mode: ${text}\n`),
    }
    const { program, result } =
      task.traffic !== undefined
        ? await measureTraffic(options, task.traffic)
        : task.cell !== undefined
          ? await measureCell(options, task.cell)
          : task.work === 'counted'
            ? await countSystemCalls(options, join(folder, 'system-calls'))
            : await measure(options)
    await program.stop()
    process.stdout.write(`${JSON.stringify(result)}\n`)
  } finally {
    table.close()
    await api.stop()
  }
}

await main(JSON.parse(process.argv[2] ?? '') as GuestTask) // written by bench.ts
process.exit(0)
