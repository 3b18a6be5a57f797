/** Group: configuration files that kube-proxy refused, accepted with a warning, or completed. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { mismatches, type Recorded } from './compare.ts'
import { runProgram } from './program.ts'
import type { Recordings, SurfaceCase } from './surface-case.ts'

interface RecordedConfiguration extends Recorded {
  readonly group: string
  readonly name: string
  readonly config: string
}

const REFUSED = 'config/invalid-cases.json'
const FILLED_IN = 'config/defaults-from-file'
const DEFAULTS = 'config/defaults.yaml'
const ARGS = ['--config=config.yaml', '--write-config-to=out.yaml']

export const CONFIGURATIONS: readonly Recordings[] = [
  { path: REFUSED, read: refused },
  { path: FILLED_IN, read: filledIn },
  { path: DEFAULTS, read: defaults },
]

function refused(file: string): SurfaceCase[] {
  const { cases } = JSON.parse(readFileSync(file, 'utf8')) as { cases: RecordedConfiguration[] } // the recorder's format
  return cases.map((recorded) => ({
    name: `${REFUSED} ${recorded.group}: ${recorded.name}`,
    run: async () => mismatches(recorded, await runProgram(ARGS, { 'config.yaml': recorded.config })),
  }))
}

/** The recorder left FLAG lines and the last line of each log out. */
function filledIn(folder: string): SurfaceCase[] {
  const names = readdirSync(folder).flatMap((file) => (file.endsWith('.in.yaml') ? [file.slice(0, -8)] : []))
  const read = (file: string) => (existsSync(join(folder, file)) ? readFileSync(join(folder, file), 'utf8') : '')
  return names.map((name) => ({
    name: `${FILLED_IN} ${name}`,
    run: async () => {
      const ours = await runProgram(ARGS, { 'config.yaml': read(`${name}.in.yaml`) })
      const stderr = ours.stderr
        .split('\n')
        .filter((line) => !/FLAG: --|"?Wrote configuration"/.test(line))
        .join('\n')
      const recorded = { exit: 0, stdout: '', stderr: read(`${name}.log`), written: read(`${name}.out.yaml`) }
      return mismatches(recorded, { ...ours, stderr })
    },
  }))
}

function defaults(file: string): SurfaceCase[] {
  const run = async (): Promise<readonly string[]> => {
    const ours = await runProgram(['--write-config-to=out.yaml'], {})
    return mismatches({ ...ours, exit: 0, written: readFileSync(file, 'utf8') }, ours).filter(
      (text) => !text.startsWith('std'),
    )
  }
  return [{ name: DEFAULTS, run }]
}
