/**
 * Builds the kernel image beside this file: `node dev/kernel/image/build.mjs`. The source is
 * Debian's linux-source package, whose signature apt verifies; the configuration is `config`. It
 * takes 10 to 30 minutes. The build carries no time, user or host of the machine.
 */
import { createHash } from 'node:crypto'
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { brotliCompressSync, constants } from 'node:zlib'
import { ensurePackages } from '../../packages.mjs'
import { Unmet, finish, say, tail } from '../../progress.mjs'
import { openDebianRelease } from '../../debian-archive.mjs'

const RELEASE = 'unstable'
const BUILD_MS = 3_600_000
const here = import.meta.dirname

try {
  await build()
} catch (error) {
  if (!(error instanceof Unmet)) throw error
  say(error.message)
  process.exitCode = 1
}

async function build() {
  await ensurePackages(['gcc', 'make', 'flex', 'bison', 'bc', 'xz', 'strip'])
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-kernel-'))
  try {
    mkdirSync(join(folder, 'apt'))
    const archive = await openDebianRelease(RELEASE, join(folder, 'apt'))
    const version = await archive.version('linux-source')
    const series = /^\d+\.\d+/.exec(version ?? '')?.[0]
    if (series === undefined) throw new Unmet(`Debian ${RELEASE} has no linux-source`)
    say(`Fetching linux-source-${series} ${version} from Debian ${RELEASE} ...`)
    await archive.unpack([`linux-source-${series}`], join(folder, 'source'))
    await must('tar', ['-xf', join(folder, `source/usr/src/linux-source-${series}.tar.xz`), '-C', folder])
    const tree = join(folder, `linux-source-${series}`)
    copyFileSync(join(here, 'config'), join(tree, '.config'))
    say('Compiling ...')
    const jobs = `-j${availableParallelism()}`
    await must('make', ['-C', tree, 'ARCH=um', 'olddefconfig'])
    await must('make', ['-C', tree, 'ARCH=um', jobs, 'linux'])
    await must('strip', [join(tree, 'linux')])
    keep(tree, version)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/**
 * Writes image, configuration and `image.json`, which says what the image is. @param {string} tree
 * @param {string} version
 */
function keep(tree, version) {
  const kernel = readFileSync(join(tree, 'linux'))
  const params = { [constants.BROTLI_PARAM_LGWIN]: 24, [constants.BROTLI_PARAM_SIZE_HINT]: kernel.length }
  writeFileSync(join(here, 'linux.br'), brotliCompressSync(kernel, { params }))
  copyFileSync(join(tree, '.config'), join(here, 'config'))
  const compiler = /^CONFIG_CC_VERSION_TEXT="(.*)"$/m.exec(readFileSync(join(tree, '.config'), 'utf8'))?.[1]
  const sha256 = createHash('sha256').update(kernel).digest('hex')
  const facts = {
    source: `Debian linux-source-${/^\d+\.\d+/.exec(version)?.[0]} ${version}`,
    compiler,
    bytes: kernel.length,
    sha256,
  }
  writeFileSync(join(here, 'image.json'), `${JSON.stringify(facts, null, 2)}\n`)
  say(`Built a kernel of ${kernel.length} bytes, SHA-256 ${sha256}.`)
}

/** @param {string} program @param {string[]} args */
async function must(program, args) {
  const identity = { KBUILD_BUILD_USER: 'kube-ipvs', KBUILD_BUILD_HOST: 'kube-ipvs', KBUILD_BUILD_VERSION: '1' }
  const env = { ...process.env, LC_ALL: 'C', KBUILD_BUILD_TIMESTAMP: '2026-01-01', ...identity }
  const { code, output } = await finish(program, args, { env, timeoutMs: BUILD_MS })
  if (code !== 0) throw new Unmet(`${program} ${args.join(' ')} failed:\n${tail(output, 30)}`)
}
