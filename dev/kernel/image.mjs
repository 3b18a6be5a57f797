/**
 * The kernel in this repository (`image/README.md` says what it is and why): unpacked into the
 * cache, and checked against its recorded SHA-256 at every start.
 */
import { createHash } from 'node:crypto'
import { chmodSync, existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliDecompressSync } from 'node:zlib'
import { cacheFolder, unfinishedFolder } from '../cache.mjs'
import { Unmet, finish, say } from '../progress.mjs'

/** The kernel, and room for other writers. */
const NEEDED_MIB = 32
const REMEDY = 'name another folder with KUBE_IPVS_CACHE'

/**
 * @param {NodeJS.ProcessEnv} env
 * @param {string} [image] folder with `linux.br` and `image.json`
 * @returns {Promise<{ kind: 'uml', kernel: string }>}
 * @throws {Unmet} with the reason and the way out, when the cache cannot hold it or it does not run
 */
export async function unpackedImage(env, image = join(import.meta.dirname, 'image')) {
  const { sha256 } = JSON.parse(readFileSync(join(image, 'image.json'), 'utf8'))
  const cache = cacheFolder(env)
  const kernel = join(cache, `linux-${sha256.slice(0, 16)}`)
  if (!existsSync(kernel) || hashOf(readFileSync(kernel)) !== sha256) unpack(image, sha256, cache, kernel)
  const { code, output } = await finish(kernel, ['--version'], { timeoutMs: 10_000 })
  if (code === 0) return { kind: 'uml', kernel }
  if (output.includes('EACCES')) throw new Unmet(`the cache folder ${cache} allows no execution (noexec); ${REMEDY}`)
  throw new Unmet(`the kernel ${kernel} does not run here (${output.trim()})`)
}

/** @param {string} image @param {string} sha256 @param {string} cache @param {string} kernel */
function unpack(image, sha256, cache, kernel) {
  const bytes = brotliDecompressSync(readFileSync(join(image, 'linux.br')))
  if (hashOf(bytes) !== sha256)
    throw new Unmet(
      `the kernel image in ${image} does not have the SHA-256 that image.json says; check out the repository again`,
    )
  const fresh = unfinishedFolder(cache, NEEDED_MIB)
  try {
    writeFileSync(join(fresh, 'linux'), bytes)
    chmodSync(join(fresh, 'linux'), 0o755)
    renameSync(join(fresh, 'linux'), kernel)
    say(`Unpacked the kernel for tests and demo into ${kernel}.`)
  } catch (error) {
    if (error.code === 'ENOSPC' || error.code === 'EDQUOT')
      throw new Unmet(`the cache folder ${cache} is full; make room or ${REMEDY}`)
    throw new Unmet(`the kernel cannot be written to ${kernel} (${error.code}); ${REMEDY}`)
  } finally {
    rmSync(fresh, { recursive: true, force: true })
  }
}

/** @param {Buffer} bytes */
const hashOf = (bytes) => createHash('sha256').update(bytes).digest('hex')
