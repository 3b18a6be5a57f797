/**
 * The part of the bench that runs in the measured kernel: the API server, the program that is
 * measured, and this process, which observes them. Prints one line of JSON (Outcome) on stdout. All
 * files that are written are in memory of the guest: its other files are the host's, and a log line
 * that waits for the host's disk would show in every time.
 */
import { mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import { ApiServerProcess } from './api-server-process.ts'
import { addNodeAddress, commandOf, NODE_NAME, writeConfiguration } from './guest-node.ts'
import { IptablesTable } from './iptables-table.ts'
import { IpvsTable } from './ipvs-table.ts'
import { MeasuredProgram } from './measured-program.ts'
import { measure } from './measure.ts'
import type { GuestTask } from './task.ts'
import { TableView } from './table-view.ts'

async function main(task: GuestTask): Promise<void> {
  const { services, endpoints, program, mode, firewall, phases, virtualAddresses } = task
  const folder = mkdtempSync('/run/kube-ipvs-bench-')
  addNodeAddress()
  const api = await ApiServerProcess.start(services, endpoints, NODE_NAME)
  const table = new TableView(mode === 'ipvs' ? await IpvsTable.open() : new IptablesTable())
  try {
    const watched = program === 'kube-ipvs' && phases.includes('inside')
    // Only our program knows the fields.
    const more = program === 'kube-ipvs' ? { kubeIPVS: { virtualAddresses, ...(firewall && { firewall }) } } : {}
    const command = commandOf(task, writeConfiguration(folder, mode, api.url, more), watched)
    const readings = watched ? { readings: join(folder, 'readings') } : {}
    const outcome = await measure({
      ...task,
      api,
      table,
      start: () => new MeasuredProgram({ command, logFile: join(folder, 'program.log'), ...readings }),
      say: (text) =>
        process.stderr.write(
          `  ${services} x ${endpoints}, ${program} in ${mode} mode${firewall === undefined ? '' : ` with ${firewall}`}: ${text}\n`,
        ),
    })
    process.stdout.write(`${JSON.stringify(outcome)}\n`)
  } finally {
    table.close()
    await api.stop()
  }
}

await main(JSON.parse(process.argv[2] ?? '') as GuestTask) // written by host.ts
process.exit(0)
