/**
 * Debian's stock kernel for qemu, unpacked into the cache (never installed), with a small initial
 * RAM disk that mounts the host's root folder over 9p and hands over to the guest's first process.
 * The RAM disk holds its modules in the order in which they must be loaded.
 */
import {
  existsSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { cacheFolder, unfinishedFolder } from '../cache.mjs'
import { openDebianRelease } from '../debian-archive.mjs'
import { ensurePackages, findProgram, refreshPackageLists } from '../packages.mjs'
import { Unmet, finish, say, tail } from '../progress.mjs'

const NEEDED_MIB = 800
/** It depends on the newest kernel of its release. */
const PACKAGE = 'linux-image-amd64'
const neededAtBoot = ['virtio_pci', 'virtio_console', '9pnet_virtio', '9p']

/**
 * @param {NodeJS.ProcessEnv} env
 * @param {string} [release] of Debian, `trixie`; default the machine's own
 */
export async function prepareQemu(env, release) {
  const cache = join(cacheFolder(env), release === undefined ? 'qemu' : `qemu-${release}`)
  await ensurePackages(['modprobe', 'qemu-system-x86_64', '/bin/busybox', 'dpkg-deb', 'xz'])
  const version = unpackedVersion(cache) ?? (await unpackKernel(cache, release))
  const kernel = join(cache, 'boot', `vmlinuz-${version}`)
  const initialRamdisk = join(cache, `initial-ramdisk-${version}`)
  if (!existsSync(initialRamdisk)) writeFileSync(initialRamdisk, await ramdisk(cache, version))
  return { kind: 'qemu', kernel, modules: join(cache, 'lib/modules'), initialRamdisk }
}

/** @param {string} cache */
function unpackedVersion(cache) {
  try {
    return readdirSync(join(cache, 'lib/modules')).at(0)
  } catch {
    return undefined
  }
}

/** @param {string} cache @param {string} [release] */
async function unpackKernel(cache, release) {
  say(`Fetching Debian's stock kernel ${release === undefined ? '' : `of ${release} `}for qemu ...`)
  const fresh = unfinishedFolder(dirname(cache), NEEDED_MIB)
  if (release === undefined) await unpackOwn(fresh)
  else await unpackOf(release, fresh)
  // From Debian 13 on packages have no files outside /usr.
  if (!existsSync(join(fresh, 'lib/modules'))) symlinkSync('usr/lib', join(fresh, 'lib'))
  const version = readdirSync(join(fresh, 'lib/modules'))[0]
  await must(findProgram('depmod'), ['-b', fresh, version])
  rmSync(cache, { recursive: true, force: true })
  renameSync(fresh, cache)
  return version
}

/** The kernel of the machine's own release. @param {string} folder */
async function unpackOwn(folder) {
  if (process.getuid?.() === 0) await refreshPackageLists()
  const shown = await must('apt-cache', ['depends', PACKAGE])
  const name = /Depends: (linux-image-\S+)/.exec(shown)?.[1]
  if (name === undefined) throw new Unmet(`apt knows no ${PACKAGE} to depend on:\n${shown}`)
  await must('apt-get', ['download', name], { cwd: folder, env: { ...process.env, LC_ALL: 'C.UTF-8' } })
  const archive = readdirSync(folder).find((file) => file.endsWith('.deb'))
  await must('dpkg-deb', ['-x', join(folder, archive), folder])
  rmSync(join(folder, archive))
}

/** @param {string} release @param {string} folder */
async function unpackOf(release, folder) {
  const apt = mkdtempSync(join(tmpdir(), 'kube-ipvs-apt-'))
  try {
    const archive = await openDebianRelease(release, apt)
    const name = (await archive.dependencies(PACKAGE)).find((one) => one.startsWith('linux-image-'))
    if (name === undefined) throw new Unmet(`Debian ${release} has no ${PACKAGE}`)
    await archive.unpack([name], folder)
  } finally {
    rmSync(apt, { recursive: true, force: true })
  }
}

/** @param {string} cache @param {string} version */
async function ramdisk(cache, version) {
  const show = ['-d', cache, '-S', version, '--show-depends', '-a', ...neededAtBoot]
  const lines = (await must(findProgram('modprobe'), show)).split('\n')
  const modules = [...new Set(lines.flatMap((line) => /^insmod (\S+)/.exec(line)?.[1] ?? []))]
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-modules-'))
  const plain = []
  try {
    for (const path of modules) plain.push(await uncompressed(path, folder))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  const init = `#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc; $b mount -t sysfs sys /sys; $b mount -t devtmpfs dev /dev
for m in ${plain.map(({ name }) => name).join(' ')}; do $b insmod /modules/$m; done
$b mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=loose hostroot /root
for d in proc sys dev; do $b mount --move /$d /root/$d; done
for w in $($b cat /root/proc/cmdline); do case $w in guest=*) guest=\${w#guest=} ;; esac; done
exec $b switch_root /root /bin/bash $guest/init $guest
`
  const executable = 0o100755
  return cpio([
    ...['bin', 'modules', 'proc', 'sys', 'dev', 'root'].map((name) => ({
      name,
      mode: 0o040755,
      content: Buffer.alloc(0),
    })),
    { name: 'bin/busybox', mode: executable, content: readFileSync('/bin/busybox') },
    ...plain.map(({ name, content }) => ({ name: `modules/${name}`, mode: 0o100644, content })),
    { name: 'init', mode: executable, content: Buffer.from(init) },
  ])
}

/**
 * A module as insmod of busybox takes it: from Debian 13 on they are compressed.
 * @param {string} path @param {string} folder for the uncompressed one
 */
async function uncompressed(path, folder) {
  const name = basename(path).replace(/\.xz$/, '')
  if (name === basename(path)) return { name, content: readFileSync(path) }
  const plain = join(folder, name)
  await must('sh', ['-c', 'exec xz --decompress --stdout "$0" >"$1"', path, plain])
  return { name, content: readFileSync(plain) }
}

/** @param {string} program @param {string[]} args @param {object} [options] */
async function must(program, args, options) {
  const { code, output } = await finish(program, args, options)
  if (code !== 0) throw new Unmet(`${program} ${args.join(' ')} failed:\n${tail(output)}`)
  return output
}

/**
 * An initial RAM disk: the "newc" archive format of
 * Documentation/driver-api/early-userspace/buffer-format.rst. Names and contents are each padded to
 * four bytes, counted from the archive's start.
 * @param {readonly { name: string, mode: number, content: Buffer }[]} entries folders before what
 * is in them
 * @returns {Buffer}
 */
function cpio(entries) {
  const parts = entries.map((entry, index) => record(entry, index + 1))
  return Buffer.concat([...parts, record({ name: 'TRAILER!!!', mode: 0, content: Buffer.alloc(0) }, 0)])
}

/** @param {{ name: string, mode: number, content: Buffer }} entry @param {number} inode */
function record({ name, mode, content }, inode) {
  const links = 1
  const nameSize = Buffer.byteLength(name) + 1
  const fields = [inode, mode, 0, 0, links, 0, content.length, 0, 0, 0, 0, nameSize, 0]
  const header = `070701${fields.map((field) => field.toString(16).padStart(8, '0')).join('')}`
  return Buffer.concat([padded(Buffer.from(`${header}${name}\0`)), padded(content)])
}

/** @param {Buffer} bytes */
const padded = (bytes) => Buffer.concat([bytes, Buffer.alloc((4 - (bytes.length % 4)) % 4)])
