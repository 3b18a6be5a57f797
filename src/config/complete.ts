/**
 * Defaults that depend on other fields: bind addresses by family, periods by mode.
 * What could break: only the block of the mode in use keeps its periods; files written back are compared with that.
 */
import { familyOf, parseAddressSloppy } from '../values/address.ts'
import type { UncheckedConfiguration } from './types.ts'

const HEALTHZ_PORT = 10_256
const METRICS_PORT = 10_249

/** Fills in what zod could not: the result is what validation looks at and what the program runs with. */
export function completeConfiguration(document: UncheckedConfiguration): UncheckedConfiguration {
  const mode = document.mode === '' ? 'iptables' : document.mode
  const bindAddress = document.bindAddress === '' ? '0.0.0.0' : document.bindAddress
  const parsed = parseAddressSloppy(bindAddress)
  const ipv6 = parsed !== undefined && familyOf(parsed) === 'IPv6'
  const { iptables, ipvs, nftables } = document
  return {
    ...document,
    mode,
    detectLocalMode: document.detectLocalMode === '' ? 'ClusterCIDR' : document.detectLocalMode,
    bindAddress,
    healthzBindAddress: withPort(document.healthzBindAddress || (ipv6 ? '::' : '0.0.0.0'), HEALTHZ_PORT),
    metricsBindAddress: withPort(document.metricsBindAddress || (ipv6 ? '::1' : '127.0.0.1'), METRICS_PORT),
    // A mode that does not exist is refused later; until then its periods are judged as those of iptables.
    iptables: { ...iptables, ...periods(mode !== 'ipvs' && mode !== 'nftables', iptables, 1_000) },
    ipvs: { ...ipvs, ...periods(mode === 'ipvs', ipvs, 0) },
    // kube-proxy loses these two on the way; what is written back shows it.
    portRange: '',
    nftables: { ...nftables, masqueradeAll: false, ...periods(mode === 'nftables', nftables, 1_000) },
  }
}

interface Periods {
  readonly syncPeriodMs: number
  readonly minSyncPeriodMs: number
}

function periods(inUse: boolean, given: Periods, minDefaultMs: number): Periods {
  if (!inUse) return { syncPeriodMs: 0, minSyncPeriodMs: 0 }
  return { syncPeriodMs: given.syncPeriodMs || 30_000, minSyncPeriodMs: given.minSyncPeriodMs || minDefaultMs }
}

/** A bare address gets the port; anything else stays for validation to judge. */
function withPort(address: string, port: number): string {
  if (parseAddressSloppy(address) === undefined) return address
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
}
