/**
 * Runs each command of the bench in a freshly booted kernel, because deleted destinations slow a
 * kernel down for two minutes. A boot runs on one processor of this machine, and its guest has one
 * processor. A system call of user-mode Linux switches between two threads of this machine: on two
 * processors it costs as much as waking the other processor, and so does every wake-up between the
 * program, the API server and the bench. On one processor these are context switches, whose cost
 * does not vary between runs. With root's rights the guest also has priority over other work.
 */
import { type Disturbance, disturbanceBetween, look } from './machine.ts'
import { type KernelChoice, withMemory } from '../kernel/choice.ts'
import type { OneProcessor } from '../kernel/guest.ts'
import { runInKernel } from '../kernel/run.ts'

export interface BootOptions {
  readonly choice: KernelChoice
  readonly cwd: string
  readonly signal: AbortSignal
  /** Absent: the boot may use two processors. */
  readonly processor?: OneProcessor
}

export interface Boot {
  readonly code: number
  readonly stdout: string
  /** undefined when the boot was not kept on one processor. */
  readonly disturbance: Disturbance | undefined
}

/**
 * While a program listens to announcements of nf_tables, the kernel keeps a page and more for each
 * rule of a restore until its end: 1 GiB and more at 10,000 Services with 5 endpoints in iptables
 * mode, beside the programs.
 */
const MEMORY_MIB: readonly (readonly [moreThan: number, memoryMiB: number])[] = [
  [20_000, 12_288],
  [5_000, 4_096],
]

/** The same, with enough memory for so many Services. */
export function bootsFor(services: number, boots: BootOptions): BootOptions {
  const memoryMiB = MEMORY_MIB.find(([moreThan]) => services > moreThan)?.[1]
  return memoryMiB === undefined ? boots : { ...boots, choice: withMemory(boots.choice, memoryMiB) }
}

/** Runs a command in a fresh boot; its stderr is passed on. */
export async function boot(command: readonly string[], timeoutMs: number, options: BootOptions): Promise<Boot> {
  const { choice, cwd, signal, processor } = options
  signal.throwIfAborted()
  let stdout = ''
  const before = processor === undefined ? undefined : look(processor.number)
  const code = await runInKernel(choice, {
    command,
    cwd,
    env: process.env,
    timeoutMs,
    signal,
    ...(processor === undefined ? {} : { processor }),
    stdout: (chunk) => {
      stdout += chunk.toString()
    },
    stderr: (chunk) => process.stderr.write(chunk),
  })
  signal.throwIfAborted()
  const disturbance =
    processor === undefined || before === undefined ? undefined : disturbanceBetween(before, look(processor.number))
  return { code, stdout, disturbance }
}
