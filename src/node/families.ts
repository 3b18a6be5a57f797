/**
 * Which IP families the proxy serves on this node (kube-proxy's platformCheckSupported): those that
 * the kernel has, that are not disabled by sysctl, and whose rules can be written. A node with only
 * one such family is single-stack, which is no failure. A family that is enabled later is served
 * after a restart.
 * @impure
 */
import { existsSync, readFileSync } from 'node:fs'
import { CodedError } from '../values/errors.ts'
import { IP_FAMILIES, type IpFamily, type UnusableFamilies } from '../values/protocol.ts'

/** What writes the rules. */
type RuleWriter = 'iptables' | 'nftables'

/** Why an IP family is not served. */
export type FamilyLack =
  /** The kernel was built or started without IPv6 (no /proc/net/if_inet6). */
  | { readonly family: IpFamily; readonly why: 'kernel' }
  /** The sysctl net.ipv6.conf.all.disable_ipv6 is 1. */
  | { readonly family: IpFamily; readonly why: 'disabled' }
  /** Its rules cannot be written, because programs or a part of the kernel are missing. */
  | { readonly family: IpFamily; readonly why: RuleWriter; readonly reason: string }

/** Which IP families are served. */
export interface FamilySupport {
  /** The served families, IPv4 first; at least one. */
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
    // kube-proxy also treats an unreadable setting as 0.
    return BOTH
  }
}

/**
 * Removes the families whose rules iptables cannot write. Throws CodedError `iptables-missing` with
 * kube-proxy's message if none remains.
 */
export function familiesWithIptables({ families, lacks }: FamilySupport, unusable: UnusableFamilies): FamilySupport {
  const support = usableFamilies({ families, lacks }, unusable, 'iptables')
  if (support.families.length > 0) return support
  const reason = families.map((family) => unusable[family])[0] ?? ''
  throw new CodedError('iptables-missing', `iptables is not available on this host : ${reason}`)
}

/** Without the families whose rules cannot be written; none may remain. */
export function usableFamilies(
  { families, lacks }: FamilySupport,
  unusable: UnusableFamilies,
  why: RuleWriter,
): FamilySupport {
  const without = families.flatMap((family): FamilyLack[] => {
    const reason = unusable[family]
    return reason === undefined ? [] : [{ family, why, reason }]
  })
  return { families: families.filter((family) => unusable[family] === undefined), lacks: [...without, ...lacks] }
}
