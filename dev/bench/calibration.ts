/**
 * What basic operations cost on a kernel, as `calibrate.c` measures them: without it, times of two machines cannot be compared.
 */
import { percentile } from './statistics.ts'

/** Microseconds. */
export interface Calibration {
  /** getppid(2) */
  readonly systemCallUs: number
  /** The first write to a page of anonymous memory. */
  readonly pageFaultUs: number
  /** Start, execution and end of `true`. */
  readonly processStartUs: number
  /** A byte through a pipe to a process that waits for it on the same processor. */
  readonly wakeUpUs: number
  /** The same between two processors; null where there is only one. */
  readonly wakeUpAcrossUs: number | null
  /** Two million multiplications that each wait for the one before. */
  readonly arithmeticUs: number
}

/** Reads the output of the program; undefined when it did not run. */
export function parseCalibration(output: string): Calibration | undefined {
  const figure = (name: string): number | null => {
    const text = new RegExp(`\\b${name}=([\\d.]+)`).exec(output)?.[1]
    return text === undefined ? null : Number(text)
  }
  const [systemCallUs, pageFaultUs, processStartUs, wakeUpUs, arithmeticUs] = [
    figure('systemCall'),
    figure('pageFault'),
    figure('processStart'),
    figure('wakeUp'),
    figure('arithmetic'),
  ]
  if (
    systemCallUs === null ||
    pageFaultUs === null ||
    processStartUs === null ||
    wakeUpUs === null ||
    arithmeticUs === null
  )
    return undefined
  return {
    systemCallUs,
    pageFaultUs,
    processStartUs,
    wakeUpUs,
    wakeUpAcrossUs: figure('wakeUpAcross'),
    arithmeticUs,
  }
}

/** The median of each figure; undefined without any calibration. */
export function medianCalibration(all: readonly Calibration[]): Calibration | undefined {
  const [first] = all
  if (first === undefined) return undefined
  const median = (pick: (one: Calibration) => number): number => percentile(all.map(pick), 0.5) ?? 0
  const across = all.map((one) => one.wakeUpAcrossUs).filter((us) => us !== null)
  return {
    systemCallUs: median((one) => one.systemCallUs),
    pageFaultUs: median((one) => one.pageFaultUs),
    processStartUs: median((one) => one.processStartUs),
    wakeUpUs: median((one) => one.wakeUpUs),
    wakeUpAcrossUs: percentile(across, 0.5),
    arithmeticUs: median((one) => one.arithmeticUs),
  }
}
