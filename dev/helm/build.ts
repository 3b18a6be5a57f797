/**
 * Builds helm with Go from the Go module proxy (GOPROXY, GOSUMDB and the like count), because no
 * registry has it as a program. Everything lies in one folder beside the result until helm has been
 * started once; then it is renamed, and the rest is removed.
 */
import { existsSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { unfinishedFolder } from '../cache.mjs'
import type { openDebianRelease } from '../debian-archive.mjs'
import { finish, say, tail, Unmet } from '../progress.mjs'
import { debianGo, type Go, installedGo } from './go.ts'

const MODULE = 'helm.sh/helm/v3'
/** Of the program, and with Debian's Go of Go, the modules and what is compiled. Measured: 84 and 2,226 MiB. */
const NEEDED_MIB = 300
const NEEDED_WITH_DEBIAN_GO_MIB = 2500
/** The first request to the module proxy, which waits for a silent proxy without an end. */
const PROXY_MS = 60_000
/**
 * It needs two and a half minutes of processor time; that took ten minutes on a machine that was
 * busy with ten times as much.
 */
const BUILD_MS = 1_800_000
const START_MS = 30_000
const REMEDY = 'name another folder with KUBE_IPVS_CACHE'

export interface Build {
  readonly version: string
  /** The path of the result. */
  readonly program: string
  readonly env: NodeJS.ProcessEnv
  /** Default: this machine's mirrors. */
  readonly open?: typeof openDebianRelease
  /** Default: a minute. */
  readonly proxyMs?: number
}

/** Rejects with Unmet and one line of reason when helm is not to be had; then nothing is kept. */
export async function buildHelm({ version, program, env, open, proxyMs = PROXY_MS }: Build): Promise<void> {
  const installed = await installedGo(env)
  const cache = dirname(program)
  const folder = unfinishedFolder(cache, installed === undefined ? NEEDED_WITH_DEBIAN_GO_MIB : NEEDED_MIB)
  try {
    await mustAllowExecution(folder, cache)
    const go = installed ?? (await debianGo(folder, env, open).catch(withoutGo))
    say(`Building helm ${version} ...`)
    const built = { ...go, env: { ...go.env, GOBIN: folder, GOTMPDIR: folder, CGO_ENABLED: '0' } }
    await run(built, ['mod', 'download', `${MODULE}@${version}`], proxyMs)
    await run(built, ['install', `${MODULE}/cmd/helm@${version}`], BUILD_MS)
    const helm = join(folder, 'helm')
    if (!existsSync(helm)) throw new Unmet('go install succeeded and wrote no helm')
    const started = await finish(helm, ['version', '--short'], { env, timeoutMs: START_MS })
    if (started.code !== 0) throw new Unmet(`the helm that was built does not run here (${tail(started.output, 1)})`)
    renameSync(helm, program)
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code === 'ENOSPC' || code === 'EDQUOT')
      throw new Unmet(`the cache folder ${cache} is full; make room or ${REMEDY}`)
    throw error
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  }
}

/** Before anything is fetched. */
async function mustAllowExecution(folder: string, cache: string): Promise<void> {
  const script = join(folder, 'script')
  writeFileSync(script, '#!/bin/sh\n', { mode: 0o700 })
  if ((await finish(script, [], { timeoutMs: START_MS })).code !== 0)
    throw new Unmet(`the cache folder ${cache} allows no execution (noexec); ${REMEDY}`)
}

function withoutGo(error: unknown): never {
  if (!(error instanceof Unmet)) throw error
  throw new Unmet(`this machine has no Go that is new enough, and Debian's is not to be had: ${error.message}`)
}

async function run(go: Go, args: readonly string[], timeoutMs: number): Promise<void> {
  const { code, output } = await finish(go.program, [...args], { env: go.env, timeoutMs })
  if (code === 0) return
  const lines = output.split('\n').filter((line) => line.trim() !== '' && !line.startsWith('go: downloading '))
  const said =
    lines.find((line) => line.includes('no space left')) ??
    lines.find((line) => line.startsWith('go: ')) ??
    lines.at(-1) ??
    'it said nothing: the Go module proxy may be silent'
  const ended = code === 124 ? `did not end within ${timeoutMs / 1000} s` : 'failed'
  throw new Unmet(`${basename(go.program)} ${args.join(' ')} ${ended} (${said.trim()})`)
}
