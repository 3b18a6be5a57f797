/**
 * Where helm is: the program that KUBE_IPVS_HELM names, the one in the cache, or the one in PATH. `npm run helm` runs this file,
 * which builds helm with Go into the cache: no registry that the project may use has it as a program. Without Go it says so and
 * succeeds, because only tests of the chart need it.
 */
import { spawnSync } from 'node:child_process'
import { accessSync, constants, existsSync, renameSync, rmSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { cacheFolder, unfinishedFolder } from '../cache.mjs'
import { finish, say, tail, Unmet } from '../progress.mjs'

/** The release that the recorded renderings of the chart are made with. */
const VERSION = 'v3.22.0'
const MODULE = 'helm.sh/helm/v3/cmd/helm'
/** Of the program and the folder in which it is built. */
const NEEDED_MIB = 300

/** Path of a helm that can be run; undefined when there is none. Throws Unmet when KUBE_IPVS_HELM names no program. */
export function findHelm(env: NodeJS.ProcessEnv): string | undefined {
  const named = env['KUBE_IPVS_HELM'] ?? ''
  if (named !== '' && !isProgram(named)) throw new Unmet(`KUBE_IPVS_HELM names no program that can be run: "${named}"`)
  const inPath = (env['PATH'] ?? '').split(delimiter).map((folder) => join(folder, 'helm'))
  return named === '' ? [cachedHelm(env), ...inPath].find(isProgram) : named
}

function cachedHelm(env: NodeJS.ProcessEnv): string {
  return join(cacheFolder(env), `helm-${VERSION}`)
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

async function buildHelm(): Promise<void> {
  const { env } = process
  const found = findHelm(env)
  if (found !== undefined) return say(`helm is here: ${found}`)
  if (spawnSync('go', ['version']).status !== 0)
    return say('helm is not built, because this machine has no Go: the tests that need helm will be skipped')
  const startedAt = performance.now()
  say(`Building helm ${VERSION} with Go ...`)
  const folder = unfinishedFolder(cacheFolder(env), NEEDED_MIB)
  const built = await finish('go', ['install', `${MODULE}@${VERSION}`], {
    env: { ...env, GOBIN: folder, CGO_ENABLED: '0' },
  })
  if (built.code !== 0 || !existsSync(join(folder, 'helm')))
    return say(`helm was not built, and the tests that need it will be skipped:\n${tail(built.output)}`)
  renameSync(join(folder, 'helm'), cachedHelm(env))
  rmSync(folder, { recursive: true })
  say(`Built helm in ${Math.round((performance.now() - startedAt) / 1000)} s.`)
}

if (import.meta.main) await buildHelm()
