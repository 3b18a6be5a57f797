/**
 * Writes settings of the kernel (kernel-settings.ts) and of this process below /proc and /sys. A
 * setting that is missing or read-only is reported and never fatal. Settings are written once, at
 * the start: what an administrator changes later stays, as with kube-proxy.
 * @impure
 */
import { closeSync, constants, openSync, readFileSync, writeFileSync } from 'node:fs'
import { asError, errorText, type Problem } from '../values/errors.ts'
import type { KernelSetting } from './kernel-settings.ts'

/**
 * Whether a setting is not 0; undefined where the kernel does not have it. It is read synchronously:
 * Node's other threads may be in another network namespace than this one.
 * @param name below /proc/sys: `net/ipv4/ip_forward`
 */
export function isSysctlOn(name: string): boolean | undefined {
  try {
    return readFileSync(`/proc/sys/${name}`, 'utf8').trim() !== '0'
  } catch {
    return undefined
  }
}

/** Receives each setting that was changed, with its previous value; undefined where that could not be read. */
export type SettingListener = (setting: KernelSetting, before: number | undefined) => void

/**
 * Writes the settings that differ, and those that cannot be read, in order. Returns one problem for
 * each setting that could not be written.
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
        write(root + setting.path, setting.value)
        onChanged(setting, before)
      }
      return []
    } catch (error) {
      return problem(setting, `cannot set it to ${setting.value}: ${reasonOf(error)}`)
    }
  })
}

/**
 * Why this process cannot make a setting hold; undefined: it holds, or can be written. Opening the
 * file asks every security module of the kernel, and changes nothing.
 */
export function refusalOf(setting: KernelSetting, root = ''): Error | undefined {
  if (holds(setting, read(setting, root))) return undefined
  try {
    closeSync(openSync(root + setting.path, constants.O_WRONLY))
    return undefined
  } catch (error) {
    return asError(error)
  }
}

function holds(setting: KernelSetting, current: number | undefined): boolean {
  if (current === undefined) return false
  return setting.rule === 'exact' ? current === setting.value : current >= setting.value
}

/** Writes without making the file, so that the error of a missing setting says that it is missing. */
function write(path: string, value: number): void {
  const file = openSync(path, constants.O_WRONLY | constants.O_TRUNC)
  try {
    writeFileSync(file, String(value))
  } finally {
    closeSync(file)
  }
}

function read({ path }: KernelSetting, root: string): number | undefined {
  try {
    return Number(readFileSync(root + path, 'utf8'))
  } catch {
    return undefined
  }
}

function problem({ path }: KernelSetting, message: string): Problem {
  return { code: 'sysctl', about: 'setting', subject: 'sysctl', field: path.replace('/proc/sys/', ''), message }
}

function reasonOf(error: unknown): string {
  const reason = errorText(error)
  switch (error instanceof Error && 'code' in error ? error.code : '') {
    case 'ENOENT':
      return 'this kernel does not have it, or its module is not loaded'
    case 'EROFS':
      return `it is mounted read-only here (${reason}); a privileged init container can write it with --init-only`
    case 'EACCES':
    case 'EPERM':
      return `permission denied (${reason})`
    default:
      return reason
  }
}

/**
 * Sets how soon the kernel kills this process when memory runs out, from -1000 (never) to 1000
 * (oomScoreAdj of the configuration). Lowering it needs CAP_SYS_RESOURCE; throws the kernel's error
 * without it.
 */
export function setOomScore(score: number): void {
  writeFileSync('/proc/self/oom_score_adj', String(score))
}
