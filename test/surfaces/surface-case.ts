/**
 * What the surfaces suite runs: recorded behaviour of kube-proxy, replayed against our code, and
 * the listed deviations.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Deviation, parseDeviations } from '../support/deviations.ts'

export interface SurfaceCase {
  /** `GROUP/…`, the same in every run. */
  readonly name: string
  /** Mismatches in words; empty when it passes. */
  run(): Promise<readonly string[]>
}

/** One file or folder of recordings, and the cases in it. */
export interface Recordings {
  /** Its path in a folder of surfaces: `config/flags.txt`. */
  readonly path: string
  /** Reads the cases. `file` is an absolute path that exists. */
  read(file: string): readonly SurfaceCase[]
}

export interface SurfaceDeviation extends Deviation {
  /** Why it is better for the operator. */
  readonly reason: string
}

/** The list `deviations.yaml` next to this file; throws when it is not of the form above. */
export function readSurfaceDeviations(): readonly SurfaceDeviation[] {
  return parseDeviations<SurfaceDeviation>(
    readFileSync(join(import.meta.dirname, 'deviations.yaml'), 'utf8'),
    (entry) =>
      [entry['case'], entry['reason'], entry['instead']].every((text) => typeof text === 'string' && text !== ''),
    'case, reason, instead',
  )
}

/** All mismatches of a case as one text, in the form of `instead` in `deviations.yaml`. */
export const joined = (mismatches: readonly string[]): string => mismatches.map((one) => `${one.trimEnd()}\n`).join('')
