/**
 * What basic operations cost on a kernel, as `calibrate.c` measures them: without it, times of two machines cannot be compared.
 */
import { percentile } from './statistics.ts'

/** The names that the program prints. */
const PRINTED = {
  /** getppid(2) */
  systemCallUs: 'systemCall',
  /** The first write to a page of anonymous memory. */
  pageFaultUs: 'pageFault',
  /** Start, execution and end of `true`. */
  processStartUs: 'processStart',
  /** A byte through a pipe to a process that waits for it on the same processor. */
  wakeUpUs: 'wakeUp',
  /** Two million multiplications that each wait for the one before. */
  arithmeticUs: 'arithmetic',
} as const
/** Microseconds. */
export type Calibration = Readonly<Record<keyof typeof PRINTED, number>>

function calibrationOf(figureOf: (name: keyof Calibration) => number | null): Calibration | undefined {
  const figures = (Object.keys(PRINTED) as (keyof Calibration)[]).map((name) => [name, figureOf(name)] as const)
  if (figures.some(([, figure]) => figure === null)) return undefined
  return Object.fromEntries(figures) as Calibration // every figure is there
}

/** Reads the output of the program; undefined when it did not run. */
export function parseCalibration(output: string): Calibration | undefined {
  return calibrationOf((name) => {
    const text = new RegExp(`\\b${PRINTED[name]}=([\\d.]+)`).exec(output)?.[1]
    return text === undefined ? null : Number(text)
  })
}

/** The median of each figure; undefined without any calibration. */
export function medianCalibration(all: readonly Calibration[]): Calibration | undefined {
  return calibrationOf((name) =>
    percentile(
      all.map((one) => one[name]),
      0.5,
    ),
  )
}
