/** Group: command lines (config/flag-cases.json), each in an empty folder with the files of the case. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { mismatches, type Recorded } from './compare.ts'
import { runProgram } from './program.ts'
import type { SurfaceCase } from './surface-case.ts'

interface RecordedCommandLine extends Recorded {
  readonly group: string
  readonly name: string
  readonly args: readonly string[]
  readonly files: Readonly<Record<string, string>>
}

const FILE = 'config/flag-cases.json'

export async function surfaceCases(directory: string): Promise<readonly SurfaceCase[]> {
  const path = join(directory, FILE)
  if (!existsSync(path)) return []
  const { cases } = JSON.parse(readFileSync(path, 'utf8')) as { cases: RecordedCommandLine[] } // the recorder's format
  return cases.map((recorded) => ({
    name: `${FILE} ${recorded.group}: ${recorded.name}`,
    run: async () => mismatches(recorded, await runProgram(recorded.args, recorded.files)),
  }))
}
