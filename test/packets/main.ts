/**
 * `npm run test:packets`: the packet oracle at length, on the test kernel. It sends thousands of
 * packets of generated scenarios into worlds that differ in their firewall alone.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { bundle } from '../../dev/bundle.ts'
import { CHOICE_VARIABLE, chosenKernel, describeKernel } from '../../dev/kernel/choice.ts'
import { runInKernel } from '../../dev/kernel/run.ts'
import { endWithParent } from '../../dev/parent.ts'
import { SEED_VARIABLE, seedOf } from '../../dev/testing/seed.ts'
import { PROGRAM_VARIABLE } from '../../dev/testing/variables.ts'
import { FIREWALLS } from '../support/firewalls.ts'
import type { PacketTask } from './guest.ts'

const ROOT = join(import.meta.dirname, '../..')
const RUN_MS = 80 * 60_000
const DEFAULT_PACKETS = 10_000
const USAGE = 'npm run test:packets [-- [--packets N] [--new-seed] [--firewall NAME]... [--mutants]]'

/** The exit code. */
async function main(args: readonly string[]): Promise<number> {
  const task = parseTask(args)
  if (typeof task === 'string') return fail(task, 2)
  const choice = chosenKernel(process.env)
  if (choice === undefined) return fail(`The oracle needs a kernel with IPVS (${CHOICE_VARIABLE} is empty).`, 1)
  const stopped = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => stopped.abort())
  endWithParent(stopped)
  process.stdout.write(`Packets on ${describeKernel(choice)}; ${SEED_VARIABLE}=${task.seed} repeats this run\n`)
  // Inside the repository, where the bundle finds koffi, and only for this run: another run may be building its own.
  mkdirSync(join(ROOT, '.cache'), { recursive: true })
  const directory = mkdtempSync(join(ROOT, '.cache/packets-'))
  try {
    const { entry } = await bundle({ directory })
    return await runInKernel(choice, {
      command: [process.execPath, 'test/packets/guest.ts', JSON.stringify(task)],
      cwd: ROOT,
      env: { ...process.env, [PROGRAM_VARIABLE]: entry },
      timeoutMs: RUN_MS,
      signal: stopped.signal,
      stdout: (chunk) => process.stdout.write(chunk),
      stderr: (chunk) => process.stderr.write(chunk),
    })
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

/** A text says what is wrong. */
function parseTask(args: readonly string[]): PacketTask | string {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        packets: { type: 'string', default: `${DEFAULT_PACKETS}` },
        'new-seed': { type: 'boolean', default: false },
        firewall: { type: 'string', multiple: true, default: [] },
        mutants: { type: 'boolean', default: false },
      },
    })
    const packets = Number(values.packets)
    const seed = seedOf(process.env, values['new-seed'])
    const names = FIREWALLS.slice(1).map(({ name }) => name)
    if (!(Number.isInteger(packets) && packets > 0)) return '--packets takes a whole number above 0'
    if (seed === undefined) return `${SEED_VARIABLE} takes a whole number`
    const unknown = values.firewall.find((name) => !names.includes(name))
    if (unknown !== undefined) return `--firewall takes one of ${names.join()}`
    return { packets, seed, firewalls: values.firewall, mutants: values.mutants }
  } catch (error) {
    return `${error instanceof Error ? error.message : String(error)}\n${USAGE}`
  }
}

function fail(message: string, code: number): number {
  process.stderr.write(`${message}\n`)
  return code
}

process.exit(await main(process.argv.slice(2)))
