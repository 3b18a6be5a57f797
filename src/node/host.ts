/** What the program says about its host. Nothing is decided from a kernel release: the kernel is asked what it offers. */
import { existsSync, readFileSync } from 'node:fs'
import { availableParallelism, release } from 'node:os'
import { IP_FAMILIES, type IpFamily } from '../values/protocol.ts'

/** `7.2.13`, as uname -r has it. */
export function kernelRelease(): string {
  return release()
}

/** The families that the kernel has, whether they are served (`families.ts`) or not: what an earlier proxy left is of these. */
export function ipFamilies(): readonly IpFamily[] {
  return existsSync('/proc/net/if_inet6') ? IP_FAMILIES : ['IPv4']
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
