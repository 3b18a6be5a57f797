/**
 * Defaults that depend on other fields: bind addresses by family, periods by mode.
 * What could break: only the block of the mode in use keeps its periods; files written back are compared with that.
 */
import { familyOf, parseAddressSloppy } from '../values/address.ts'
import type { UncheckedConfiguration } from './types.ts'

const HEALTHZ_PORT = 10_256
const METRICS_PORT = 10_249

/** Fills in what the schema could not, in every block. The mode stays as it is, '' too: flags may still change it (`completeModes`). */
export function completeDefaults(document: UncheckedConfiguration): UncheckedConfiguration {
  const bindAddress = document.bindAddress === '' ? '0.0.0.0' : document.bindAddress
  const parsed = parseAddressSloppy(bindAddress)
  const ipv6 = parsed === undefined || familyOf(parsed) === 'IPv6'
  return {
    ...document,
    bindAddress,
    healthzBindAddress: withPort(document.healthzBindAddress || (ipv6 ? '::' : '0.0.0.0'), HEALTHZ_PORT),
    metricsBindAddress: withPort(document.metricsBindAddress || (ipv6 ? '::1' : '127.0.0.1'), METRICS_PORT),
    // kube-proxy loses it on the way; what is written back shows it.
    portRange: '',
    iptables: withPeriods(document.iptables, 1_000),
    ipvs: withPeriods(document.ipvs, 0),
    nftables: withPeriods(document.nftables, 1_000),
  }
}

interface Periods {
  readonly syncPeriodMs: number
  readonly minSyncPeriodMs: number
}

function withPeriods<Block extends Periods>(block: Block, minDefaultMs: number): Block {
  const { syncPeriodMs, minSyncPeriodMs } = block
  return { ...block, syncPeriodMs: syncPeriodMs || 30_000, minSyncPeriodMs: minSyncPeriodMs || minDefaultMs }
}

/**
 * What kube-proxy's internal type keeps of the blocks: one pair of periods and one masqueradeAll, those of the mode. Of a
 * mode that does not exist, those of iptables, which is what '' means too.
 */
export function keepBlockOfMode(document: UncheckedConfiguration): UncheckedConfiguration {
  const { iptables, ipvs, nftables, mode } = document
  const ofMode = mode === 'ipvs' ? 'ipvs' : mode === 'nftables' ? 'nftables' : 'iptables'
  const none = { syncPeriodMs: 0, minSyncPeriodMs: 0 }
  return {
    ...document,
    iptables: {
      ...iptables,
      ...(ofMode === 'iptables' ? {} : none),
      ...(ofMode === 'nftables' ? { masqueradeAll: false } : {}),
    },
    ipvs: { ...ipvs, ...(ofMode === 'ipvs' ? {} : none) },
    nftables: { ...nftables, ...(ofMode === 'nftables' ? {} : { ...none, masqueradeAll: false }) },
  }
}

/** The modes that '' stands for, once file and flags are joined. */
export function completeModes(configuration: UncheckedConfiguration): UncheckedConfiguration {
  const { nodePortAddresses } = configuration
  return {
    ...configuration,
    mode: configuration.mode === '' ? 'iptables' : configuration.mode,
    detectLocalMode: configuration.detectLocalMode === '' ? 'ClusterCIDR' : configuration.detectLocalMode,
    nodePortAddresses:
      configuration.mode === 'nftables' && nodePortAddresses.length === 0 ? ['primary'] : nodePortAddresses,
  }
}

/** A bare address gets the port; anything else stays for validation to judge. */
export function withPort(address: string, port: number): string {
  if (parseAddressSloppy(address) === undefined) return address
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
}
