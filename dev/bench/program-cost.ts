/**
 * What a process has cost its kernel so far, read from /proc. These counts do not depend on the
 * speed of the machine, except where the order of events changes them.
 */
import { readdirSync, readFileSync } from 'node:fs'

/** Since the start of the process. */
export interface ProgramCost {
  /** User and system time of all its threads and of its children that have ended, in milliseconds (steps of 10). */
  readonly cpuMs: number
  /** Page faults without reading from a disk, its ended children's included. */
  readonly minorFaults: number
  /**
   * How often its threads waited for something, without those of ended threads: about twice for
   * each wake-up that needs two threads.
   */
  readonly waits: number
}

/** Memory of the process without its children, in MiB; null for what the kernel does not report. */
export interface ProgramMemory {
  /** VmRSS: what is in memory, and the anonymous part of it. */
  readonly rssMiB: number
  readonly rssAnonMiB: number
  /** VmHWM: the maximum of VmRSS so far. */
  readonly peakRssMiB: number
  /** Pss of smaps_rollup: pages that others use too count in part. */
  readonly pssMiB: number | null
}

/** Clock ticks a second in /proc/PID/stat (USER_HZ). */
const TICKS = 100

/** The text of /proc/PID/stat, and those of the status files of its threads. */
export function parseCost(stat: string, threads: readonly string[]): ProgramCost {
  // The name of the program, in parentheses, may contain any character.
  const field = (number: number): number => Number(stat.replace(/^.*\) /s, '').split(' ')[number - 3])
  const waits = threads.map((text) => Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(text)?.[1] ?? 0))
  return {
    cpuMs: ((field(14) + field(15) + field(16) + field(17)) * 1000) / TICKS,
    minorFaults: field(10) + field(11),
    waits: waits.reduce((total, one) => total + one, 0),
  }
}

/** The texts of /proc/PID/status and /proc/PID/smaps_rollup; '' for the latter when the kernel has none. */
export function parseMemory(status: string, rollup: string): ProgramMemory {
  const mib = (text: string, name: string): number | null => {
    const kib = new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1]
    return kib === undefined ? null : Number(kib) / 1024
  }
  return {
    rssMiB: mib(status, 'VmRSS') ?? 0,
    rssAnonMiB: mib(status, 'RssAnon') ?? 0,
    peakRssMiB: mib(status, 'VmHWM') ?? 0,
    pssMiB: mib(rollup, 'Pss'),
  }
}

export function costOf(pid: number): ProgramCost {
  const threads = readdirSync(`/proc/${pid}/task`).map((thread) => textOf(`/proc/${pid}/task/${thread}/status`))
  return parseCost(textOf(`/proc/${pid}/stat`), threads)
}

export function memoryOf(pid: number): ProgramMemory {
  return parseMemory(textOf(`/proc/${pid}/status`), textOf(`/proc/${pid}/smaps_rollup`))
}

/**
 * The number of the process or thread that was started last in this pid namespace: /proc/stat would
 * count those of the whole machine where the kernel is the machine's own.
 */
export function processNumber(): number {
  return parseProcessNumber(textOf('/proc/loadavg'))
}

/** The last field: the number of the process that was started last. */
export const parseProcessNumber = (loadavg: string): number => Number(loadavg.trim().split(' ').at(-1))

/** Processes started between two readings; numbers start again after the largest. */
export function processesBetween(before: number, after: number): number {
  return after >= before ? after - before : after - before + Number(textOf('/proc/sys/kernel/pid_max'))
}

/** '' when the file does not exist: a thread may end at any time. */
function textOf(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
