/**
 * V8's code cache of the program, made when it is built, so that a start compiles nothing.
 * `node --random-seed=1 dev/code-cache.ts SCRIPT` writes SCRIPT.cache.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { Script } from 'node:vm'

/**
 * Writes the cache beside the script. V8 accepts it in a process with the same version and the same
 * settings of V8 (but for those of sizes and threads, see dev/node-flags.ts), for a script of the
 * same length. The same script gives the same bytes.
 */
export function writeCodeCache(script: string): void {
  // The order of the names in the cache depends on the seed of V8's hash tables, which is random otherwise.
  execFileSync(process.execPath, ['--random-seed=1', import.meta.filename, script])
}

/** With all functions of the script. */
function codeCacheOf(source: string): Buffer {
  setFlagsFromString('--no-lazy')
  const script = new Script(source)
  // The cache has a hash of the settings at the time when it is made.
  setFlagsFromString('--lazy')
  return script.createCachedData()
}

if (import.meta.main) {
  const [script = ''] = process.argv.slice(2)
  writeFileSync(`${script}.cache`, codeCacheOf(readFileSync(script, 'latin1')))
}
