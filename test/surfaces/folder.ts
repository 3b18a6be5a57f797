/**
 * A folder of recorded surfaces: the cases in it, and the recordings that the suite can replay but
 * the folder does not have.
 */
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { COMMAND_LINES } from './command-lines.ts'
import { CONFIGURATIONS } from './configurations.ts'
import { HTTP } from './http.ts'
import { METRICS } from './metrics.ts'
import type { Recordings, SurfaceCase } from './surface-case.ts'

const ALL: readonly Recordings[] = [...COMMAND_LINES, ...CONFIGURATIONS, ...HTTP, ...METRICS]

export interface SurfacesFolder {
  readonly cases: readonly SurfaceCase[]
  /** Paths without any case, sorted: files (`config/flags.txt`), or folders that are not there at all (`http/`). */
  readonly missing: readonly string[]
}

/** Throws with the path of a file that cannot be read or is not of its format. */
export function readSurfaces(folder: string): SurfacesFolder {
  const cases: SurfaceCase[] = []
  const missing = new Set<string>()
  for (const { path, read } of ALL) {
    const parent = dirname(path)
    const found = existsSync(join(folder, path)) ? casesIn(join(folder, path), read) : []
    if (found.length === 0) missing.add(existsSync(join(folder, parent)) ? path : `${parent}/`)
    cases.push(...found)
  }
  return { cases, missing: [...missing].sort() }
}

function casesIn(file: string, read: Recordings['read']): readonly SurfaceCase[] {
  try {
    return read(file)
  } catch (cause) {
    throw new Error(`${file} is not a recording that this program can read: ${String(cause)}`, { cause })
  }
}
