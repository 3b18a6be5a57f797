/**
 * How the recorded cases are divided into parts that the runner of tests
 * (dev/testing/recordings.ts) treats like files.
 */
import { chooseCases, groundOf } from './case-file.ts'
import { type Ground, type Mode, MODES } from './files.ts'

export interface Part {
  readonly mode: Mode
  readonly ground: Ground
  /** From 1. */
  readonly part: number
  readonly of: number
}

/** The part that a query names: `?mode=ipvs&part=2&of=8&ground=fresh`. Throws for anything else. */
export function readPart(query: string): Part {
  const values = new URLSearchParams(query)
  const mode = MODES.find((one) => one === values.get('mode'))
  const ground = (['fresh', 'kernel'] as const).find((one) => one === values.get('ground'))
  const [part = 0, of = 0] = ['part', 'of'].map((name) => Number(values.get(name)))
  if (mode === undefined || ground === undefined || !(part >= 1 && part <= of))
    throw new Error(`"${query}" names no part of the recorded cases`)
  return { mode, ground, part, of }
}

/** The names of its cases. Throws when the folder has none of this mode. */
export function casesOf({ mode, ground, part, of }: Part, folder: string): readonly string[] {
  const chosen = chooseCases(folder, mode, [])
  if ('error' in chosen) throw new Error(chosen.error)
  const names = chosen.names.filter((name) => groundOf(folder, name) === ground)
  return names.filter((_, index) => index % of === part - 1)
}
