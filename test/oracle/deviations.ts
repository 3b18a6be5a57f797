/**
 * Where we leave something else than kube-proxy on purpose: `test/oracle/deviations.yaml`, and the verdict on one file.
 * What could break: a deviation that no longer shows is a failure too, or the list would rot.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { differenceOf } from './difference.ts'
import { isStateFile, type Mode, MODES, type StateFile } from './files.ts'

export interface Deviation {
  readonly case: string
  /** Default ipvs. */
  readonly mode?: Mode
  /** In which steps, counted from 1. */
  readonly steps: readonly number[]
  readonly file: StateFile
  /** Row of `docs/deviations.md`. */
  readonly number: number
  /** What we leave instead: the difference from the recording, in the form of `differenceOf`. */
  readonly instead: string
}

export const DEVIATIONS_FILE = join(import.meta.dirname, 'deviations.yaml')

/** Throws when the file is not of the form above. */
export function parseDeviations(text: string): Deviation[] {
  const list: unknown = parse(text) ?? []
  if (!Array.isArray(list)) throw new Error('deviations.yaml is no list')
  return list.map((entry: unknown, index) => {
    if (!isDeviation(entry))
      throw new Error(`deviations.yaml, entry ${index + 1}: not case, steps, file, number, instead`)
    return entry
  })
}

function isDeviation(entry: unknown): entry is Deviation {
  if (typeof entry !== 'object' || entry === null) return false
  const { case: name, mode, steps, file, number, instead } = entry as Partial<Record<keyof Deviation, unknown>> // checked below
  return (
    typeof name === 'string' &&
    Array.isArray(steps) &&
    steps.length > 0 &&
    steps.every((step) => Number.isInteger(step)) &&
    isStateFile(file) &&
    (mode === undefined || MODES.some((one) => one === mode)) &&
    Number.isInteger(number) &&
    typeof instead === 'string' &&
    instead.startsWith('@ ')
  )
}

export const readDeviations = (): Deviation[] => parseDeviations(readFileSync(DEVIATIONS_FILE, 'utf8'))

export type Verdict =
  | { readonly kind: 'equal' }
  | { readonly kind: 'deviates'; readonly number: number }
  /** `text` is what to show. */
  | { readonly kind: 'differs'; readonly text: string }

/** What one file of one step amounts to. */
export function judge(recorded: string, left: string, deviation: Deviation | undefined): Verdict {
  const difference = differenceOf(recorded, left)
  if (deviation === undefined) return difference === '' ? { kind: 'equal' } : { kind: 'differs', text: difference }
  if (difference === deviation.instead) return { kind: 'deviates', number: deviation.number }
  const { number, instead } = deviation
  const found = difference === '' ? 'nothing differs\n' : difference
  return { kind: 'differs', text: `deviation ${number} is to leave\n${instead}but\n${found}` }
}
