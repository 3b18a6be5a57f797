/**
 * What the program says about its host.
 * What could break: nothing is decided from a kernel release; what a kernel offers is found out by asking it.
 */
import { existsSync } from 'node:fs'
import { release } from 'node:os'

/** `7.2.13`, as uname -r has it. */
export function kernelRelease(): string {
  return release()
}

/** Whether the kernel has IPv6 (and it was not switched off with ipv6.disable=1): kube-proxy's own test. */
export function hasIpv6(): boolean {
  return existsSync('/proc/net/if_inet6')
}
