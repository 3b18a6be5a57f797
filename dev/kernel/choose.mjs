/**
 * Chooses the kernel that tests and demo run on, and installs what it needs: the host's own if it
 * has IPVS, the one that KUBE_IPVS_KERNEL names, the image in this repository, Debian's
 * user-mode-linux, Debian's stock kernel in qemu. The result is the JSON that
 * `dev/kernel/choice.ts` describes.
 */
import { accessSync, constants, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { cacheFolder } from '../cache.mjs'
import { ensurePackages, findProgram } from '../packages.mjs'
import { finish, say, tail, Unmet } from '../progress.mjs'
import { unpackedImage } from './image.mjs'
import { GUEST_MEMORY_MIB, memoryFolder } from './memory-folder.mjs'
import { prepareQemu } from './qemu-files.mjs'

const BOOT_MS = 60_000
const WORD = 'user-mode Linux is up'
const KINDS = ['host', 'named', 'image', 'uml', 'qemu']

/** @param {NodeJS.ProcessEnv} env */
export async function chooseKernel(env) {
  const only = env.KUBE_IPVS_KERNEL_KIND
  if (only !== undefined && !KINDS.includes(only))
    throw new Unmet(`KUBE_IPVS_KERNEL_KIND is one of ${KINDS.join(', ')}`)
  const may = (kind) => only === undefined || only === kind
  if (may('host') && (await hostHasIpvs())) return { kind: 'host' }
  if (only === 'host')
    throw new Unmet("this machine's kernel has no IPVS, or this user may not make network namespaces")
  if (may('named') && env.KUBE_IPVS_KERNEL) return namedKernel(env.KUBE_IPVS_KERNEL)
  if (only === 'named') throw new Unmet('KUBE_IPVS_KERNEL names no kernel')
  if (process.arch !== 'x64')
    throw new Unmet(
      `no kernel with IPVS: on ${process.arch} only the machine's own will do. Please type, as root: modprobe ip_vs\n` +
        'KUBE_IPVS_SKIP_KERNEL=1 npm test runs the tests that need no kernel.',
    )
  cacheFolder(env) // A wrong KUBE_IPVS_CACHE must not lead to a slower kernel.
  for (const { kind, title, provide, next } of PROVIDERS) {
    if (!may(kind)) continue
    try {
      return await booting(await provide(env))
    } catch (error) {
      if (!(error instanceof Unmet) || only === kind) throw error
      say(`${title} cannot be used: ${error.message}. Continuing with ${next}.`)
    }
  }
  return prepareQemu(env)
}

/** In the order of their speed, before qemu. */
const PROVIDERS = [
  {
    kind: 'image',
    title: 'The kernel in this repository',
    provide: unpackedImage,
    next: "Debian's user-mode-linux, which may be ten times slower",
  },
  {
    kind: 'uml',
    title: "Debian's user-mode-linux",
    provide: debianUserModeLinux,
    next: "Debian's stock kernel in qemu, which is slower still",
  },
]

/** Whether this kernel has IPVS (or can load it), and this user may make namespaces with a dummy link in them. */
async function hostHasIpvs() {
  if (process.getuid?.() !== 0) return false
  if (!existsSync('/proc/net/ip_vs')) {
    if (findProgram('modprobe') === undefined) return false
    if ((await finish('modprobe', ['ip_vs'])).code !== 0 || !existsSync('/proc/net/ip_vs')) return false
  }
  const attempt = 'test -e /proc/net/ip_vs && ip link add probe0 type dummy'
  const namespaces = ['--net', '--mount', '--pid', '--fork', '--mount-proc', '--']
  return (await finish('unshare', [...namespaces, 'sh', '-c', attempt])).code === 0
}

/** Module folders of Debian's user-mode-linux package, by kernel version. */
const debianModules = '/usr/lib/uml/modules'

/** @param {string} path */
async function namedKernel(path) {
  const kernel = resolve(path)
  try {
    accessSync(kernel, constants.X_OK)
  } catch {
    throw new Unmet(`KUBE_IPVS_KERNEL names ${kernel}, which is not there or not executable`)
  }
  // A kernel with everything built in has no modules; Debian's kernel needs its modules.
  const version = await finish(kernel, ['--version'], { timeoutMs: 10_000 })
  const hasModules = version.code === 0 && existsSync(`${debianModules}/${version.output.trim()}`)
  return withMemory({ kind: 'uml', kernel, ...(hasModules ? { modules: debianModules } : {}) })
}

async function debianUserModeLinux() {
  await ensurePackages(['linux.uml'])
  const kernel = findProgram('linux.uml')
  const version = await finish(kernel, ['--version'], { timeoutMs: 10_000 })
  if (version.code === 0 && readdirSync(debianModules).includes(version.output.trim()))
    return { kind: 'uml', kernel, modules: debianModules }
  throw new Unmet(`${kernel} does not run or has no modules (${version.output.trim()})`)
}

/**
 * The same kernel after a test boot.
 * @param {{ kind: 'uml', kernel: string, modules?: string, modular?: 'firewall' }} chosen @throws
 * {Unmet}
 */
async function booting(chosen) {
  const ready = await withMemory(chosen)
  const reason = await whyItDoesNotBoot(ready)
  if (reason !== undefined) throw new Unmet(reason)
  return ready
}

/** @param {{ kind: 'uml', kernel: string, modules?: string, modular?: 'firewall' }} chosen */
async function withMemory(chosen) {
  // The guest loads the modules of our own kernel without modprobe.
  if (chosen.modules !== undefined && chosen.modular === undefined) await ensurePackages(['modprobe'])
  const memory = memoryFolder()
  if ('missing' in memory) throw new Unmet(memory.missing)
  return { ...chosen, memoryFolder: memory.folder, memoryMiB: GUEST_MEMORY_MIB }
}

/**
 * Whether user-mode Linux runs here at all: boots it to a first process that prints a word and
 * powers off. A container may forbid ptrace and seccomp, or allow no execution in the folder of the
 * guest's memory. Undefined when the kernel boots, else one sentence that says why not and what to
 * do.
 * @param {{ kernel: string, memoryFolder: string }} choice
 */
async function whyItDoesNotBoot({ kernel, memoryFolder }) {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-boot-'))
  try {
    // reboot(2) with LINUX_REBOOT_CMD_POWER_OFF
    const init = `#!/usr/bin/perl\n$| = 1; print "${WORD}\\n"; syscall(169, 0xfee1dead, 672274793, 0x4321fedc, 0);\n`
    writeFileSync(join(folder, 'init'), init, { mode: 0o755 })
    const root = ['mem=128M', 'seccomp=auto', 'root=/dev/root', 'rootfstype=hostfs', 'rootflags=/', 'ro', 'quiet']
    const args = [...root, 'con=null', 'con0=null,fd:1', `init=${join(folder, 'init')}`]
    const env = { PATH: process.env.PATH, HOME: folder, TMPDIR: memoryFolder }
    const { output } = await finish(kernel, args, { env, timeoutMs: BOOT_MS })
    if (output.includes(WORD)) return undefined
    return `user-mode Linux does not boot here (${tail(output, 1).trim() || 'it printed nothing'}); a container must allow ptrace or seccomp`
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
