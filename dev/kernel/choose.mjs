/**
 * Chooses the kernel that tests and demo run on, and installs what it needs: the host's own if it has IPVS, the one that
 * KUBE_IPVS_KERNEL names, Debian's user-mode-linux, Debian's stock kernel in qemu.
 * What could break: the result is the JSON that `dev/kernel/choice.ts` describes.
 */
import { accessSync, constants, existsSync, readdirSync } from 'node:fs'
import { resolve } from 'node:path'
import { ensurePackages, findProgram } from '../packages.mjs'
import { Unmet, finish, say } from '../progress.mjs'
import { prepareQemu } from './qemu-files.mjs'

const kinds = ['host', 'named', 'uml', 'qemu']

/** @param {NodeJS.ProcessEnv} env */
export async function chooseKernel(env) {
  const only = env.KUBE_IPVS_KERNEL_KIND
  if (only !== undefined && !kinds.includes(only))
    throw new Unmet(`KUBE_IPVS_KERNEL_KIND is one of ${kinds.join(', ')}`)
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
  if (may('uml')) {
    const chosen = await debianUserModeLinux(only === 'uml')
    if (chosen !== undefined) return chosen
  }
  return prepareQemu()
}

/** IPVS is in this kernel (or can be loaded), and namespaces with a dummy link in them can be made. */
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
  // A kernel with everything built in has no modules; Debian's is nothing without them.
  const version = await finish(kernel, ['--version'], { timeoutMs: 10_000 })
  if (version.code !== 0 || !existsSync(`${debianModules}/${version.output.trim()}`)) return { kind: 'uml', kernel }
  await ensurePackages(['modprobe'])
  return { kind: 'uml', kernel, modules: debianModules }
}

/**
 * The package's kernel; undefined when it does not boot here (a container that forbids ptrace), so that qemu gets its turn.
 * @param {boolean} required
 */
async function debianUserModeLinux(required) {
  await ensurePackages(['modprobe', 'linux.uml'])
  const kernel = findProgram('linux.uml')
  const version = await finish(kernel, ['--version'], { timeoutMs: 10_000 })
  if (version.code === 0 && readdirSync(debianModules).includes(version.output.trim()))
    return { kind: 'uml', kernel, modules: debianModules }
  if (required) throw new Unmet(`${kernel} does not run here:\n${version.output}`)
  say(`${kernel} does not run here, trying qemu.`)
  return undefined
}
