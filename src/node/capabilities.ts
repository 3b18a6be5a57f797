/**
 * The capabilities of this process (capabilities(7)) that the kernel demands of a service proxy.
 * Only their absence is certain: the kernel may refuse a process in a user namespace that has them.
 * @impure
 */
import { readFileSync } from 'node:fs'
import { CodedError } from '../values/errors.ts'

/** Numbers of linux/capability.h. */
const NUMBERS = { NET_ADMIN: 12, NET_RAW: 13 } as const
export type Capability = keyof typeof NUMBERS

/**
 * Whether this process has the capability in effect; true where /proc does not tell. @param root
 * put before the path, for tests
 */
export function hasCapability(capability: Capability, root = ''): boolean {
  try {
    const mask = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync(`${root}/proc/self/status`, 'utf8'))?.[1]
    return mask === undefined || ((BigInt(`0x${mask}`) >> BigInt(NUMBERS[capability])) & 1n) === 1n
  } catch {
    return true
  }
}

/**
 * The error for a missing capability, `capability-missing`. @param purpose what takes it:
 * `writing the tables of the kernel`
 */
export function capabilityMissing(capability: Capability, purpose: string): CodedError {
  return new CodedError(
    'capability-missing',
    `${purpose} takes the capability ${capability}, which this process does not have: run it as root; in a Pod, as user 0 with ${capability} in securityContext.capabilities.add`,
  )
}

/** Throws `capability-missing` unless this process may write the kernel's tables. */
export function requireNetAdmin(): void {
  if (!hasCapability('NET_ADMIN')) throw capabilityMissing('NET_ADMIN', "writing the kernel's tables")
}

/**
 * Throws `capability-missing` unless iptables may look for ipsets, for which its match `set` opens
 * a raw socket with either back end.
 */
export function requireSetLookup(): void {
  if (!hasCapability('NET_RAW')) throw capabilityMissing('NET_RAW', 'writing rules that name ipsets')
}
