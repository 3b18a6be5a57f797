/**
 * Becomes the process of a container (container-runtime.ts): makes the mounts, gives up
 * capabilities, installs the seccomp profile and executes the program. Arguments: the container as
 * JSON, then the command.
 */
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { getSystemErrorName } from 'node:util'
import koffi from 'koffi'
import { CAPABILITIES, type Container } from './container-runtime.ts'
import { defaultProfile, programOf } from './seccomp.ts'

/** linux/mount.h, linux/sched.h, linux/prctl.h, linux/capability.h */
const MS_RDONLY = 1
const MS_NOSUID = 2
const MS_NODEV = 4
const MS_NOEXEC = 8
const MS_REMOUNT = 32
const MS_BIND = 4096
const MS_REC = 16_384
const MS_PRIVATE = 1 << 18
const CLONE_NEWNS = 0x20000
const PR_CAPBSET_DROP = 24
const PR_SET_SECCOMP = 22
const PR_SET_NO_NEW_PRIVS = 38
const PR_CAP_AMBIENT = 47
const PR_CAP_AMBIENT_CLEAR_ALL = 4
const SECCOMP_MODE_FILTER = 2
const F_SETFD = 2
const CAPABILITY_VERSION_3 = 0x20080522

/** What container runtimes make read-only and hide below /proc and /sys in every container that is not privileged. */
const READ_ONLY = ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger']
const HIDDEN = [
  '/proc/acpi',
  '/proc/kcore',
  '/proc/keys',
  '/proc/latency_stats',
  '/proc/timer_list',
  '/proc/sched_debug',
  '/proc/scsi',
  '/sys/firmware',
]
const DEVICES = ['null', 'zero', 'full', 'random', 'urandom', 'tty']

interface Calls {
  unshare(flags: number): number
  mount(source: string, target: string, type: string | null, flags: number, options: string | null): number
  chroot(path: string): number
  prctl(option: number, second: bigint, third: bigint, fourth: bigint, fifth: bigint): number
  capset(header: Uint8Array, data: Uint8Array): number
  fcntl(fd: number, command: number, value: number): number
  execve(path: string, argv: readonly (string | null)[], environment: readonly (string | null)[]): number
}
const library = koffi.load('libc.so.6')
// koffi's functions have no types; the prototypes are beside them.
const c = {
  unshare: library.func('int unshare(int)'),
  mount: library.func('int mount(const char *, const char *, const char *, unsigned long, const char *)'),
  chroot: library.func('int chroot(const char *)'),
  prctl: library.func('int prctl(int, unsigned long, unsigned long, unsigned long, unsigned long)'),
  capset: library.func('int capset(void *, void *)'),
  fcntl: library.func('int fcntl(int, int, int)'),
  execve: library.func('int execve(const char *, const char **, const char **)'),
} as unknown as Calls

function check(what: string, result: number): void {
  if (result < 0) throw new Error(`${what} failed: ${getSystemErrorName(-koffi.errno())}`)
}

function mount(
  source: string,
  target: string,
  type: string | null,
  flags: number,
  options: string | null = null,
): void {
  check(`mount of ${source} at ${target}`, c.mount(source, target, type, flags, options))
}

function bind(source: string, target: string, isReadOnly: boolean): void {
  mount(source, target, null, MS_BIND | MS_REC)
  if (isReadOnly) mount(source, target, null, MS_BIND | MS_REMOUNT | MS_RDONLY)
}

/** The root of the container with everything mounted; returns its path. */
function makeRoot(container: Container): string {
  const { privileged = false, root: image, isRootReadOnly = true, mounts = [] } = container
  check('unshare', c.unshare(CLONE_NEWNS))
  mount('none', '/', null, MS_REC | MS_PRIVATE)
  const folder = mkdtempSync('/run/container-')
  mount('tmpfs', folder, 'tmpfs', 0)
  const [root, upper, work] = ['root', 'upper', 'work'].map((name) => join(folder, name)) as [string, string, string]
  for (const path of [root, upper, work]) mkdirSync(path)
  if (image === undefined) mount('/', root, null, MS_BIND)
  // A runtime makes the mount points in a layer above the image.
  else mount('overlay', root, 'overlay', 0, `lowerdir=${image},upperdir=${upper},workdir=${work}`)
  if (image === undefined) for (const path of ['/tmp', '/work', '/root']) keep(path, root)
  else for (const path of ['/proc', '/sys', '/dev', '/run']) mkdirSync(root + path, { recursive: true })
  mount('proc', `${root}/proc`, 'proc', MS_NOSUID | MS_NODEV | MS_NOEXEC)
  mount('sysfs', `${root}/sys`, 'sysfs', MS_NOSUID | MS_NODEV | MS_NOEXEC | (privileged ? 0 : MS_RDONLY))
  mount('tmpfs', `${root}/dev`, 'tmpfs', MS_NOSUID, 'mode=755')
  for (const name of DEVICES) bindFile(`/dev/${name}`, `${root}/dev/${name}`, false)
  if (image === undefined) mount('tmpfs', `${root}/run`, 'tmpfs', MS_NOSUID | MS_NODEV)
  for (const { source, target, readOnly } of mounts) {
    const path = insideRoot(root, target)
    if (statSync(source).isDirectory()) {
      mkdirSync(path, { recursive: true })
      bind(source, path, readOnly)
    } else bindFile(source, path, readOnly)
  }
  if (!privileged) {
    for (const path of READ_ONLY.filter((one) => existsSync(root + one))) bind(root + path, root + path, true)
    for (const path of HIDDEN.filter((one) => existsSync(root + one)))
      if (statSync(root + path).isDirectory()) mount('tmpfs', root + path, 'tmpfs', MS_RDONLY)
      else bind('/dev/null', root + path, false)
  }
  for (const path of isRootReadOnly ? [root, ...(image === undefined ? [`${root}/run`] : [])] : [])
    mount('none', path, null, MS_BIND | MS_REMOUNT | MS_RDONLY)
  return root
}

/** The path in this mount namespace of a path of the container, whose links are relative to the container's root. */
function insideRoot(root: string, path: string): string {
  let resolved = ''
  const names = path.split('/').filter((name) => name !== '')
  for (let name = names.shift(); name !== undefined; name = names.shift()) {
    if (name === '..') resolved = dirname(resolved)
    else if (name !== '.') {
      const next = `${resolved}/${name}`
      const link = lstatSync(root + next, { throwIfNoEntry: false })?.isSymbolicLink() ? readlinkSync(root + next) : ''
      if (link.startsWith('/')) resolved = ''
      if (link === '') resolved = next
      else names.unshift(...link.split('/').filter((part) => part !== ''))
    }
  }
  return root + resolved
}

/** A folder of this machine that is a mount of its own is missing in a copy of the root. */
function keep(path: string, root: string): void {
  const isMount = readFileSync('/proc/self/mounts', 'utf8').includes(` ${path} `)
  if (isMount) bind(path, root + path, true)
}

function bindFile(source: string, target: string, isReadOnly: boolean): void {
  mkdirSync(dirname(target), { recursive: true })
  if (!existsSync(target)) writeFileSync(target, '')
  bind(source, target, isReadOnly)
}

function dropCapabilities(numbers: readonly number[]): void {
  const last = Number(readFileSync('/proc/sys/kernel/cap_last_cap', 'utf8'))
  for (let capability = 0; capability <= last; capability++)
    if (!numbers.includes(capability))
      check('PR_CAPBSET_DROP', c.prctl(PR_CAPBSET_DROP, BigInt(capability), 0n, 0n, 0n))
  check('PR_CAP_AMBIENT', c.prctl(PR_CAP_AMBIENT, BigInt(PR_CAP_AMBIENT_CLEAR_ALL), 0n, 0n, 0n))
  const mask = numbers.reduce((sum, number) => sum | (1n << BigInt(number)), 0n)
  // struct __user_cap_header_struct, then two struct __user_cap_data_struct: effective, permitted, inheritable.
  const header = new Uint8Array(new Uint32Array([CAPABILITY_VERSION_3, 0]).buffer)
  const [low, high] = [Number(mask & 0xffffffffn), Number(mask >> 32n)]
  check('capset', c.capset(header, new Uint8Array(new Uint32Array([low, low, 0, high, high, 0]).buffer)))
}

function installProfile(tolerated: readonly string[] | undefined): void {
  const code = defaultProfile(tolerated)
  const program = programOf(code, koffi.address(code))
  check('seccomp', c.prctl(PR_SET_SECCOMP, BigInt(SECCOMP_MODE_FILTER), koffi.address(program), 0n, 0n))
}

const [, , json = '', program = '', ...args] = process.argv
const container = JSON.parse(json) as Container // written by inContainer
const { privileged = false, mayGainPrivileges = false, hasSeccompProfile = true } = container
check('chroot', c.chroot(makeRoot(container)))
process.chdir('/')
if (!privileged) {
  // Without no_new_privs a filter takes CAP_SYS_ADMIN, so the order follows runc: the filter comes last.
  if (!mayGainPrivileges) check('PR_SET_NO_NEW_PRIVS', c.prctl(PR_SET_NO_NEW_PRIVS, 1n, 0n, 0n, 0n))
  dropCapabilities(container.capabilities.map((name) => CAPABILITIES[name]))
  if (hasSeccompProfile) installProfile(container.toleratedCalls)
}
// Node marks its own input and outputs as to be closed by an execve.
for (const fd of [0, 1, 2]) check('fcntl', c.fcntl(fd, F_SETFD, 0))
const environment = Object.entries(process.env).map(([name, value]) => `${name}=${value}`)
check(`execve of ${program}`, c.execve(program, [program, ...args, null], [...environment, null]))
