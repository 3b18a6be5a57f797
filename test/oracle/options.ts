/** What `npm run test:oracle` may be given. */
import { parseArgs } from 'node:util'
import { COMPARED, isStateFile, type Mode, MODES, STATE_FILES, type StateFile } from './files.ts'

export interface OracleOptions {
  /** Folder of cases; absent: the project's. */
  readonly cases?: string
  /** Which files are compared; default COMPARED. */
  readonly compared: readonly StateFile[]
  /** Whose recordings are run. Default ipvs. */
  readonly mode: Mode
  /** What we left is written here. */
  readonly output?: string
  /** The program's log of a case that failed is shown. */
  readonly verbose: boolean
  /** Cases whose name contains one of these; none: all. `!TEXT`: without those whose name contains TEXT. */
  readonly patterns: readonly string[]
}

export const USAGE = `npm run test:oracle [-- [--cases DIR] [--mode ipvs|iptables] [--compare FILE,...] [--output DIR] [--verbose] [[!]PATTERN...]]`

export function parseOracleOptions(args: readonly string[]): OracleOptions | { readonly error: string } {
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        cases: { type: 'string' },
        compare: { type: 'string', default: COMPARED.join() },
        mode: { type: 'string', default: 'ipvs' },
        output: { type: 'string' },
        verbose: { type: 'boolean', default: false },
      },
    })
    const { cases, output, verbose } = values
    const mode = MODES.find((one) => one === values.mode)
    if (mode === undefined) return { error: `--mode takes one of ${MODES.join()}` }
    const compared = values.compare.split(',')
    if (!compared.every(isStateFile)) return { error: `--compare takes some of ${STATE_FILES.join()}` }
    return {
      ...(cases === undefined ? {} : { cases }),
      ...(output === undefined ? {} : { output }),
      compared,
      mode,
      verbose,
      patterns: positionals,
    }
  } catch (error) {
    return { error: `${error instanceof Error ? error.message : String(error)}\n${USAGE}` }
  }
}
