/**
 * Builds the kernel image beside this file: `node dev/kernel/image/build.mjs [FOLDER]`. The source
 * is Debian's linux-source package, whose signature apt verifies, with the patches beside this file;
 * the configuration is `config`. README.md says how long it takes. The build carries no time, user
 * or host of the machine. In a FOLDER the source and the objects stay, and a second build makes only
 * what has changed.
 */
import { createHash } from 'node:crypto'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { brotliCompressSync, constants } from 'node:zlib'
import { ensurePackages, findProgram } from '../../packages.mjs'
import { Unmet, finish, say, tail } from '../../progress.mjs'
import { openDebianRelease } from '../../debian-archive.mjs'
import { LOAD_LIST, loadOrder, sumOfModules } from '../modules.mjs'

const RELEASE = 'unstable'
/** A build beside other work may have a small part of the processors. */
const BUILD_MS = 3 * 3_600_000
const here = import.meta.dirname
/** Types of sets that a guest does not load when it boots: modprobe does when one is made. */
const LOADED_LATER = /^ip_set_(bitmap_ipmac|hash_(ipmac|ipmark|mac|netiface|netnet|netportnet))$/

try {
  const [named] = process.argv.slice(2)
  if (named === undefined) await buildInTemporaryFolder()
  else await build(resolve(named))
} catch (error) {
  if (!(error instanceof Unmet)) throw error
  say(error.message)
  process.exitCode = 1
}

async function buildInTemporaryFolder() {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-kernel-'))
  try {
    await build(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** @param {string} folder */
async function build(folder) {
  const beganMs = Date.now()
  await ensurePackages(['gcc', 'make', 'flex', 'bison', 'bc', 'xz', 'patch', 'strip', 'depmod'])
  mkdirSync(join(folder, 'apt'), { recursive: true })
  const archive = await openDebianRelease(RELEASE, join(folder, 'apt'))
  const version = await archive.version('linux-source')
  const series = /^\d+\.\d+/.exec(version ?? '')?.[0]
  if (series === undefined) throw new Unmet(`Debian ${RELEASE} has no linux-source`)
  const tree = join(folder, `linux-source-${series}`)
  if (!existsSync(join(tree, 'Makefile'))) {
    say(`Fetching linux-source-${series} ${version} from Debian ${RELEASE} ...`)
    await archive.unpack([`linux-source-${series}`], join(folder, 'source'))
    await must('tar', ['-xf', join(folder, `source/usr/src/linux-source-${series}.tar.xz`), '-C', folder])
  }
  const old = readdirSync(tree).filter((name) => name.startsWith('.applied-') && !existsSync(join(here, name.slice(9))))
  if (old.length > 0) throw new Unmet(`${tree} has patches that are no more; remove that folder and build again`)
  for (const name of patches()) await applyPatch(tree, name)
  copyFileSync(join(here, 'config'), join(tree, '.config'))
  say('Compiling ...')
  const jobs = `-j${availableParallelism()}`
  await must('make', ['-C', tree, 'ARCH=um', 'olddefconfig'])
  await must('make', ['-C', tree, 'ARCH=um', jobs, 'linux', 'modules'])
  const kernel = join(folder, 'linux')
  await must('strip', ['-o', kernel, join(tree, 'linux')])
  const modules = await collectModules(tree, join(folder, 'modules'))
  await keep({ tree, version, kernel, modules })
  say(`It took ${Math.round((Date.now() - beganMs) / 1000)} s.`)
}

/** @returns {string[]} names, in the order in which they are applied */
function patches() {
  return readdirSync(here)
    .filter((name) => name.endsWith('.patch'))
    .toSorted()
}

/**
 * Applies a patch where an earlier build in this folder has not; says so where it was another version.
 * @param {string} tree @param {string} name
 */
async function applyPatch(tree, name) {
  const kept = join(tree, `.applied-${name}`)
  const patch = readFileSync(join(here, name))
  if (existsSync(kept)) {
    if (patch.equals(readFileSync(kept))) return
    throw new Unmet(`${tree} has an older ${name}; remove that folder and build again`)
  }
  await must('patch', ['--directory', tree, '--strip=1', '--forward', '--fuzz=0', '--input', join(here, name)])
  writeFileSync(kept, patch)
}

/**
 * Makes the folder that modprobe expects at /lib/modules, and returns it.
 * @param {string} tree @param {string} base an own folder for it
 */
async function collectModules(tree, base) {
  const release = (await must('make', ['-s', '-C', tree, 'ARCH=um', '--no-print-directory', 'kernelrelease'])).trim()
  const folder = join(base, 'lib/modules', release)
  rmSync(base, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  const objects = readFileSync(join(tree, 'modules.order'), 'utf8').trim().split('\n')
  const files = objects.map((object) => object.replace(/\.o$/, '.ko'))
  for (const file of files) copyFileSync(join(tree, file), join(folder, basename(file)))
  await must('strip', ['--strip-debug', ...files.map((file) => join(folder, basename(file)))])
  writeFileSync(join(folder, 'modules.order'), files.map((file) => `${basename(file)}\n`).join(''))
  for (const file of ['modules.builtin', 'modules.builtin.modinfo']) copyFileSync(join(tree, file), join(folder, file))
  await must(findProgram('depmod'), ['-b', base, release])
  const names = loadOrder(readFileSync(join(folder, 'modules.dep'), 'utf8'))
  const loaded = names.filter((name) => !LOADED_LATER.test(name))
  writeFileSync(join(folder, LOAD_LIST), loaded.map((name) => `${name}\n`).join(''))
  return join(base, 'lib/modules')
}

/**
 * Writes image, modules, configuration and `image.json`, which says what they are.
 * @param {{ tree: string, version: string, kernel: string, modules: string }} made
 */
async function keep({ tree, version, kernel, modules }) {
  const program = readFileSync(kernel)
  compress(program, 'linux.br')
  const archive = `${modules}.tar`
  const sameAlways = ['--sort=name', '--mtime=@0', '--owner=0', '--group=0', '--numeric-owner', '--mode=u=rwX,go=rX']
  await must('tar', [...sameAlways, '--format=ustar', '-cf', archive, '-C', modules, '.'])
  compress(readFileSync(archive), 'modules.tar.br')
  copyFileSync(join(tree, '.config'), join(here, 'config'))
  const compiler = /^CONFIG_CC_VERSION_TEXT="(.*)"$/m.exec(readFileSync(join(tree, '.config'), 'utf8'))?.[1]
  const sha256 = createHash('sha256').update(program).digest('hex')
  const facts = {
    source: `Debian linux-source-${/^\d+\.\d+/.exec(version)?.[0]} ${version}`,
    compiler,
    bytes: program.length,
    sha256,
    modules: { bytes: statSync(archive).size, sha256: sumOfModules(modules) },
  }
  writeFileSync(join(here, 'image.json'), `${JSON.stringify(facts, null, 2)}\n`)
  say(`Built a kernel of ${facts.bytes} bytes, SHA-256 ${sha256}, and modules of ${facts.modules.bytes} bytes.`)
}

/** @param {Buffer} content @param {string} name */
function compress(content, name) {
  const params = { [constants.BROTLI_PARAM_LGWIN]: 24, [constants.BROTLI_PARAM_SIZE_HINT]: content.length }
  writeFileSync(join(here, name), brotliCompressSync(content, { params }))
}

/** @param {string} program @param {string[]} args */
async function must(program, args) {
  const identity = { KBUILD_BUILD_USER: 'kube-ipvs', KBUILD_BUILD_HOST: 'kube-ipvs', KBUILD_BUILD_VERSION: '1' }
  const env = { ...process.env, LC_ALL: 'C', KBUILD_BUILD_TIMESTAMP: '2026-01-01', ...identity }
  const { code, output } = await finish(program, args, { env, timeoutMs: BUILD_MS })
  if (code !== 0) throw new Unmet(`${program} ${args.join(' ')} failed:\n${tail(output, 30)}`)
  return output
}
