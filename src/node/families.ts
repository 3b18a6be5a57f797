/**
 * Which IP families a proxy serves on this node (kube-proxy's platformCheckSupported): those that the kernel has, that nobody
 * has switched off, and whose iptables works. Anything else makes the node single-stack, which is no failure. Looking
 * changes nothing. A family that is switched on later is served by the next process.
 */
import { existsSync, readFileSync } from 'node:fs'
import { CodedError } from '../values/errors.ts'
import { IP_FAMILIES, type IpFamily, type UnusableFamilies } from '../values/protocol.ts'

/** Why a family is not served. */
export type FamilyLack =
  /** The kernel was built or started without IPv6 (no /proc/net/if_inet6). */
  | { readonly family: IpFamily; readonly why: 'kernel' }
  /** The sysctl net.ipv6.conf.all.disable_ipv6 is 1. */
  | { readonly family: IpFamily; readonly why: 'disabled' }
  /** Its rules cannot be written: programs or a part of the kernel are missing. */
  | { readonly family: IpFamily; readonly why: 'iptables'; readonly reason: string }

export interface FamilySupport {
  /** Those that are served, IPv4 first; never none. */
  readonly families: readonly IpFamily[]
  readonly lacks: readonly FamilyLack[]
}

const BOTH: FamilySupport = { families: IP_FAMILIES, lacks: [] }

/**
 * What the kernel of this network namespace allows.
 * @param root put before each path, for tests
 */
export function kernelFamilies(root = ''): FamilySupport {
  const without = (why: 'kernel' | 'disabled'): FamilySupport => ({
    families: ['IPv4'],
    lacks: [{ family: 'IPv6', why }],
  })
  if (!existsSync(`${root}/proc/net/if_inet6`)) return without('kernel')
  try {
    const text = readFileSync(`${root}/proc/sys/net/ipv6/conf/all/disable_ipv6`, 'utf8')
    return text.trim() === '1' ? without('disabled') : BOTH
  } catch {
    // kube-proxy takes a setting that cannot be read for 0, too.
    return BOTH
  }
}

/**
 * What is left of these families where iptables cannot write the rules of some. Throws CodedError `iptables-missing` with
 * kube-proxy's words when it can write none.
 */
export function familiesWithIptables({ families, lacks }: FamilySupport, unusable: UnusableFamilies): FamilySupport {
  const usable = families.filter((family) => unusable[family] === undefined)
  if (usable.length === 0) {
    const reason = families.map((family) => unusable[family])[0] ?? ''
    throw new CodedError('iptables-missing', `iptables is not available on this host : ${reason}`)
  }
  const without = families.flatMap((family): FamilyLack[] => {
    const reason = unusable[family]
    return reason === undefined ? [] : [{ family, why: 'iptables', reason }]
  })
  return { families: usable, lacks: [...without, ...lacks] }
}
