/**
 * The repository's own source files, for tests that read them: the program, and everything else
 * that is written by hand.
 */
import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const PROGRAM = ['src/**/*.ts', 'native/**/*.ts']
const TOOLS_AND_TESTS = ['dev/**/*.{ts,mjs}', 'test/**/*.{ts,mjs}']

/** Path in the repository to text, in order of the paths: `src` and `native`. */
export const readSources = (): ReadonlyMap<string, string> => read(PROGRAM)

/** As `readSources`, with `dev` and `test`. */
export const readAllSources = (): ReadonlyMap<string, string> => read([...PROGRAM, ...TOOLS_AND_TESTS])

function read(patterns: readonly string[]): ReadonlyMap<string, string> {
  const root = fileURLToPath(new URL('../../', import.meta.url))
  const paths = globSync(patterns, { cwd: root }).sort()
  return new Map(paths.map((path) => [path, readFileSync(`${root}${path}`, 'utf8')]))
}
