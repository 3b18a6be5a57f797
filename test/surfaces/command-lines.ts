/** Group: command lines (config/flag-cases.json), each in an empty folder with the files of the case. */
import { readFileSync } from 'node:fs'
import { mismatches, type Recorded } from './compare.ts'
import { runProgram } from './program.ts'
import type { Recordings } from './surface-case.ts'

interface RecordedCommandLine extends Recorded {
  readonly group: string
  readonly name: string
  readonly args: readonly string[]
  readonly files: Readonly<Record<string, string>>
}

const FILE = 'config/flag-cases.json'

export const COMMAND_LINES: readonly Recordings[] = [
  {
    path: FILE,
    read(file) {
      const { cases } = JSON.parse(readFileSync(file, 'utf8')) as { cases: RecordedCommandLine[] } // the recorder's format
      return cases.map((recorded) => ({
        name: `${FILE} ${recorded.group}: ${recorded.name}`,
        run: async () => mismatches(recorded, await runProgram(recorded.args, recorded.files)),
      }))
    },
  },
]
