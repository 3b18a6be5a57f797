/**
 * Measures how fast the kernel under this process is: a system call, the start of a process, and a
 * wake-up across processes. It takes less than a second on a fast kernel and less than five on a
 * slow one, and works by blocking calls only, so that nothing of Node's event loop is measured with
 * them.
 */
import { execFileSync, spawn } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from 'node:fs'
import { release, tmpdir } from 'node:os'
import { join } from 'node:path'

/** Medians of at least SAMPLES, so that a moment in which other work had the processor does not count. */
export interface Calibration {
  /** `uname -r` */
  readonly release: string
  /** getuid(2), in microseconds. */
  readonly systemCallUs: number
  /** fork, execve and wait of `true`, in milliseconds: the median of five. */
  readonly processStartMs: number
  /** One byte through a pipe to a process that waits for it, in microseconds. */
  readonly wakeUpUs: number
}

const PROCESS_STARTS = 5
const CALLS_AT_A_TIME = 10
/** A short operation is repeated at least so many times and for so long. */
const SAMPLES = 25
const SAMPLING_MS = 100

export function calibrate(): Calibration {
  return {
    release: release(),
    systemCallUs: systemCallUs(),
    processStartMs: processStartMs(),
    wakeUpUs: wakeUpUs(),
  }
}

/** process.getuid() does nothing but the system call. */
function systemCallUs(): number {
  const ask = process.getuid
  if (ask === undefined) throw new Error('this system has no getuid')
  const batches = sample(() => {
    for (let call = 0; call < CALLS_AT_A_TIME; call++) ask()
  })
  return (batches * 1000) / CALLS_AT_A_TIME
}

function processStartMs(): number {
  return median(Array.from({ length: PROCESS_STARTS }, () => timeOf(() => execFileSync('true'))))
}

/** `cat` sends a byte back as soon as it has it, so one turn is two wake-ups. */
function wakeUpUs(): number {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-calibrate-'))
  const paths = ['there', 'back'].map((name) => join(folder, name))
  execFileSync('mkfifo', paths)
  // Opened for both directions: an open for one direction waits for the other end.
  const [there = -1, back = -1] = paths.map((path) => openSync(path, 'r+'))
  rmSync(folder, { recursive: true })
  const echo = spawn('cat', [], { stdio: [there, back, 'ignore'] })
  try {
    const byte = Buffer.alloc(1)
    const turn = (): void => {
      writeSync(there, byte)
      readSync(back, byte)
    }
    turn() // waits until cat has started
    return (sample(turn) * 1000) / 2
  } finally {
    echo.kill('SIGKILL')
    closeSync(there)
    closeSync(back)
  }
}

/** The median time of `act`, in milliseconds. */
function sample(act: () => void): number {
  const times: number[] = []
  for (const endMs = performance.now() + SAMPLING_MS; performance.now() < endMs || times.length < SAMPLES; )
    times.push(timeOf(act))
  return median(times)
}

function timeOf(act: () => void): number {
  const startedAt = performance.now()
  act()
  return performance.now() - startedAt
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0
}

/** `kernel 7.2.13: 9 µs a system call, 8 ms to start a process, 40 µs a wake-up` */
export function formatCalibration({
  release: name,
  systemCallUs: call,
  processStartMs: start,
  wakeUpUs: wake,
}: Calibration): string {
  return `kernel ${name}: ${short(call)} µs a system call, ${short(start)} ms to start a process, ${short(wake)} µs a wake-up`
}

const short = (value: number): string => value.toFixed(value < 9.95 ? 1 : 0)

/**
 * The kernel that the deadlines of tests are written for: user-mode Linux on a machine of 2024. A
 * kernel with two processors may wake a process on the other one only at its next tick, 4 ms later.
 */
const REFERENCE = { systemCallUs: 10, processStartMs: 40, wakeUpUs: 4000 } as const
/** With a larger factor a deadline would find nothing. */
const LONGEST_FACTOR = 20

/**
 * In the environment of a test process: the factor for its deadlines. A user may set a minimum with
 * it, because other work runs on the machine.
 */
export const DEADLINE_FACTOR_VARIABLE = 'KUBE_IPVS_DEADLINE_FACTOR'

/** The factor for deadlines on a kernel, from 1 to 20: the worst of the three proportions, to one decimal. */
export function deadlineFactor(
  { systemCallUs: call, processStartMs: start, wakeUpUs: wake }: Calibration,
  env: NodeJS.ProcessEnv = {},
): number {
  const { systemCallUs: fastCall, processStartMs: fastStart, wakeUpUs: fastWake } = REFERENCE
  const asked = Number(env[DEADLINE_FACTOR_VARIABLE] ?? 1) || 1
  const factor = Math.max(1, asked, call / fastCall, start / fastStart, wake / fastWake)
  return Math.round(Math.min(LONGEST_FACTOR, factor) * 10) / 10
}
