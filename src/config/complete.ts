/**
 * Defaults that depend on other fields, and what kube-proxy's internal type keeps: bind addresses by family, periods by mode.
 * Only the block of the mode in use keeps its periods; what is written back is compared with that.
 */
import { familyOf, parseAddressSloppy } from '../values/address.ts'
import type { UncheckedConfiguration } from './types.ts'
import { withValues } from './values.ts'

export const HEALTHZ_PORT = 10_256
export const METRICS_PORT = 10_249

/** Fills in the addresses of the ports. The mode stays as it is, '' too: flags may still change it (`completeModes`). */
export function completeDefaults(document: UncheckedConfiguration): UncheckedConfiguration {
  const parsed = parseAddressSloppy(document.bindAddress)
  const ipv6 = parsed === undefined || familyOf(parsed) === 'IPv6'
  return {
    ...document,
    healthzBindAddress: withPort(document.healthzBindAddress || (ipv6 ? '::' : '0.0.0.0'), HEALTHZ_PORT),
    metricsBindAddress: withPort(document.metricsBindAddress || (ipv6 ? '::1' : '127.0.0.1'), METRICS_PORT),
  }
}

/**
 * kube-proxy's internal type keeps one pair of periods and one masqueradeAll, those of the mode. A mode that does not exist
 * has those of iptables, which is what '' means too.
 */
export function keepBlockOfMode(document: UncheckedConfiguration): UncheckedConfiguration {
  const mode = document.mode === 'ipvs' || document.mode === 'nftables' ? document.mode : 'iptables'
  return withValues(document, {
    ...(mode === 'ipvs' ? {} : { 'ipvs.syncPeriod': 0, 'ipvs.minSyncPeriod': 0 }),
    ...(mode === 'iptables' ? {} : { 'iptables.syncPeriod': 0, 'iptables.minSyncPeriod': 0 }),
    ...(mode === 'nftables'
      ? { 'iptables.masqueradeAll': false }
      : { 'nftables.masqueradeAll': false, 'nftables.syncPeriod': 0, 'nftables.minSyncPeriod': 0 }),
  })
}

/** The modes that '' stands for, once file and flags are joined. */
export function completeModes(configuration: UncheckedConfiguration): UncheckedConfiguration {
  const { mode, detectLocalMode, nodePortAddresses } = configuration
  return {
    ...configuration,
    mode: mode === '' ? 'iptables' : mode,
    detectLocalMode: detectLocalMode === '' ? 'ClusterCIDR' : detectLocalMode,
    nodePortAddresses: mode === 'nftables' && nodePortAddresses.length === 0 ? ['primary'] : nodePortAddresses,
  }
}

/** An address without a port gets the port; anything else is left to validation. */
export function withPort(address: string, port: number): string {
  if (parseAddressSloppy(address) === undefined) return address
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
}
