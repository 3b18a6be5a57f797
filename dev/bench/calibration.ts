/**
 * What basic operations cost in the kernel of a boot: without it, times of two machines cannot be
 * compared. This file prints the calibration when it is run, which every boot does before its
 * measurement.
 */
import { type Calibration as KernelCalibration, calibrate } from '../kernel/calibrate.ts'
import { percentile } from './statistics.ts'

export interface Calibration extends KernelCalibration {
  /** Two million multiplications that each wait for the one before: the speed of the processor without the kernel. */
  readonly arithmeticMs: number
}

const STEPS = 2_000_000
const TIMES = 7
const PREFIX = 'calibration='

/** Reads the line that this file prints; undefined when there is none. */
export function parseCalibration(output: string): Calibration | undefined {
  const line = output.split('\n').find((text) => text.startsWith(PREFIX))
  return line === undefined ? undefined : (JSON.parse(line.slice(PREFIX.length)) as Calibration) // printed below
}

/** The median of each figure; undefined without any calibration. */
export function medianCalibration(all: readonly Calibration[]): Calibration | undefined {
  const [first] = all
  const median = (pick: (one: Calibration) => number): number => percentile(all.map(pick), 0.5) ?? 0
  return (
    first && {
      release: first.release,
      systemCallUs: median((one) => one.systemCallUs),
      processStartMs: median((one) => one.processStartMs),
      wakeUpUs: median((one) => one.wakeUpUs),
      arithmeticMs: median((one) => one.arithmeticMs),
    }
  )
}

function arithmeticMs(): number {
  const times = Array.from({ length: TIMES }, () => {
    const startedAt = performance.now()
    let value = 1
    for (let step = 0; step < STEPS; step++) value = (Math.imul(value, 1_664_525) + 1_013_904_223) | 0
    return value === 0 ? Infinity : performance.now() - startedAt
  })
  return percentile(times, 0.5) ?? 0
}

if (import.meta.main) console.log(`${PREFIX}${JSON.stringify({ ...calibrate(), arithmeticMs: arithmeticMs() })}`)
