/**
 * kube-proxy, kube-apiserver and etcd of any release, built unchanged with the Go in PATH from their
 * Go modules (GOPROXY, GOSUMDB and the like count), because no registry has them as programs. Each
 * stays in the cache.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { cacheFolder, unfinishedFolder } from '../cache.mjs'
import { installedGo } from '../helm/go.ts'
import { finish, say, tail, Unmet } from '../progress.mjs'
import { etcdGoMod, kubernetesGoMod } from './go-mod.ts'

interface Source {
  readonly module: string
  /** Of the program, below the module. */
  readonly package: string
  /** The go.mod to build it with. @param own that of the module */
  readonly goMod: (release: string, own: string) => string
  /** What the linker writes into the program. */
  readonly version: (release: string) => string
}

const KUBERNETES = {
  module: 'k8s.io/kubernetes',
  goMod: kubernetesGoMod,
  version: (release: string) => `-X k8s.io/component-base/version.gitVersion=v${release}`,
} as const

const SOURCES = {
  'kube-proxy': { ...KUBERNETES, package: '/cmd/kube-proxy' },
  'kube-apiserver': { ...KUBERNETES, package: '/cmd/kube-apiserver' },
  etcd: { module: 'go.etcd.io/etcd/server/v3', package: '', goMod: etcdGoMod, version: () => '' },
} as const satisfies Readonly<Record<string, Source>>

export type GoProgram = keyof typeof SOURCES

/**
 * Of the program and what the linker writes; modules and compiled packages are in Go's own caches.
 */
const NEEDED_MIB = 400
const DOWNLOAD_MS = 120_000
/** kube-proxy takes three minutes of processor time and kube-apiserver ten, which a busy machine spreads over more. */
const BUILD_MS = 3_600_000

/**
 * Path of that program. Rejects with Unmet and one line of reason when it is not to be had.
 * @param release `1.37.2`
 */
export async function goProgram(name: GoProgram, release: string, env: NodeJS.ProcessEnv): Promise<string> {
  const cache = cacheFolder(env)
  const program = join(cache, `${name}-${release}`)
  if (existsSync(program)) return program
  const go = await installedGo(env)
  if (go === undefined) throw new Unmet('there is no Go that is new enough in PATH')
  const folder = unfinishedFolder(cache, NEEDED_MIB)
  const source: Source = SOURCES[name]
  try {
    say(`Building ${name} ${release} ...`)
    const module = join(folder, 'module')
    mkdirSync(module)
    const goEnv = { ...go.env, CGO_ENABLED: '0', GOTMPDIR: folder, GOFLAGS: `${env['GOFLAGS'] ?? ''} -mod=mod`.trim() }
    const run = async (timeoutMs: number, ...args: string[]): Promise<string> => {
      const { code, output } = await finish(go.program, args, { cwd: module, env: goEnv, timeoutMs })
      if (code === 0) return output
      throw new Unmet(`go ${args[0]} ${code === 124 ? 'did not end in time' : 'failed'}: ${tail(output, 1)}`)
    }
    writeFileSync(join(module, 'go.mod'), 'module program\n')
    const downloaded = await run(DOWNLOAD_MS, 'mod', 'download', '-json', `${source.module}@v${release}`)
    const { GoMod } = JSON.parse(downloaded.slice(downloaded.indexOf('{'))) as { GoMod: string } // as `go help mod download` says
    writeFileSync(join(module, 'go.mod'), source.goMod(release, readFileSync(GoMod, 'utf8')))
    const flags = `-ldflags=-s -w ${source.version(release)}`.trim()
    const built = join(folder, name)
    await run(BUILD_MS, 'build', '-trimpath', flags, '-o', built, `${source.module}${source.package}`)
    const said = await finish(built, ['--version'], { timeoutMs: DOWNLOAD_MS })
    if (!said.output.includes(release)) throw new Unmet(`it does not run here: ${tail(said.output, 1)}`)
    renameSync(built, program)
    return program
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  }
}
