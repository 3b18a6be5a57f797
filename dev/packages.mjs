/**
 * Installs missing programs from Debian packages if this user is root, and prints the command
 * otherwise. It searches for files, so a program from another source counts as well.
 */
import { accessSync, constants } from 'node:fs'
import { join } from 'node:path'
import { Unmet, finish, say, tail } from './progress.mjs'

/** Program (or absolute path, of any file) to Debian package. */
const packageOf = {
  ip: 'iproute2',
  ipvsadm: 'ipvsadm',
  iptables: 'iptables',
  ipset: 'ipset',
  conntrack: 'conntrack',
  nft: 'nftables',
  sysctl: 'procps',
  modprobe: 'kmod',
  depmod: 'kmod',
  'linux.uml': 'user-mode-linux',
  'qemu-system-x86_64': 'qemu-system-x86',
  'dpkg-deb': 'dpkg',
  prlimit: 'util-linux',
  gcc: 'gcc',
  make: 'make',
  flex: 'flex',
  bison: 'bison',
  bc: 'bc',
  xz: 'xz-utils',
  patch: 'patch',
  strip: 'binutils',
  '/bin/busybox': 'busybox-static',
  '/usr/include/stdio.h': 'libc6-dev',
  zsh: 'zsh',
  fish: 'fish',
}

/** @param {string} program */
export function findProgram(program) {
  const folders = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']
  const candidates = program.startsWith('/') ? [program] : folders.map((folder) => join(folder, program))
  return candidates.find((path) => {
    try {
      accessSync(path, program.startsWith('/') ? constants.R_OK : constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}

/** @param {readonly string[]} programs */
export async function ensurePackages(programs) {
  const missing = [
    ...new Set(programs.filter((program) => findProgram(program) === undefined).map((p) => packageOf[p])),
  ]
  if (missing.length === 0) return
  await aptInstall(missing)
  const still = programs.filter((program) => findProgram(program) === undefined)
  if (still.length > 0) throw new Unmet(`the packages ${missing.join(', ')} are installed, but not ${still.join(', ')}`)
}

let listsAreFresh = false

/** `apt-get update`, once per run. */
export async function refreshPackageLists() {
  if (listsAreFresh) return
  const { code, output } = await apt(['update', '-qq'])
  if (code !== 0) say(`apt-get update failed, continuing with the known lists:\n${tail(output, 5)}`)
  listsAreFresh = true
}

/** @param {readonly string[]} names */
async function aptInstall(names) {
  const command = `apt-get update && apt-get install -y --no-install-recommends ${names.join(' ')}`
  if (findProgram('apt-get') === undefined)
    throw new Unmet(`this machine has no apt-get; please install what these Debian packages hold: ${names.join(', ')}`)
  if (process.getuid?.() !== 0) throw new Unmet(`some Debian packages are missing; please type, as root:\n  ${command}`)
  const startedAt = Date.now()
  say(`Installing Debian packages: ${names.join(' ')} ...`)
  await refreshPackageLists()
  const { code, output } = await apt(['install', '-y', '--no-install-recommends', ...names])
  if (code !== 0) throw new Unmet(`installing failed:\n${tail(output, 30)}\nPlease try, as root:\n  ${command}`)
  say(`Installed Debian packages in ${Math.round((Date.now() - startedAt) / 1000)} s.`)
}

/** @param {readonly string[]} args */
const apt = (args) =>
  finish('apt-get', ['-o', 'DPkg::Lock::Timeout=120', '-o', 'Dpkg::Use-Pty=0', ...args], {
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C.UTF-8' },
  })
