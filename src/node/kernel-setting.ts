/**
 * One setting of the kernel, as a value. Pure.
 * What could break: paths are whole, because conntrack's hash size is no sysctl.
 */

export interface KernelSetting {
  /** Of its file: `/proc/sys/net/ipv4/ip_forward`. */
  readonly path: string
  readonly value: number
  /** `at least`: a larger value stays. */
  readonly rule: 'exact' | 'at least'
}

/** The setting of that name below /proc/sys. */
export function sysctl(name: string, value: number): KernelSetting {
  return { path: `/proc/sys/${name}`, value, rule: 'exact' }
}
