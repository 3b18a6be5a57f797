/**
 * The program's own source files, for tests that read them.
 * What could break: only `src` and `native` count; tests and development tools are free.
 */
import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Path in the repository to text, in order of the paths. */
export function readSources(): ReadonlyMap<string, string> {
  const root = fileURLToPath(new URL('../../', import.meta.url))
  const paths = globSync(['src/**/*.ts', 'native/**/*.ts'], { cwd: root }).sort()
  return new Map(paths.map((path) => [path, readFileSync(`${root}${path}`, 'utf8')]))
}
