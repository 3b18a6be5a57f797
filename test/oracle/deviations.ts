/** The list `deviations.yaml` next to this file: where kube-ipvs leaves another state than kube-proxy on purpose. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Deviation, parseDeviations } from '../support/deviations.ts'
import { isStateFile, type Mode, MODES, type StateFile } from './files.ts'

export interface StateDeviation extends Deviation {
  /** Default ipvs. */
  readonly mode?: Mode
  /** In which steps, counted from 1. */
  readonly steps: readonly number[]
  readonly file: StateFile
  /** Row of `docs/deviations.md`. */
  readonly number: number
}

/** Throws when the text is not a list of the form above. */
export function parseStateDeviations(text: string): StateDeviation[] {
  return parseDeviations<StateDeviation>(
    text,
    ({ case: name, mode, steps, file, number, instead }) =>
      typeof name === 'string' &&
      Array.isArray(steps) &&
      steps.length > 0 &&
      steps.every((step) => Number.isInteger(step)) &&
      isStateFile(file) &&
      (mode === undefined || MODES.some((one) => one === mode)) &&
      Number.isInteger(number) &&
      typeof instead === 'string' &&
      instead.startsWith('@ '),
    'case, steps, file, number, instead',
  )
}

export const readStateDeviations = (): StateDeviation[] =>
  parseStateDeviations(readFileSync(join(import.meta.dirname, 'deviations.yaml'), 'utf8'))
