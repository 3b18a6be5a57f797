/**
 * The folder for kernels of tests and demo, which are fetched once and stored. It lies outside the
 * checkout, so that `git clean` and fresh clones do not delete it. Deleting it is always safe.
 */
import { accessSync, constants, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statfsSync } from 'node:fs'
import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import { Unmet } from './progress.mjs'

/**
 * `KUBE_IPVS_CACHE`, or `~/.cache/kube-ipvs`. The folder may not exist yet.
 * @param {NodeJS.ProcessEnv} env
 * @throws {Unmet} when the variable names no absolute path, a path that kernel command lines cannot
 * carry, or one below /dev, of which a guest has its own
 */
export function cacheFolder(env) {
  const named = env.KUBE_IPVS_CACHE
  if (named !== undefined && named !== '' && !isAbsolute(named))
    throw new Unmet(`KUBE_IPVS_CACHE is an absolute path, not "${named}"`)
  const folder = named || join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'kube-ipvs')
  if (/[\s:]/.test(folder))
    throw new Unmet(`the cache folder ${folder} has a space or a colon in its path; name another with KUBE_IPVS_CACHE`)
  if (/^\/dev(\/|$)/.test(folder))
    throw new Unmet(`no guest kernel can see the cache folder ${folder}; name another with KUBE_IPVS_CACHE`)
  return folder
}

/** Names of unfinished folders; a killed process leaves its folder behind. */
const UNFINISHED = /^\.unfinished-(\d+)-/

/**
 * Makes a folder inside the cache in which a file or folder is prepared and then renamed; removes
 * such folders of processes that no longer run.
 * @param {string} cache @param {number} neededMiB
 * @throws {Unmet} when the cache is read-only, no folder, or has less room than `neededMiB`
 */
export function unfinishedFolder(cache, neededMiB) {
  const remedy = 'name another folder with KUBE_IPVS_CACHE'
  try {
    mkdirSync(cache, { recursive: true })
    accessSync(cache, constants.W_OK)
  } catch (error) {
    throw new Unmet(`the cache folder ${cache} cannot be written (${error.code}); ${remedy}`)
  }
  for (const name of readdirSync(cache)) {
    const owner = UNFINISHED.exec(name)?.[1]
    if (owner !== undefined && !existsSync(`/proc/${owner}`))
      rmSync(join(cache, name), { recursive: true, force: true })
  }
  const { bavail, bsize } = statfsSync(cache)
  const freeMiB = Math.floor((bavail * bsize) / 1024 / 1024)
  if (freeMiB < neededMiB)
    throw new Unmet(`the cache folder ${cache} has ${freeMiB} MiB left and needs ${neededMiB}; make room or ${remedy}`)
  try {
    return mkdtempSync(join(cache, `.unfinished-${process.pid}-`))
  } catch (error) {
    throw new Unmet(`the cache folder ${cache} cannot be written (${error.code}); ${remedy}`)
  }
}
