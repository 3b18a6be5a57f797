/**
 * Settings of the kernel as values: which ones conntrack's configuration and each mode ask for.
 * Pure; sysctl.ts writes them. The limit of conntrack comes before its hash size. Both are
 * kernel-wide: they can be written only in the kernel's first network namespace. Both are only
 * raised (the limit since kube-proxy 1.37), because an administrator may have set more.
 */
import type { ConntrackSettings } from '../config/types.ts'

/** One setting of the kernel. */
export interface KernelSetting {
  /** Whole path of its file, `/proc/sys/net/ipv4/ip_forward`, because conntrack's hash size is no sysctl. */
  readonly path: string
  readonly value: number
  /** `at least`: a larger value stays. */
  readonly rule: 'exact' | 'at least'
}

/** The setting with this name below /proc/sys. */
export function sysctl(name: string, value: number): KernelSetting {
  return { path: `/proc/sys/${name}`, value, rule: 'exact' }
}

/** kube-proxy's cap on maxPerCore times processors. */
const LARGEST_SCALED_LIMIT = 1_048_576

/** nf_conntrack_max; 0 leaves the kernel's value. `min` has an effect only together with maxPerCore. */
export function conntrackLimit({ maxPerCore, min }: ConntrackSettings, processors: number): number {
  if (maxPerCore === 0) return 0
  const scaled = maxPerCore * processors
  return scaled > LARGEST_SCALED_LIMIT ? LARGEST_SCALED_LIMIT : Math.max(scaled, min)
}

/**
 * The settings for KubeProxyConfiguration's `conntrack`, in the order to write them. A value of 0
 * leaves the kernel's value.
 */
export function conntrackSettings(configuration: ConntrackSettings, processors: number): readonly KernelSetting[] {
  const { tcpEstablishedTimeoutMs, tcpCloseWaitTimeoutMs, tcpBeLiberal, udpTimeoutMs, udpStreamTimeoutMs } =
    configuration
  const limit = conntrackLimit(configuration, processors)
  return [
    ...(limit > 0 ? [largestTable(limit), hashSize(limit)] : []),
    ...timeout('tcp_timeout_established', tcpEstablishedTimeoutMs),
    ...timeout('tcp_timeout_close_wait', tcpCloseWaitTimeoutMs),
    ...(tcpBeLiberal ? [sysctl('net/netfilter/nf_conntrack_tcp_be_liberal', 1)] : []),
    ...timeout('udp_timeout', udpTimeoutMs),
    ...timeout('udp_timeout_stream', udpStreamTimeoutMs),
  ]
}

/** The number of flows that conntrack may hold. */
function largestTable(limit: number): KernelSetting {
  return { ...sysctl('net/netfilter/nf_conntrack_max', limit), rule: 'at least' }
}

/** One bucket for four flows, as in kube-proxy. */
function hashSize(limit: number): KernelSetting {
  return { path: '/sys/module/nf_conntrack/parameters/hashsize', value: Math.floor(limit / 4), rule: 'at least' }
}

function timeout(name: string, milliseconds: number): KernelSetting[] {
  return milliseconds > 0 ? [sysctl(`net/netfilter/nf_conntrack_${name}`, Math.floor(milliseconds / 1000))] : []
}

/** Without it nothing through IPVS is masqueraded. */
export const IPVS_CONNTRACK = sysctl('net/ipv4/vs/conntrack', 1)

/** Whether it is a setting of IPVS itself: each has an effect on virtual servers only. */
export const isOfIpvs = ({ path }: KernelSetting): boolean => path.startsWith('/proc/sys/net/ipv4/vs/')

/**
 * The settings of ipvs mode (kube-proxy's NewProxier). Connections to a deleted real server end at
 * once and UDP clients get another one; clients with affinity leave a quiescent real server, too.
 * The node forwards packets. `strictArp` is ipvs.strictARP. IPv6 forwarding is never set, because
 * that would switch off router advertisements.
 * @param release as uname -r prints it. Kernels from 4.1 on and before 5.9 delay a connection that
 * reuses a port by a second
 *   unless conn_reuse_mode is 0 (k/k#93297); the kernel offers no other way to find out
 */
export function ipvsSysctls(strictArp: boolean, release: string): readonly KernelSetting[] {
  const [major = 0, minor = 0] = release.split('.').map((part) => Number.parseInt(part, 10))
  const delaysReuse = (major === 4 && minor >= 1) || (major === 5 && minor < 9)
  return [
    IPVS_CONNTRACK,
    ...(delaysReuse ? [sysctl('net/ipv4/vs/conn_reuse_mode', 0)] : []),
    sysctl('net/ipv4/vs/expire_nodest_conn', 1),
    sysctl('net/ipv4/vs/expire_quiescent_template', 1),
    sysctl('net/ipv4/ip_forward', 1),
    ...(strictArp ? [sysctl('net/ipv4/conf/all/arp_ignore', 1), sysctl('net/ipv4/conf/all/arp_announce', 2)] : []),
  ]
}

/**
 * The settings of iptables mode. Node ports answer at 127.0.0.0/8 only if packets from there may
 * leave the loopback device.
 */
export function iptablesSysctls(localhostNodePorts: boolean): readonly KernelSetting[] {
  return localhostNodePorts ? [sysctl('net/ipv4/conf/all/route_localnet', 1)] : []
}

/** Code of errors and problems of a device on which IPv6 is switched off. */
export const IPV6_OFF = 'ipv6-off'
