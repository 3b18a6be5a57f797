/**
 * Building helm on machines with and without Go, where everything that it needs may be missing,
 * silent or wrong. Go itself is a script here.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { openDebianRelease } from '../../dev/debian-archive.mjs'
import { buildHelm } from '../../dev/helm/build.ts'
import { projectFolder, Unmet } from '../../dev/progress.mjs'
import { deadline, until } from '../support/deadline.ts'
import { Mirror, type MirrorOptions, needsDebian } from './debian-archive/mirror.ts'

const VERSION = 'v3.22.0'
const BACKPORTS = { 'trixie-backports': 'new' } as const

let folder = ''
let cache = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-helm-build-'))
  cache = join(folder, 'cache')
})
afterEach(() => rmSync(folder, { recursive: true }))

/** A script of sh; what it prints for `version` and `env` is the beginning. Returns its path. */
function script(name: string, version: string, text: string, toolchain = 'local'): string {
  const path = join(folder, name)
  mkdirSync(join(path, '..'), { recursive: true })
  const lines = [
    '#!/bin/sh',
    `[ "$1" = version ] && echo "go version ${version} linux/amd64" && exit`,
    `[ "$1" = env ] && printf '%s\\n' ${version} ${toolchain} && exit`,
    `echo "$0 $*" >>${folder}/calls`,
    text,
  ]
  writeFileSync(path, `${lines.join('\n')}\n`)
  chmodSync(path, 0o755)
  return path
}

/** What `go install` does that succeeds; its helm prints a version. */
const INSTALLS = `[ "$1" = mod ] || { echo '#!/bin/sh' >"$GOBIN/helm"; echo "echo ${VERSION}" >>"$GOBIN/helm"; chmod 755 "$GOBIN/helm"; }`
const RECORDS = `env >${'$'}{CALLS%/*}/environment`

const program = (): string => join(cache, `helm-${VERSION}`)
const calls = (): string[] => {
  const file = join(folder, 'calls')
  return existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : []
}
const environment = (): ReadonlyMap<string, string> =>
  new Map(
    readFileSync(join(folder, 'environment'), 'utf8')
      .split('\n')
      .map((line): [string, string] => [line.split('=', 1)[0] ?? '', line.slice(line.indexOf('=') + 1)]),
  )

interface World {
  /** The Go in PATH. */
  readonly installed?: string
  /** The Go in Debian's packages. */
  readonly debians?: string
  readonly mirror?: MirrorOptions
  readonly env?: NodeJS.ProcessEnv
  readonly proxyMs?: number
}

async function build({ installed, debians = '', mirror = {}, env = {}, proxyMs }: World): Promise<Mirror> {
  await using server = await new Mirror(mirror).listen()
  const path = installed === undefined ? [] : [join(installed, '..')]
  await buildHelm({
    version: VERSION,
    program: program(),
    env: {
      PATH: [...path, '/usr/bin', '/bin'].join(':'),
      HOME: folder,
      FAKE_GO: debians,
      CALLS: join(folder, 'calls'),
      ...env,
    },
    open: (release, apt) => openDebianRelease(release, apt, server.options),
    ...(proxyMs === undefined ? {} : { proxyMs }),
  })
  return server
}

/** The reason of a failure, after which the cache must be as empty as before. */
async function failure(world: World): Promise<string> {
  const error: unknown = await build(world).then(
    () => undefined,
    (reason: unknown) => reason,
  )
  assert.ok(error instanceof Unmet, String(error))
  assert.doesNotMatch(error.message, /\n/)
  assert.deepEqual(readdirSync(cache), [])
  return error.message
}

describe('buildHelm with a Go that is installed', () => {
  it('prefers one that is new enough, and leaves only helm in the cache', async () => {
    const installed = script('bin/go', 'go1.26.0', `${RECORDS}\n${INSTALLS}`)
    const mirror = await build({ installed, env: { GOPROXY: 'http://127.0.0.1:9' } })
    assert.deepEqual(mirror.asked, [])
    assert.deepEqual(calls(), [
      `${installed} mod download helm.sh/helm/v3@${VERSION}`,
      `${installed} install helm.sh/helm/v3/cmd/helm@${VERSION}`,
    ])
    assert.deepEqual(readdirSync(cache), [`helm-${VERSION}`])
    assert.equal(environment().get('GOPROXY'), 'http://127.0.0.1:9')
    assert.equal(environment().get('CGO_ENABLED'), '0')
    assert.equal(environment().get('GOPATH'), undefined)
  })

  it('uses an older one that gets a newer Go by itself', async () => {
    for (const toolchain of ['auto', 'go1.24.4+auto'])
      await build({ installed: script('bin/go', 'go1.24.4', INSTALLS, toolchain) })
    assert.equal(calls().length, 4)
  })

  const refusal = `go: helm.sh/helm/v3@${VERSION}: reading https://proxy.test/x.info: 403 Forbidden`
  const mismatch = `go: helm.sh/helm/v3@${VERSION}: verifying module: checksum mismatch`
  it('reports in one line what Go says of a module proxy that refuses or changes a module', async () => {
    for (const said of [refusal, mismatch])
      assert.equal(
        await failure({
          installed: script('bin/go', 'go1.26.0', `printf '%s\\n' 'go: downloading x v1' '${said}' more >&2; exit 1`),
        }),
        `go mod download helm.sh/helm/v3@${VERSION} failed (${said})`,
      )
  })

  it('waits a limited time for a module proxy that is silent', async () => {
    const installed = script('bin/go', 'go1.26.0', 'exec sleep 600')
    const proxyMs = 300
    assert.match(await failure({ installed, proxyMs }), /^go mod download \S+ did not end within 0\.3 s \(it said noth/)
  })

  it('keeps nothing when the disk is full while it compiles', async () => {
    const text = `[ "$1" = mod ] || { echo half >"$GOBIN/helm"; echo 'x: write /c: no space left on device' >&2; exit 1; }`
    assert.match(await failure({ installed: script('bin/go', 'go1.26.0', text) }), /failed \(x: write .*no space left/)
  })

  it('keeps no helm that does not start, and notices when Go wrote none', async () => {
    const broken = `[ "$1" = mod ] || { printf '#!/bin/sh\\necho broken; exit 3\\n' >"$GOBIN/helm"; chmod 755 "$GOBIN/helm"; }`
    const reason = await failure({ installed: script('bin/go', 'go1.26.0', broken) })
    assert.match(reason, /helm that was built does not run here \(broken\)/)
    assert.match(await failure({ installed: script('bin/go', 'go1.26.0', 'true') }), /wrote no helm/)
  })

  it('reports a cache folder that cannot be written', async () => {
    writeFileSync(cache, '')
    await assert.rejects(build({ installed: script('bin/go', 'go1.26.0', INSTALLS) }), {
      message: /cache folder \S+ cannot be written \(\w+\); name another folder with KUBE_IPVS_CACHE/,
    })
  })
})

describe('buildHelm without such a Go', needsDebian, () => {
  it("builds with Debian's, with caches of its own and without a new toolchain, and leaves only helm", async () => {
    const debians = script('debian-go', 'go1.99.3', `${RECORDS}\n${INSTALLS}`)
    await build({ debians, mirror: { releases: BACKPORTS }, env: { GOFLAGS: '-p=1', GOTOOLCHAIN: 'go1.98.1' } })
    assert.deepEqual(readdirSync(cache), [`helm-${VERSION}`])
    const used = environment()
    for (const name of ['GOROOT', 'GOPATH', 'GOMODCACHE', 'GOCACHE', 'GOBIN', 'GOTMPDIR'])
      assert.ok(used.get(name)?.startsWith(join(cache, '.unfinished-')), name)
    assert.equal(used.get('GOTOOLCHAIN'), 'local')
    assert.equal(used.get('GOFLAGS'), '-p=1 -modcacherw')
  })

  it("uses Debian's where the installed one is too old and stays so", async () => {
    const installed = script('bin/go', 'go1.24.4', 'exit 1')
    await build({ installed, debians: script('debian-go', 'go1.99.3', INSTALLS), mirror: { releases: BACKPORTS } })
    assert.ok(existsSync(program()))
    const old = script('bin/go', 'go1.19.8', 'exit 1', "''")
    rmSync(program())
    await build({ installed: old, debians: script('debian-go', 'go1.99.3', INSTALLS), mirror: { releases: BACKPORTS } })
    assert.ok(existsSync(program()))
  })

  it('takes it from the testing release where the mirror has no backports, or older ones', async () => {
    const debians = script('debian-go', 'go1.99.3', INSTALLS)
    await build({ debians, mirror: { releases: { testing: 'new' } } })
    rmSync(program())
    await build({ debians, mirror: { releases: { 'trixie-backports': 'old', testing: 'new' } } })
    assert.ok(existsSync(program()))
  })

  it('says what is missing when neither has a Go that is new enough', async () => {
    assert.match(
      await failure({ mirror: { releases: { 'trixie-backports': 'old', testing: 'old' } } }),
      /no Go that is new enough, .*: Debian trixie-backports has no Go 1\.26 or newer; Debian testing has no Go 1\.26/,
    )
  })

  it('says why a mirror gives nothing', async () => {
    assert.match(await failure({ mirror: { everything: 403 } }), /mirror \S+ did not give a verified testing \(.*403/)
    const releases = BACKPORTS
    assert.match(await failure({ mirror: { releases, packages: 'changed' } }), /could not be fetched \(.*mismatch/)
    assert.match(await failure({ mirror: { releases, packages: 'truncated' } }), /could not be fetched/)
    assert.deepEqual(calls(), [])
  })

  it("reports Debian's Go that does not run", async () => {
    const debians = join(folder, 'none')
    assert.match(await failure({ debians, mirror: { releases: BACKPORTS } }), /Debian's Go does not run here \(.*none/)
  })
})

describe('npm run helm', () => {
  const start = (env: NodeJS.ProcessEnv) => {
    const args = ['dev/helm/program.ts']
    const child = spawn(process.execPath, args, {
      cwd: projectFolder,
      env: { HOME: folder, KUBE_IPVS_CACHE: cache, ...env },
    })
    let output = ''
    child.stderr.setEncoding('utf8').on('data', (chunk) => {
      output += chunk
    })
    const ended = once(child, 'close', { signal: AbortSignal.timeout(deadline(20_000)) }).then(([code]) => ({
      code,
      output,
    }))
    return { child, ended }
  }

  it('succeeds with one line of reason and way out when helm is not to be had', async () => {
    const installed = script('bin/go', 'go1.26.0', "echo 'go: no such luck' >&2; exit 1")
    const { code, output } = await start({ PATH: `${join(installed, '..')}:/usr/bin:/bin` }).ended
    assert.equal(code, 0)
    assert.equal(
      output.replace(/^Building.*\n/, ''),
      'helm was not built, so the tests that need it are unmet (npm run helm tries again, KUBE_IPVS_HELM may name a helm): ' +
        `go mod download helm.sh/helm/v3@${VERSION} failed (go: no such luck)\n`,
    )
  })

  it('fails without a stack trace when the environment names something wrong', async () => {
    const wrong = { KUBE_IPVS_HELM: '/gone', PATH: '/usr/bin:/bin' }
    const named = await start(wrong).ended
    assert.deepEqual(named, { code: 1, output: 'KUBE_IPVS_HELM names no program that can be run: "/gone"\n' })
  })

  it('ends Go and removes what is unfinished when it is told to end', async () => {
    const installed = script('bin/go', 'go1.26.0', `echo $$ >${folder}/pid; exec sleep 600`)
    const { child, ended } = start({ PATH: `${join(installed, '..')}:/usr/bin:/bin` })
    await until('Go runs', () => existsSync(join(folder, 'pid')) && readFileSync(join(folder, 'pid'), 'utf8') !== '')
    child.kill('SIGTERM')
    const { code, output } = await ended
    assert.equal(code, 1)
    assert.match(output, /helm was not built: stopped before the end\n$/)
    assert.deepEqual(readdirSync(cache), [])
    assert.ok(!existsSync(`/proc/${readFileSync(join(folder, 'pid'), 'utf8').trim()}`))
  })
})
