/**
 * Boots: each command of the bench runs in a kernel of its own that has just started, since deleted destinations slow a kernel down
 * for two minutes. Everything of a boot is kept on one processor of this machine, and the guest has one processor. A system call of
 * user-mode Linux is a hand-over between two threads of this machine: on two processors it costs whatever waking the other one
 * costs there, and so do the wake-ups between the program, the API server and this bench's own looks. On one processor those are
 * context switches, which cost the same from one run to the next. Where it may, the guest also goes before other work.
 */
import { type Disturbance, disturbanceBetween, look } from './machine.ts'
import type { KernelChoice } from '../kernel/choice.ts'
import type { OneProcessor } from '../kernel/guest.ts'
import { runInKernel } from '../kernel/run.ts'

export interface BootOptions {
  readonly choice: KernelChoice
  readonly cwd: string
  readonly signal: AbortSignal
  /** Absent: free to move, on two processors. */
  readonly processor?: OneProcessor
}

export interface Boot {
  readonly code: number
  readonly stdout: string
  /** undefined when nothing was kept on one processor. */
  readonly disturbance: Disturbance | undefined
}

/** Runs a command in a fresh boot; its stderr is ours. */
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
