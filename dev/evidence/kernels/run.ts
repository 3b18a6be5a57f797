/**
 * Runs the tests and the demo of the kernel matrix on one kernel, with a line of progress for each.
 * @impure
 */
import { CodedError } from '../../../src/values/errors.ts'
import { Unmet, finish, projectFolder, say, tail } from '../../progress.mjs'
import { DEADLINE_FACTOR_VARIABLE } from '../../kernel/calibrate.ts'
import { CHOICE_VARIABLE, type KernelChoice } from '../../kernel/choice.ts'
import { debianUserMode } from '../../kernel/debian-uml.ts'
import { unpackedImage } from '../../kernel/image.mjs'
import { GUEST_MEMORY_MIB, memoryFolder } from '../../kernel/memory-folder.mjs'
import { prepareQemu } from '../../kernel/qemu-files.mjs'
import { runInKernel } from '../../kernel/run.ts'
import type { FileResult } from '../../testing/result.ts'
import { runTestFiles } from '../test-files.ts'
import {
  coreTestOf,
  countsOf,
  cellOf,
  type Cell,
  type DemoResult,
  FIREWALLS,
  type FirewallName,
  formatCell,
  INTERFACE_TESTS,
  type KernelResult,
  type MatrixKernel,
  unmetCells,
  verdictOf,
} from './cells.ts'

/** Of the boot that asks the kernel for its name. */
const PROBE_MS = 15 * 60_000
/** Of one demo on the slowest kernel. */
const DEMO_MS = 60 * 60_000
/**
 * For deadlines in software emulation. The measured factor is not enough: other work on this
 * machine that begins after the measurement makes everything in the guest several times slower.
 */
const QEMU_FACTOR = 10

/** The least factor for deadlines of tests and demo on a kernel. */
function leastFactor({ kind }: KernelChoice): string {
  return process.env[DEADLINE_FACTOR_VARIABLE] ?? (kind === 'qemu' ? String(QEMU_FACTOR) : '2')
}

/** Fetches what the kernel needs. Throws Unmet. */
async function choiceOf({ provider, release }: MatrixKernel): Promise<KernelChoice> {
  const { env } = process
  if (provider === 'qemu') return (await prepareQemu(env, release)) as KernelChoice // it says kind: 'qemu'
  if (provider === 'uml' && release !== undefined) return debianUserMode(env, release)
  const memory = memoryFolder()
  if ('missing' in memory) throw new Unmet(memory.missing)
  return { ...(await unpackedImage(env)), memoryFolder: memory.folder, memoryMiB: GUEST_MEMORY_MIB }
}

/** Everything of the matrix on one kernel. `program`: the bundle. */
export async function runKernel(kernel: MatrixKernel, program: string, signal: AbortSignal): Promise<KernelResult> {
  const startedMs = performance.now()
  const seconds = (): number => Math.round((performance.now() - startedMs) / 1000)
  const { name, what } = kernel
  say(`${name}: ${what}`)
  let choice: KernelChoice
  let release: string
  try {
    choice = await choiceOf(kernel)
    release = await nameOf(choice, signal)
  } catch (error) {
    const cannotRun = error instanceof Unmet || (error instanceof CodedError && error.code === 'KERNEL_START')
    if (!cannotRun) throw error
    const reason = error.message
    say(`${name}: unmet: ${reason}`)
    const none = { passed: 0, failed: 0, unmet: [reason] }
    return { kernel: name, what, interface: none, firewalls: unmetCells(reason), seconds: seconds() }
  }
  const files = [...INTERFACE_TESTS, ...FIREWALLS.map(coreTestOf)]
  const results = await runTestFiles({ choice, files, program, leastFactor: leastFactor(choice), signal })
  const of = (files: readonly string[]): FileResult[] => results.filter(({ file }) => files.includes(file))
  // What belongs to no file (the kernel has died) counts for all of them.
  const known = [...INTERFACE_TESTS, ...FIREWALLS.map(coreTestOf)]
  const whole = results.filter(({ file }) => !known.includes(file))
  const cells: [FirewallName, Cell][] = []
  for (const firewall of FIREWALLS) {
    const tests = countsOf([...of([coreTestOf(firewall)]), ...whole])
    const demo = verdictOf(tests) === 'passed' ? await runDemo(choice, firewall) : undefined
    const cell = cellOf(tests, demo)
    say(`${name} (${release}) with ${firewall}: ${formatCell(cell)}`)
    cells.push([firewall, cell])
  }
  const firewalls = { ...unmetCells('it was not run'), ...Object.fromEntries(cells) }
  const base = countsOf([...of(INTERFACE_TESTS), ...whole])
  return { kernel: name, what, release, interface: base, firewalls, seconds: seconds() }
}

/** `uname -r` of the kernel. Throws where it does not start. */
async function nameOf(choice: KernelChoice, signal: AbortSignal): Promise<string> {
  let name = ''
  const ignore = (): void => undefined
  const stdout = (chunk: Buffer): void => {
    name += chunk.toString()
  }
  const run = { command: ['uname', '-r'], cwd: '/', env: {}, timeoutMs: PROBE_MS, signal }
  const code = await runInKernel(choice, { ...run, stdout, stderr: ignore })
  if (code !== 0) throw new Unmet(`uname ended with ${code} on this kernel`)
  return name.trim()
}

/** The demo as `npm start -- --once --output json` runs it, or why there is no result. */
async function runDemo(choice: KernelChoice, firewall: FirewallName): Promise<DemoResult | string> {
  const startedMs = performance.now()
  const { output } = await finish(process.execPath, ['dev/demo.ts', '--once', '--output', 'json'], {
    cwd: projectFolder,
    env: {
      ...process.env,
      [CHOICE_VARIABLE]: JSON.stringify(choice),
      [DEADLINE_FACTOR_VARIABLE]: leastFactor(choice),
      KUBE_IPVS_PARENT: String(process.pid), // it ends with this process
      KUBE_IPVS_DEMO_FIREWALL: firewall,
    },
    timeoutMs: DEMO_MS,
  })
  const line = output.split('\n').find((one) => one.startsWith('{"mode":"ipvs"'))
  if (line === undefined) return tail(output, 5)
  const { virtualServers, realServers, requests } = JSON.parse(line) as {
    virtualServers: number
    realServers: number
    requests: { sent: number; answered: number }
  } // written by dev/demo/session.ts
  const seconds = Math.round((performance.now() - startedMs) / 1000)
  return { virtualServers, realServers, sent: requests.sent, answered: requests.answered, seconds }
}
