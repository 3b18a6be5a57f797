/**
 * A kube-proxy of each release that the rows name, built unchanged with the Go in PATH from the Go
 * module k8s.io/kubernetes (GOPROXY, GOSUMDB and the like count), because no registry has it as a
 * program. Each stays in the cache.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { cacheFolder, unfinishedFolder } from '../../cache.mjs'
import { installedGo } from '../../helm/go.ts'
import { finish, say, tail, Unmet } from '../../progress.mjs'
import { goMod } from './go-mod.ts'

const MODULE = 'k8s.io/kubernetes'
/**
 * Of the program and what the linker writes; modules and compiled packages are in Go's own caches.
 */
const NEEDED_MIB = 400
const DOWNLOAD_MS = 120_000
/** It takes three minutes of processor time, which a busy machine spreads over more. */
const BUILD_MS = 3_600_000

/**
 * Path of that kube-proxy. Rejects with Unmet and one line of reason when it is not to be had.
 * @param release `1.37.2`
 */
export async function kubeProxyOf(release: string, env: NodeJS.ProcessEnv): Promise<string> {
  const cache = cacheFolder(env)
  const program = join(cache, `kube-proxy-${release}`)
  if (existsSync(program)) return program
  const go = await installedGo(env)
  if (go === undefined) throw new Unmet('there is no Go that is new enough in PATH')
  const folder = unfinishedFolder(cache, NEEDED_MIB)
  try {
    say(`Building kube-proxy ${release} ...`)
    const module = join(folder, 'module')
    mkdirSync(module)
    const goEnv = { ...go.env, CGO_ENABLED: '0', GOTMPDIR: folder, GOFLAGS: `${env['GOFLAGS'] ?? ''} -mod=mod`.trim() }
    const run = async (timeoutMs: number, ...args: string[]): Promise<string> => {
      const { code, output } = await finish(go.program, args, { cwd: module, env: goEnv, timeoutMs })
      if (code === 0) return output
      throw new Unmet(`go ${args[0]} ${code === 124 ? 'did not end in time' : 'failed'}: ${tail(output, 1)}`)
    }
    writeFileSync(join(module, 'go.mod'), 'module kube-proxy\n')
    const downloaded = await run(DOWNLOAD_MS, 'mod', 'download', '-json', `${MODULE}@v${release}`)
    const { GoMod } = JSON.parse(downloaded.slice(downloaded.indexOf('{'))) as { GoMod: string } // as `go help mod download` says
    writeFileSync(join(module, 'go.mod'), goMod(release, readFileSync(GoMod, 'utf8')))
    const version = `-X k8s.io/component-base/version.gitVersion=v${release}`
    const built = join(folder, 'kube-proxy')
    await run(BUILD_MS, 'build', '-trimpath', `-ldflags=-s -w ${version}`, '-o', built, `${MODULE}/cmd/kube-proxy`)
    const said = await finish(built, ['--version'], { timeoutMs: DOWNLOAD_MS })
    if (!said.output.includes(`v${release}`)) throw new Unmet(`it does not run here: ${tail(said.output, 1)}`)
    renameSync(built, program)
    return program
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  }
}
