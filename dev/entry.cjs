/**
 * Runs program.js beside it with V8's code cache. V8 refuses a cache of another version or with other settings, and compiles then. CommonJS,
 * because Node's loader of ES modules costs a start 15 ms.
 */
const { readFileSync } = require('node:fs')
const { join } = require('node:path')
const { Script } = require('node:vm')

const filename = join(__dirname, 'program.js')
// The bundler writes ASCII only.
const script = new Script(readFileSync(filename, 'latin1'), { filename, cachedData: cacheOf(filename) })
script.runInThisContext()(require, filename)

/** @param {string} file */
function cacheOf(file) {
  try {
    return readFileSync(`${file}.cache`)
  } catch {
    return undefined
  }
}
