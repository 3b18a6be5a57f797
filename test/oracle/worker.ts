/**
 * Runs cases one after the other: reads a line of JSON with a task on stdin and writes a line with
 * its result, and nothing else, on stdout. The argument is the setting as JSON.
 */
import { writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { type CaseSetting, type CaseTask, runCase } from './run-case.ts'

const setting = JSON.parse(process.argv[2] ?? '') as CaseSetting // written by guest.ts
try {
  writeFileSync('/proc/sys/kernel/hostname', 'node0')
} catch {
  // Every configuration names the node by hostnameOverride.
}
for await (const line of createInterface({ input: process.stdin })) {
  const result = await runCase(JSON.parse(line) as CaseTask, setting) // written by guest.ts
  process.stdout.write(`${JSON.stringify(result)}\n`)
}
process.exit(0)
