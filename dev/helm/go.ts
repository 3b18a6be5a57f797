/**
 * The Go that builds helm: the installed one if it is new enough, else Debian's packages, which apt
 * fetches and verifies and which are unpacked without being installed; it is linked statically, so
 * that of a newer release runs on an older one as well. Not the toolchain that the Go module proxy
 * has: that is for the client of the proxy, which is Go.
 */
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { getCACertificates } from 'node:tls'
import { openDebianRelease } from '../debian-archive.mjs'
import { finish, say, tail, Unmet } from '../progress.mjs'

/** What go.mod of helm names. */
const NEEDED_MINOR = 26
/** The first Go that gets the one that a go.mod names by itself, unless GOTOOLCHAIN forbids it. */
const SWITCHING_MINOR = 21
/**
 * Where Debian has such a Go. The list of packages of the first one is small; the second one has
 * what comes after it.
 */
const RELEASES = ['trixie-backports', 'testing']
/** Debian's file of certificates, which is one of those that Go reads. */
const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt'
const VERSION_MS = 60_000

export interface Go {
  readonly program: string
  readonly env: NodeJS.ProcessEnv
}

/** The Go in PATH; undefined when there is none, or one that is too old and gets no newer one. */
export async function installedGo(env: NodeJS.ProcessEnv): Promise<Go | undefined> {
  const { code, output } = await finish('go', ['env', 'GOVERSION', 'GOTOOLCHAIN'], { env, timeoutMs: VERSION_MS })
  const minor = Number(/\bgo1\.(\d+)/.exec(output)?.[1] ?? 0)
  const switches = minor >= SWITCHING_MINOR && /^(?:auto|.*\+auto)$/m.test(output)
  return code === 0 && (minor >= NEEDED_MINOR || switches) ? { program: 'go', env } : undefined
}

/**
 * Debian's Go unpacked into a folder, with caches of its own in there. Rejects with Unmet when this
 * is no Debian, no mirror answers, something is not what the archive has signed, or the folder
 * cannot hold it.
 */
export async function debianGo(folder: string, env: NodeJS.ProcessEnv, open = openDebianRelease): Promise<Go> {
  const reasons = new Set<string>()
  for (const name of RELEASES) {
    const own = join(folder, name)
    mkdirSync(own)
    try {
      const release = await open(name, join(own, 'apt'))
      const minor = Number(/^(?:\d+:)?1\.(\d+)/.exec((await release.version('golang-go')) ?? '')?.[1] ?? 0)
      if (minor < NEEDED_MINOR) throw new Unmet(`Debian ${name} has no Go 1.${NEEDED_MINOR} or newer`)
      say(`Fetching Go 1.${minor} from Debian ${name} ...`)
      await release.unpack([`golang-1.${minor}-go`, `golang-1.${minor}-src`], own)
      return await usable(join(own, `usr/lib/go-1.${minor}`), folder, env)
    } catch (error) {
      if (!(error instanceof Unmet)) throw error
      reasons.add(error.message)
      rmSync(own, { recursive: true, force: true })
    }
  }
  throw new Unmet([...reasons].join('; '))
}

async function usable(root: string, folder: string, env: NodeJS.ProcessEnv): Promise<Go> {
  const program = join(root, 'bin/go')
  const own = {
    ...env,
    GOROOT: root,
    GOTOOLCHAIN: 'local',
    GOPATH: join(folder, 'path'),
    GOMODCACHE: join(folder, 'path/pkg/mod'),
    GOCACHE: join(folder, 'cache'),
    // So that the folder can be removed.
    GOFLAGS: `${env['GOFLAGS'] ?? ''} -modcacherw`.trim(),
    ...certificates(folder, env),
  }
  const { code, output } = await finish(program, ['version'], { env: own, timeoutMs: VERSION_MS })
  if (code === 0) return { program, env: own }
  throw new Unmet(`Debian's Go does not run here (${tail(output, 1)})`)
}

/** A new machine may have none; Node brings its own. */
function certificates(folder: string, env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  if (existsSync(CERTIFICATES) || (env['SSL_CERT_FILE'] ?? env['SSL_CERT_DIR'] ?? '') !== '') return {}
  const file = join(folder, 'certificates.pem')
  writeFileSync(file, getCACertificates('default').join('\n'))
  return { SSL_CERT_FILE: file }
}
