/**
 * Runs cases one after the other: a line of JSON with a task comes in on stdin, a line with its result goes out on stdout.
 * The argument is the setting as JSON.
 * What could break: stdout carries nothing else; a case that kills this process is counted by who started it.
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
