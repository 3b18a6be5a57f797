/**
 * The part `chaos` of the evidence: faults of the process, the kernel, the node and the API server,
 * each in a fresh guest, while connections run and are counted.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { boot } from '../bench/boot.ts'
import { compile } from '../bench/floor.ts'
import { bundle } from '../bundle.ts'
import { describeKernel, type KernelChoice, kernelWithModules } from '../kernel/choice.ts'
import { chooseKernel } from '../kernel/choose.mjs'
import { ensurePackages } from '../packages.mjs'
import { projectFolder, say, Unmet } from '../progress.mjs'
import type { Fault, Seen } from './chaos/fault.ts'
import { FAULTS } from './chaos/faults.ts'
import type { ChaosTask } from './chaos/guest.ts'
import { type Broken, brokenExpectations, rowOf } from './chaos/judge.ts'
import type { Part, PartResult } from './part.ts'

const GUEST = join(import.meta.dirname, 'chaos/guest.ts')
const TOOLS = ['ip', 'ipvsadm', 'iptables', 'ipset', 'nft', 'prlimit', 'gcc', '/usr/include/stdio.h']
/** Established connections, and new ones a second. */
const COUNTS = { held: 200, rate: 25 } as const
/** What --hours is by default, and the length of a long fault then. */
const HOURS = 1
const LONG_SECONDS = 600
/** Start, recovery and end of a guest on a slow machine. */
const BESIDE_MS = 900_000

export const chaos: Part = {
  name: 'chaos',
  purpose: 'faults of the process, the kernel, the node and the API server, while connections run and are counted',
  run: async ({ hours = HOURS, signal }) => measureFaults(FAULTS, hours, signal),
}

export async function measureFaults(faults: readonly Fault[], hours: number, signal: AbortSignal): Promise<PartResult> {
  await ensurePackages(TOOLS)
  // A kernel whose IPVS is a module, for one fault, which is unmet without it.
  await ensurePackages(['linux.uml', 'modprobe']).catch((error: unknown) => {
    if (!(error instanceof Unmet)) throw error
    say(error.message)
  })
  const choice = (await chooseKernel(process.env)) as KernelChoice // as dev/kernel/choice.ts describes it
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-chaos-'))
  // Inside the repository: the bundle finds koffi in its node_modules.
  mkdirSync(join(projectFolder, '.cache'), { recursive: true })
  const bundled = mkdtempSync(join(projectFolder, '.cache/chaos-'))
  try {
    const { entry } = await bundle({ directory: bundled })
    const compiled = await compile(join(projectFolder, 'dev/bench/traffic.c'), folder)
    if ('missing' in compiled) throw new Unmet(`chaos needs its clients: ${compiled.missing}`)
    const problems: string[] = []
    const repeated: string[] = []
    const unmet: string[] = []
    const seen: { readonly fault: Fault; readonly seen: Seen }[] = []
    for (const fault of faults) {
      const kernel = fault.kernel === 'modules' ? kernelWithModules(choice) : choice
      if (kernel === undefined) {
        unmet.push(`${fault.name}: no kernel whose IPVS is a module is installed (user-mode-linux)`)
        continue
      }
      const seconds = fault.seconds === 'long' ? Math.max(5, Math.round(LONG_SECONDS * hours)) : fault.seconds
      const task = { ...COUNTS, fault: fault.name, seconds, entry, traffic: compiled.program }
      const first = await measureFault(kernel, fault, task, signal)
      // A second guest tells a busy machine from a defect. A connection that is lost once is lost.
      const last = first.broken.length === 0 ? first : await measureFault(kernel, fault, task, signal)
      const losses = last === first ? [] : first.broken.filter(({ isLoss }) => isLoss)
      problems.push(...[...losses, ...last.broken].map(({ text }) => text))
      if (last !== first && last.broken.length === 0) repeated.push(...first.broken.map(({ text }) => text))
      if (last.seen !== undefined) seen.push({ fault, seen: last.seen })
    }
    return {
      problems,
      asExpectedOnlyTheSecondTime: repeated,
      unmet,
      kernel: describeKernel(choice),
      established: COUNTS.held,
      newPerSecond: COUNTS.rate,
      longFaultSeconds: Math.round(LONG_SECONDS * hours),
      lostEstablished: seen.reduce((sum, one) => sum + one.seen.held.dropped, 0),
      failedNew: seen.reduce((sum, one) => sum + one.seen.made.failed, 0),
      madeNew: seen.reduce((sum, one) => sum + one.seen.made.made, 0),
      table: seen.map((one) => rowOf(one.fault, one.seen)),
      faults: seen.map((one) => ({ name: one.fault.name, ...one.seen })),
    }
  } finally {
    for (const path of [folder, bundled]) rmSync(path, { recursive: true, force: true })
  }
}

/** What a fresh guest has seen, and what is not as expected of that. */
async function measureFault(
  choice: KernelChoice,
  fault: Fault,
  task: ChaosTask,
  signal: AbortSignal,
): Promise<{ readonly seen?: Seen; readonly broken: readonly Broken[] }> {
  say(`  ${task.fault}, ${task.seconds} s ...`)
  const options = { choice, cwd: projectFolder, signal }
  const command = [process.execPath, GUEST, JSON.stringify(task)]
  const failed = (why: string) => ({ broken: [{ text: `${fault.name}: ${why}`, isLoss: false }] })
  try {
    const { code, stdout } = await boot(command, BESIDE_MS + task.seconds * 1000, options)
    if (code !== 0) return failed(`the guest ended with code ${code}`)
    const seen = JSON.parse(stdout) as Seen // written by guest.ts
    const broken = brokenExpectations(fault, seen)
    say(`  ${broken.length === 0 ? `${fault.name}: as expected` : broken.map(({ text }) => text).join('; ')}`)
    for (const failure of broken.length === 0 ? [] : seen.failures) say(`    ${failure}`)
    return { seen, broken }
  } catch (error) {
    signal.throwIfAborted()
    return failed(error instanceof Error ? error.message : String(error))
  }
}
