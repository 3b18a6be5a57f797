/**
 * Which modes have something in the kernel: the one definition that every command uses. Each sign
 * is made by service proxies alone. A virtual server is no sign, because keepalived and other
 * programs have virtual servers too.
 */
import type { ProxyMode } from '../config/field.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { FirewallName } from './chosen-firewall.ts'

export type { ProxyMode }

/** By table and name. */
type Chains = ReadonlyMap<string, ReadonlyMap<string, unknown>>

/** What ipvs mode has for virtual IPs, and the rules of all families that could be read. */
export interface ModeSigns {
  /** kube-ipvs0 */
  readonly device: object | undefined
  /** Our local routes. */
  readonly routes: { readonly size: number }
  /** Tables of the nftables firewall; absent: not looked for. */
  readonly privateTables?: readonly unknown[]
  readonly saved: { readonly [family in IpFamily]?: Chains }
}

/**
 * A chain that each mode of kube-proxy and of this program always has, with or without Services,
 * and the other mode never.
 */
const CHAIN_OF = {
  ipvs: ['nat', 'KUBE-LOAD-BALANCER'],
  iptables: ['filter', 'KUBE-EXTERNAL-SERVICES'],
} as const satisfies Readonly<Record<ProxyMode, readonly [table: string, chain: string]>>

/** Whether these are rules of a mode, with or without Services. */
export function isOfMode(mode: ProxyMode, saved: Chains): boolean {
  const [table, chain] = CHAIN_OF[mode]
  return saved.get(table)?.has(chain) === true
}

/** Both only while one mode replaces the other, or when a proxy was replaced without a cleanup. */
export function modesIn(signs: ModeSigns): readonly ProxyMode[] {
  const { device, routes, saved } = signs
  const hasRules = (mode: ProxyMode): boolean => Object.values(saved).some((tables) => isOfMode(mode, tables))
  return [
    ...(device !== undefined || routes.size > 0 || firewallsIn(signs).length > 0 ? (['ipvs'] as const) : []),
    ...(hasRules('iptables') ? (['iptables'] as const) : []),
  ]
}

/** The firewalls of ipvs mode. Both only while one replaces the other. */
export function firewallsIn({ privateTables = [], saved }: ModeSigns): readonly FirewallName[] {
  const hasRules = Object.values(saved).some((tables) => isOfMode('ipvs', tables))
  return [...(hasRules ? (['iptables'] as const) : []), ...(privateTables.length > 0 ? (['nftables'] as const) : [])]
}

/** The mode that the kernel has something of; null: of none, or of both. */
export function onlyMode(modes: readonly ProxyMode[]): ProxyMode | null {
  const [mode, other] = modes
  return other === undefined ? (mode ?? null) : null
}

/**
 * The mode that answers new connections; undefined: there is none. Of two it is iptables mode: ipvs
 * mode removes rules of iptables mode at once, but what ipvs mode leaves stays until its
 * connections have ended.
 */
export function answeringMode(modes: readonly ProxyMode[]): ProxyMode | undefined {
  return modes.includes('iptables') ? 'iptables' : modes[0]
}
