/**
 * Whether IPv6 is switched off on a device: then the kernel refuses IPv6 addresses there.
 * `net.ipv6.conf.default.disable_ipv6` decides for new devices, so that a device of ours may have
 * none on a node that has IPv6.
 * @impure
 */
import { readFileSync } from 'node:fs'
import { CodedError } from '../values/errors.ts'
import { IPV6_OFF, type KernelSetting, sysctl } from './kernel-settings.ts'
import { applySysctls, type SettingListener } from './sysctl.ts'

/** A kernel without IPv6, or without the device, does not have the setting. */
function isOff(device: string, root: string): boolean {
  try {
    return Number(readFileSync(root + ipv6Setting(device).path, 'utf8')) !== 0
  } catch {
    return false
  }
}

/** What switches IPv6 on for a device. */
export const ipv6Setting = (device: string): KernelSetting => sysctl(`net/ipv6/conf/${device}/disable_ipv6`, 0)
const nameOf = (device: string): string => `net.ipv6.conf.${device}.disable_ipv6`

/** Whether devices that are made have IPv6 switched off while the node has IPv6. */
export function haveNewDevicesNoIpv6(root = ''): boolean {
  return isOff('default', root) && !isOff('all', root)
}

/** Why a device that is not ours takes no IPv6; undefined: it does, or the reason is another one. */
export function ipv6Lack(device: string, root = ''): CodedError | undefined {
  const name = ['all', device].find((one) => isOff(one, root))
  return name === undefined ? undefined : new CodedError(IPV6_OFF, `IPv6 is switched off: ${nameOf(name)} is 1`)
}

/**
 * Switches IPv6 on for a device of ours, unless it is switched off for the whole node. Returns
 * `changed`, `unchanged` when it is on, or what keeps it off.
 */
export function switchOnIpv6(
  device: string,
  onChanged: SettingListener,
  root = '',
): 'changed' | 'unchanged' | CodedError {
  if (!isOff(device, root)) return 'unchanged'
  if (isOff('all', root)) return new CodedError(IPV6_OFF, `IPv6 is switched off: ${nameOf('all')} is 1`)
  const [problem] = applySysctls([ipv6Setting(device)], root, onChanged)
  if (problem === undefined) return 'changed'
  return new CodedError(IPV6_OFF, `IPv6 is switched off: ${nameOf(device)} is 1, and the proxy ${problem.message}`)
}
