/**
 * Runs test files on the chosen kernel: boots as many guests as the files need, receives their
 * messages, and accounts for every file, whether it ended, was stopped, was not begun or was left
 * out.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { deadlineFactor, formatCalibration } from '../kernel/calibrate.ts'
import { canBeBare, type KernelChoice, kernelWithModules } from '../kernel/choice.ts'
import { allowedProcessors } from '../kernel/processors.ts'
import { runInKernel } from '../kernel/run.ts'
import { hasDirective, isForBareGuest } from './directives.ts'
import type { KernelStageMessage, KernelStageTask } from './kernel-stage.ts'
import { limitsFor } from './limits.ts'
import { isKernelWide } from './recordings.ts'
import { type FileResult, failedRun, notRun } from './result.ts'

export interface KernelRun {
  readonly choice: KernelChoice
  /** The longest first. */
  readonly files: readonly string[]
  readonly cwd: string
  readonly env: NodeJS.ProcessEnv
  /** See `limitsFor`. */
  readonly mayLeaveOut: boolean
  /** Whether one guest runs them, one after the other; default false. */
  readonly oneAtATime?: boolean
  readonly signal: AbortSignal
  /** Prints a line for people. */
  print(line: string): void
  ended(result: FileResult): void
}

/** These need a separate guest, booted without IPv6. */
const isWithoutIpv6 = (file: string): boolean => file.startsWith('test/kernel/no-ipv6/')
/**
 * These need a guest whose kernel has IPVS as a module, and run one at a time: modules and how they
 * are loaded are the same in all namespaces.
 */
const needsModules = (file: string): boolean => file.startsWith('test/kernel/modules/')

/** Time for the last results of a stage that is stopped. */
const GRACE_MS = 60_000

/**
 * Returns the files that were left out because the kernel is slow. User-mode Linux with two
 * processors wakes a process on the other one only at its next tick, and threads of one process
 * wait for each other by spinning, so there are two guests with one processor each; kept on one
 * processor of this machine, a guest has its system calls and page faults for two thirds of the
 * time, because its processes hand over to each other at each of them.
 */
export async function runOnKernel(run: KernelRun): Promise<readonly string[]> {
  const { choice, files } = run
  const withoutIpv6 = files.filter(isWithoutIpv6)
  const withModules = files.filter(needsModules)
  const kernelWide = files.filter(isKernelWide)
  const bare = files.filter((file) => isForBareGuest(file, run.cwd))
  const alone = files.filter((file) => hasDirective(file, '@alone', run.cwd))
  const special = new Set([...withoutIpv6, ...withModules, ...kernelWide, ...bare, ...alone])
  const others = files.filter((file) => !special.has(file))
  if (choice.kind === 'host') for (const file of withoutIpv6) run.ended(notRun(file, 'a kernel without IPv6'))
  const modular = kernelWithModules(choice)
  if (modular === undefined)
    for (const file of withModules) run.ended(notRun(file, 'a guest with IPVS as a module (package user-mode-linux)'))
  if (!canBeBare(choice))
    for (const file of bare)
      run.ended(notRun(file, 'a guest without ip_set and xtables (the kernel in dev/kernel/image)'))
  const guests = choice.kind === 'uml' && run.oneAtATime !== true ? Math.min(2, availableParallelism()) : 1
  const boots: Boot[] = [
    ...Array.from({ length: guests }, () => ({ files: others, oneAtATime: run.oneAtATime ?? false })),
    ...(choice.kind === 'host' ? [] : [{ files: withoutIpv6, kernelParameters: ['ipv6.disable=1'] }]),
    ...(modular === undefined ? [] : [{ files: withModules, choice: modular, oneAtATime: true }]),
    ...(canBeBare(choice) ? [{ files: bare, isBare: true }] : []),
    { files: alone, oneAtATime: true },
    { files: kernelWide, oneAtATime: true, isolated: choice.kind === 'host' },
  ].filter((boot) => boot.files.length > 0)
  const processors = allowedProcessors()
  const claims = mkdtempSync(join(tmpdir(), 'kube-ipvs-claims-'))
  try {
    const states = await Promise.all(
      boots.map((boot, index) => runGuest(run, boot, claims, processors[index % processors.length])),
    )
    return account(run, [...new Set(boots.flatMap((boot) => boot.files))], states)
  } finally {
    rmSync(claims, { recursive: true })
  }
}

interface Boot {
  readonly files: readonly string[]
  /** Default: none. */
  readonly kernelParameters?: readonly string[]
  /** See KernelCommand; default false. */
  readonly isBare?: boolean
  /** Default: the chosen kernel. */
  readonly choice?: KernelChoice
  /** See KernelStageTask; default false. */
  readonly oneAtATime?: boolean
  /** See KernelStageTask; default true. */
  readonly isolated?: boolean
}

/** The result of one guest. */
export interface GuestState {
  readonly begun: Set<string>
  readonly ended: Set<string>
  /** It may have stopped because the time to begin files had ended: see `limitsFor`. */
  mayHaveLeftOut: boolean
  /** Why it failed; undefined when it did not. */
  trouble: string | undefined
}

/** Boots the kernel once and runs the files that no other guest has claimed. */
async function runGuest(
  run: KernelRun,
  { files, kernelParameters = [], isBare = false, choice = run.choice, oneAtATime = false, isolated = true }: Boot,
  claims: string,
  processor: number | undefined,
): Promise<GuestState> {
  const { mayLeaveOut, cwd, env, signal } = run
  const state: GuestState = { begun: new Set(), ended: new Set(), mayHaveLeftOut: false, trouble: undefined }
  const late = new AbortController()
  let limit: NodeJS.Timeout | undefined
  const receive = (message: KernelStageMessage): void => {
    switch (message.kind) {
      case 'kernel': {
        const factor = deadlineFactor(message.calibration, env)
        const { stageMs, beginWithinMs } = limitsFor(factor, mayLeaveOut)
        run.print(`${formatCalibration(message.calibration)}; deadlines x ${factor}`)
        state.mayHaveLeftOut = beginWithinMs !== undefined
        limit = setTimeout(() => {
          state.trouble = `the files did not end within ${Math.round(stageMs / 1000)} s`
          late.abort()
        }, stageMs)
        return
      }
      case 'begun':
        state.begun.add(message.file)
        return
      case 'ended':
        state.ended.add(message.result.file)
        run.ended(message.result)
    }
  }
  let partial = ''
  let errors = ''
  try {
    const task: KernelStageTask = { claims, files, mayLeaveOut, oneAtATime, isolated }
    const code = await runInKernel(choice, {
      command: [process.execPath, 'dev/testing/kernel-stage.ts', JSON.stringify(task)],
      cwd,
      env,
      kernelParameters,
      isBare,
      ...(choice.kind === 'uml' && processor !== undefined
        ? { processor: { number: processor, hasPriority: false } }
        : {}),
      // The limit above begins when the guest reports its speed; this one is for a guest that never does.
      timeoutMs: limitsFor(Number.POSITIVE_INFINITY, false).stageMs,
      graceMs: GRACE_MS,
      signal: AbortSignal.any([signal, late.signal]),
      stdout: (chunk) => {
        const lines = (partial + chunk.toString()).split('\n')
        partial = lines.pop() ?? ''
        for (const line of lines) receive(JSON.parse(line) as KernelStageMessage) // written by kernel-stage.ts
      },
      stderr: (chunk) => {
        errors = (errors + chunk.toString()).slice(-10_000)
      },
    })
    if (code !== 0) state.trouble ??= `the run on the kernel ended with exit code ${code}\n${errors}`
  } catch (error) {
    state.trouble ??= error instanceof Error ? error.message : String(error)
  } finally {
    clearTimeout(limit)
  }
  if (state.trouble !== undefined) run.ended(failedRun('(kernel tests)', state.trouble))
  return state
}

/** Reports every file that did not end as left out or failed. Returns those left out. */
export function account(
  { signal, ended }: Pick<KernelRun, 'signal' | 'ended'>,
  files: readonly string[],
  guests: readonly GuestState[],
): string[] {
  const missing = files.filter((file) => !guests.some((guest) => guest.ended.has(file)))
  const begun = (file: string): boolean => guests.some((guest) => guest.begun.has(file))
  const isWhole = !signal.aborted && guests.every(({ trouble }) => trouble === undefined)
  const mayBeLeftOut = isWhole && guests.some(({ mayHaveLeftOut }) => mayHaveLeftOut)
  const leftOut = mayBeLeftOut ? missing.filter((file) => !begun(file)) : []
  for (const file of missing)
    if (leftOut.includes(file)) ended(notRun(file, 'more time on this slow kernel'))
    else ended(failedRun(file, begun(file) ? 'it was begun and did not end' : 'it was not begun'))
  return leftOut
}
