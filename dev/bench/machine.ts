/**
 * The machine under the measurement: which of its processors is the idlest, and how much of it
 * other work takes. A guest cannot see this, so the bench reads it on the host.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { BEFORE_OTHERS } from '../kernel/guest.ts'
import { allowedProcessors } from '../kernel/processors.ts'

/** Clock ticks (USER_HZ, 100 a second) of one processor since the start of the machine: see /proc/stat in proc(5). */
export interface ProcessorTicks {
  readonly total: number
  readonly busy: number
  /** Taken by the hypervisor for other machines. */
  readonly steal: number
}

/** Shares of the time that the processor of the measurement had, in percent. */
export interface Disturbance {
  /** Used by processes outside the bench. */
  readonly othersPercent: number
  /** Taken by the hypervisor. */
  readonly stealPercent: number
}

/** Where the bench runs. */
export interface Machine {
  readonly processors: number
  readonly model: string
  /** The processor of the measurement. */
  readonly processor: number
  /** Whether the guest has priority over other work, which needs root. */
  readonly hasPriority: boolean
}

/** How long the processors are observed before one is chosen. */
const WATCHED_MS = 1_000

/** Ticks of each processor by its number, from the text of /proc/stat. */
export function parseProcessorTicks(stat: string): Map<number, ProcessorTicks> {
  const ticks = new Map<number, ProcessorTicks>()
  for (const [, number, text = ''] of stat.matchAll(/^cpu(\d+) (.*)$/gm)) {
    // Guest time, the ninth and tenth, is part of user time.
    const [user = 0, nice = 0, system = 0, idle = 0, waiting = 0, hardIrq = 0, softIrq = 0, steal = 0] = text
      .split(' ')
      .map(Number)
    const busy = user + nice + system + hardIrq + softIrq
    ticks.set(Number(number), { total: busy + idle + waiting + steal, busy, steal })
  }
  return ticks
}

/**
 * The processor with the most idle time between two readings; of equal ones the last, because the
 * first gets the interrupts.
 */
export function idlestProcessor(
  before: ReadonlyMap<number, ProcessorTicks>,
  after: ReadonlyMap<number, ProcessorTicks>,
  allowed: readonly number[],
): number | undefined {
  const busyShare = (processor: number): number => {
    const from = before.get(processor)
    const to = after.get(processor)
    if (from === undefined || to === undefined) return 1
    return (to.busy + to.steal - from.busy - from.steal) / Math.max(1, to.total - from.total)
  }
  // Half a percent is less than one tick of a reading.
  const rank = (processor: number): number => Math.round(busyShare(processor) * 50)
  return allowed.toSorted((a, b) => rank(a) - rank(b) || b - a)[0]
}

/**
 * Chooses the processor to measure on and keeps this process, with all its threads, away from it
 * where there is another.
 * @param inGuest whether the measured program runs in a guest, which as a whole may have priority
 * over other work
 */
export async function takeProcessor(inGuest: boolean): Promise<Machine> {
  const allowed = allowedProcessors()
  const before = parseProcessorTicks(readText('/proc/stat'))
  await sleep(WATCHED_MS)
  const processor = idlestProcessor(before, parseProcessorTicks(readText('/proc/stat')), allowed) ?? 0
  const others = allowed.filter((one) => one !== processor)
  if (others.length > 0)
    execFileSync('taskset', ['--all-tasks', '--cpu-list', '--pid', others.join(','), String(process.pid)], {
      stdio: 'ignore',
    })
  const all = cpus()
  const hasPriority = inGuest && mayGoFirst()
  return { processors: all.length, model: all[0]?.model.trim() ?? 'unknown', processor, hasPriority }
}

/** Whether this user may start a command before other work. */
export function mayGoFirst(): boolean {
  const [program = '', ...args] = [...BEFORE_OTHERS, 'true']
  // Without the right to it, nice runs the command all the same and says so.
  const { status, stderr } = spawnSync(program, args, { stdio: ['ignore', 'ignore', 'pipe'] })
  return status === 0 && stderr.length === 0
}

/** A reading of the processor and of the time that ended children of this process have used. */
export interface Look {
  readonly ticks: ProcessorTicks
  readonly ownTicks: number
}

export function look(processor: number): Look {
  const ticks = parseProcessorTicks(readText('/proc/stat')).get(processor)
  if (ticks === undefined) throw new Error(`/proc/stat has no processor ${processor}`)
  return { ticks, ownTicks: childTicks(readText('/proc/self/stat')) }
}

/** `cutime` and `cstime` of /proc/PID/stat: a guest counts once it has ended. */
export function childTicks(stat: string): number {
  const fields = stat.replace(/^.*\) /s, '').split(' ')
  return Number(fields[13]) + Number(fields[14])
}

/** The share of other work between two readings, with the bench's guest started and ended in between. */
export function disturbanceBetween(before: Look, after: Look): Disturbance {
  const total = Math.max(1, after.ticks.total - before.ticks.total)
  const others = after.ticks.busy - before.ticks.busy - (after.ownTicks - before.ownTicks)
  return {
    othersPercent: (Math.max(0, others) / total) * 100,
    stealPercent: ((after.ticks.steal - before.ticks.steal) / total) * 100,
  }
}

const readText = (path: string): string => readFileSync(path, 'utf8')
