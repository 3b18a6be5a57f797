/**
 * Where helm is: the program that KUBE_IPVS_HELM names, the one in the cache, or the one in PATH.
 * `npm run helm` runs this file, which builds helm into the cache where there is none. Where that
 * fails it says so and succeeds, because only tests of the chart need it.
 */
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import { cacheFolder } from '../cache.mjs'
import { endWithParent } from '../parent.ts'
import { say, stopPrograms, Unmet } from '../progress.mjs'
import { buildHelm } from './build.ts'

/** The release that the recorded renderings of the chart are made with. */
const VERSION = 'v3.22.0'

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

async function main(env: NodeJS.ProcessEnv): Promise<void> {
  const stopped = new AbortController()
  stopped.signal.addEventListener('abort', stopPrograms)
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => stopped.abort())
  endWithParent(stopped)
  try {
    const outcome = await provideHelm(env)
    if (stopped.signal.aborted) throw new Unmet('helm was not built: stopped before the end')
    say(outcome)
  } catch (error) {
    if (!(error instanceof Unmet)) throw error
    say(error.message)
    process.exitCode = 1
  }
}

/** Returns what there is to say. Rejects with Unmet when the environment names something wrong. */
async function provideHelm(env: NodeJS.ProcessEnv): Promise<string> {
  const found = findHelm(env)
  if (found !== undefined) return `helm is here: ${found}`
  const program = cachedHelm(env)
  const startedAt = performance.now()
  try {
    await buildHelm({ version: VERSION, program, env })
    return `Built helm in ${Math.round((performance.now() - startedAt) / 1000)} s.`
  } catch (error) {
    if (!(error instanceof Unmet)) throw error
    const outlook = 'the tests that need it are unmet (npm run helm tries again, KUBE_IPVS_HELM may name a helm)'
    return `helm was not built, so ${outlook}: ${error.message}`
  }
}

if (import.meta.main) await main(process.env)
