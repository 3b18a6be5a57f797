/** What `npm run test:oracle` may be given. */
import { parseArgs } from 'node:util'

export interface OracleOptions {
  /** Folder of cases; absent: the project's. */
  readonly cases?: string
  /** What we left is written here. */
  readonly output?: string
  /** The program's log of a case that failed is shown. */
  readonly verbose: boolean
  /** Cases whose name contains one of these; none: all. */
  readonly patterns: readonly string[]
}

export const USAGE = `npm run test:oracle [-- [--cases DIR] [--output DIR] [--verbose] [PATTERN...]]`

export function parseOracleOptions(args: readonly string[]): OracleOptions | { readonly error: string } {
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: { cases: { type: 'string' }, output: { type: 'string' }, verbose: { type: 'boolean', default: false } },
    })
    const { cases, output, verbose } = values
    return {
      ...(cases === undefined ? {} : { cases }),
      ...(output === undefined ? {} : { output }),
      verbose,
      patterns: positionals,
    }
  } catch (error) {
    return { error: `${error instanceof Error ? error.message : String(error)}\n${USAGE}` }
  }
}
