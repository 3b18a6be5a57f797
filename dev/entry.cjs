/**
 * Runs main.js beside it, and loads the other bundles when it asks for one, with V8's code caches. V8 refuses a cache of another version or with
 * other settings, and compiles then. CommonJS, because Node's loader of ES modules costs a start 15 ms.
 */
const { readFileSync } = require('node:fs')
const { join } = require('node:path')
const { Script } = require('node:vm')

load('./main.js')

/**
 * What a bundle exports. @param {string} name
 * @returns {unknown}
 */
function load(name) {
  const filename = join(__dirname, name)
  const source = readFileSync(filename)
  const cachedData = cacheOf(filename)
  // The bundler writes ASCII only.
  const script = new Script(source.latin1Slice(), { filename, cachedData })
  // V8 has read both. They are some megabytes, which would stay until the first full collection.
  free(source)
  if (cachedData !== undefined) free(cachedData)
  const module = { exports: {} }
  script.runInThisContext()(requireFor, filename, module)
  return module.exports
}

/** @param {Buffer<ArrayBuffer>} bytes */
function free({ buffer, length }) {
  // Small ones share their memory with others.
  if (buffer.byteLength === length) buffer.transfer(0)
}

/** @param {string} name of a bundle, of a package, or of a module of Node */
function requireFor(name) {
  return name.startsWith('./') ? load(name) : require(name)
}

/** @param {string} file */
function cacheOf(file) {
  try {
    return readFileSync(`${file}.cache`)
  } catch {
    return undefined
  }
}
