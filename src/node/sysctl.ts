/**
 * Kernel settings under /proc/sys (and the one of conntrack under /sys): what ipvs mode needs, and how settings are written. A
 * setting that does not exist, or that may not be written, is reported and never fatal; settings are written once, at the start,
 * and what is changed by hand later stays (as in kube-proxy); IPv6 forwarding is never written, because that
 * switches router advertisements off.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { errorText, type Problem } from '../values/errors.ts'
import { kernelRelease } from './host.ts'
import { type KernelSetting, sysctl } from './kernel-setting.ts'

/**
 * The settings of ipvs mode (kube-proxy's NewProxier): conntrack for masquerading, connections to a deleted real server
 * end at once (UDP moves on), persistence to a quiescent one too, forwarding; `strictArp` as ipvs.strictARP. A kernel
 * from 4.1 on and before 5.9 delays a connection that reuses a port by a second unless conn_reuse_mode is 0 (k/k#93297).
 * @param release as uname -r has it; the kernel cannot be asked which of both it is
 */
export function ipvsSysctls(strictArp: boolean, release = kernelRelease()): readonly KernelSetting[] {
  const [major = 0, minor = 0] = release.split('.').map((part) => Number.parseInt(part, 10))
  const delaysReuse = (major === 4 && minor >= 1) || (major === 5 && minor < 9)
  return [
    sysctl('net/ipv4/vs/conntrack', 1),
    ...(delaysReuse ? [sysctl('net/ipv4/vs/conn_reuse_mode', 0)] : []),
    sysctl('net/ipv4/vs/expire_nodest_conn', 1),
    sysctl('net/ipv4/vs/expire_quiescent_template', 1),
    sysctl('net/ipv4/ip_forward', 1),
    ...(strictArp ? [sysctl('net/ipv4/conf/all/arp_ignore', 1), sysctl('net/ipv4/conf/all/arp_announce', 2)] : []),
  ]
}

/** The settings of iptables mode: node ports answer at 127.0.0.0/8 only where packets from there may be routed on. */
export function iptablesSysctls(localhostNodePorts: boolean): readonly KernelSetting[] {
  return localhostNodePorts ? [sysctl('net/ipv4/conf/all/route_localnet', 1)] : []
}

/** Hears what a setting was before it was changed. */
export type SettingListener = (setting: KernelSetting, before: number) => void

/**
 * Writes what differs, in order. Returns one problem for each setting that could not be read or written.
 * @param root put before each path, for tests
 */
export function applySysctls(
  settings: readonly KernelSetting[],
  root = '',
  onChanged: SettingListener = () => undefined,
): Problem[] {
  return settings.flatMap((setting) => {
    try {
      const before = read(setting, root)
      if (!holds(setting, before)) {
        writeFileSync(root + setting.path, String(setting.value))
        onChanged(setting, before)
      }
      return []
    } catch (error) {
      return problem(setting, `cannot set it to ${setting.value}: ${reasonOf(error)}`)
    }
  })
}

function holds(setting: KernelSetting, now: number): boolean {
  return setting.rule === 'exact' ? now === setting.value : now >= setting.value
}

function read({ path }: KernelSetting, root: string): number {
  return Number(readFileSync(root + path, 'utf8'))
}

function problem({ path }: KernelSetting, message: string): Problem {
  return { code: 'sysctl', subject: 'sysctl', field: path.replace('/proc/sys/', ''), message }
}

function reasonOf(error: unknown): string {
  const reason = errorText(error)
  switch (error instanceof Error && 'code' in error ? error.code : '') {
    case 'ENOENT':
      return 'this kernel does not have it, or its module is not loaded'
    case 'EROFS':
      return `it is mounted read-only here (${reason})`
    case 'EACCES':
    case 'EPERM':
      return `it may not be changed from here (${reason})`
    default:
      return reason
  }
}
