/**
 * What the program says about its host.
 * What could break: nothing is decided from a kernel release; what a kernel offers is found out by asking it.
 */
import { existsSync, readFileSync } from 'node:fs'
import { availableParallelism, release } from 'node:os'
import { IP_FAMILIES, type IpFamily } from '../values/protocol.ts'

/** `7.2.13`, as uname -r has it. */
export function kernelRelease(): string {
  return release()
}

/** Whether the kernel has IPv6 (and it was not switched off with ipv6.disable=1): kube-proxy's own test. */
export function hasIpv6(): boolean {
  return existsSync('/proc/net/if_inet6')
}

/** The families that the kernel has. */
export function ipFamilies(): readonly IpFamily[] {
  return hasIpv6() ? IP_FAMILIES : ['IPv4']
}

/**
 * Processors of the machine that are online, whatever part of them this process may use (k/k#99225).
 * @param root put before the path, for tests
 */
export function processorCount(root = ''): number {
  try {
    // A list of ranges, `0-3,5`.
    const ranges = readFileSync(`${root}/sys/devices/system/cpu/online`, 'utf8').trim().split(',')
    const count = ranges.reduce((sum, range) => {
      const [first = Number.NaN, last = first] = range.split('-').map(Number)
      return sum + last - first + 1
    }, 0)
    if (count >= 1) return count
  } catch {
    // /sys may not be mounted.
  }
  return availableParallelism()
}
