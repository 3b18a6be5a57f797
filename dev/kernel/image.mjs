/**
 * The kernel in this repository and its modules (`image/README.md` says what they are and why):
 * unpacked into the cache, and checked against the recorded SHA-256 at every start.
 */
import { createHash } from 'node:crypto'
import { chmodSync, existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliDecompressSync } from 'node:zlib'
import { cacheFolder, unfinishedFolder } from '../cache.mjs'
import { Unmet, finish, say, tail } from '../progress.mjs'
import { sumOfModules } from './modules.mjs'

/** The kernel and its modules, and room for other writers. */
const NEEDED_MIB = 40
const REMEDY = 'name another folder with KUBE_IPVS_CACHE'

/**
 * @param {NodeJS.ProcessEnv} env
 * @param {string} [image] folder with `linux.br`, `modules.tar.br` and `image.json`
 * @returns {Promise<{ kind: 'uml', kernel: string, modules: string, modular: 'firewall' }>}
 * @throws {Unmet} with the reason and the way out, when the cache cannot hold it or it does not run
 */
export async function unpackedImage(env, image = join(import.meta.dirname, 'image')) {
  const recorded = JSON.parse(readFileSync(join(image, 'image.json'), 'utf8'))
  const cache = cacheFolder(env)
  const kernel = join(cache, `linux-${recorded.sha256.slice(0, 16)}`)
  if (!existsSync(kernel) || hashOf(readFileSync(kernel)) !== recorded.sha256)
    await unpack({ image, file: 'linux.br', sum: recorded.sha256, cache, into: kernel }, unpackProgram)
  const modules = join(cache, `modules-${recorded.modules.sha256.slice(0, 16)}`)
  if (!existsSync(modules) || sumOfModules(modules) !== recorded.modules.sha256)
    await unpack({ image, file: 'modules.tar.br', sum: recorded.modules.sha256, cache, into: modules }, unpackModules)
  const { code, output } = await finish(kernel, ['--version'], { timeoutMs: 10_000 })
  if (code === 0) return { kind: 'uml', kernel, modules, modular: 'firewall' }
  if (output.includes('EACCES')) throw new Unmet(`the cache folder ${cache} allows no execution (noexec); ${REMEDY}`)
  throw new Unmet(`the kernel ${kernel} does not run here (${output.trim()})`)
}

/**
 * Unpacks one file of the image into the cache: `content` makes it in an unfinished folder, and
 * returns its path and sum.
 * @typedef {{ path: string, sum: string }} Unpacked
 * @param {{ image: string, file: string, sum: string, cache: string, into: string }} part
 * @param {(bytes: Buffer, folder: string) => Unpacked | Promise<Unpacked>} content
 */
async function unpack({ image, file, sum, cache, into }, content) {
  const bytes = brotliDecompressSync(readFileSync(join(image, file)))
  rmSync(into, { recursive: true, force: true })
  const fresh = unfinishedFolder(cache, NEEDED_MIB)
  try {
    const made = await content(bytes, fresh)
    if (made.sum !== sum)
      throw new Unmet(
        `${join(image, file)} does not have the SHA-256 that image.json says; check out the repository again`,
      )
    place(made.path, into)
    say(`Unpacked ${file} for tests and demo into ${into}.`)
  } catch (error) {
    if (error instanceof Unmet) throw error
    if (error.code === 'ENOSPC' || error.code === 'EDQUOT')
      throw new Unmet(`the cache folder ${cache} is full; make room or ${REMEDY}`)
    throw new Unmet(`${file} cannot be unpacked to ${into} (${error.code ?? error.message}); ${REMEDY}`)
  } finally {
    rmSync(fresh, { recursive: true, force: true })
  }
}

/** @param {string} path @param {string} into */
function place(path, into) {
  try {
    renameSync(path, into)
  } catch (error) {
    // A folder is there: another process has unpacked it meanwhile.
    if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
  }
}

/** @param {Buffer} bytes @param {string} folder @returns {Unpacked} */
function unpackProgram(bytes, folder) {
  const path = join(folder, 'linux')
  writeFileSync(path, bytes)
  chmodSync(path, 0o755)
  return { path, sum: hashOf(bytes) }
}

/** @param {Buffer} bytes @param {string} folder @returns {Promise<Unpacked>} */
async function unpackModules(bytes, folder) {
  const [archive, path] = [join(folder, 'modules.tar'), join(folder, 'modules')]
  writeFileSync(archive, bytes)
  const { code, output } = await finish('tar', [
    '-xf',
    archive,
    '--one-top-level=modules',
    '--no-same-owner',
    '-C',
    folder,
  ])
  if (code !== 0) throw new Error(`tar failed: ${tail(output, 1).trim()}`)
  return { path, sum: sumOfModules(path) }
}

/** @param {Buffer} bytes */
const hashOf = (bytes) => createHash('sha256').update(bytes).digest('hex')
