/**
 * KubeProxyConfiguration's `conntrack` as kernel settings. Pure.
 * What could break: the limit comes before the hash size, and both are kernel-wide: they can be written only in the
 * kernel's first network namespace.
 */
import type { ConntrackSettings } from '../config/types.ts'
import { type KernelSetting, sysctl } from './kernel-setting.ts'

/** kube-proxy's cap on maxPerCore times processors. */
const LARGEST_SCALED_LIMIT = 1_048_576

/** nf_conntrack_max, 0 to leave it as it is; `min` counts only beside maxPerCore. */
export function conntrackLimit({ maxPerCore, min }: ConntrackSettings, processors: number): number {
  if (maxPerCore === 0) return 0
  const scaled = maxPerCore * processors
  return scaled > LARGEST_SCALED_LIMIT ? LARGEST_SCALED_LIMIT : Math.max(scaled, min)
}

/** What to set, in this order. Timeouts of 0 and a limit of 0 leave the kernel's values. */
export function conntrackSettings(configuration: ConntrackSettings, processors: number): readonly KernelSetting[] {
  const { tcpEstablishedTimeoutMs, tcpCloseWaitTimeoutMs, tcpBeLiberal, udpTimeoutMs, udpStreamTimeoutMs } =
    configuration
  const limit = conntrackLimit(configuration, processors)
  return [
    ...(limit > 0 ? [sysctl('net/netfilter/nf_conntrack_max', limit), hashSize(limit)] : []),
    ...timeout('tcp_timeout_established', tcpEstablishedTimeoutMs),
    ...timeout('tcp_timeout_close_wait', tcpCloseWaitTimeoutMs),
    ...(tcpBeLiberal ? [sysctl('net/netfilter/nf_conntrack_tcp_be_liberal', 1)] : []),
    ...timeout('udp_timeout', udpTimeoutMs),
    ...timeout('udp_timeout_stream', udpStreamTimeoutMs),
  ]
}

/** Four flows a bucket; a larger table stays as it is. */
function hashSize(limit: number): KernelSetting {
  return { path: '/sys/module/nf_conntrack/parameters/hashsize', value: Math.floor(limit / 4), rule: 'at least' }
}

function timeout(name: string, milliseconds: number): KernelSetting[] {
  return milliseconds > 0 ? [sysctl(`net/netfilter/nf_conntrack_${name}`, Math.floor(milliseconds / 1000))] : []
}
