/**
 * Schedulers: the one that a configuration names, the flags it needs, and whether the kernel has it.
 * @impure
 */
import type { CallOptions } from '../netlink/connection.ts'
import type { IpvsConnection } from './connection.ts'
import { FLAG_SCHED_1, FLAG_SCHED_2, type VirtualServerFields } from './types.ts'

/** The scheduler that a configuration names: without a name it is `rr`, as in kube-proxy. */
export function schedulerOf(configured: string): string {
  return configured || 'rr'
}

/**
 * Flags that a scheduler needs so that a draining real server (weight 0) refuses no new connection: `sh` and `mh` choose
 * another server when the hashed one has weight 0 (IP_VS_SVC_F_SCHED_SH_FALLBACK, IP_VS_SVC_F_SCHED_MH_FALLBACK). `mh` also
 * hashes the source port, as in kube-proxy (IP_VS_SVC_F_SCHED_MH_PORT).
 */
export function schedulerFlags(scheduler: string): number {
  switch (scheduler) {
    case 'sh':
      return FLAG_SCHED_1
    case 'mh':
      return FLAG_SCHED_1 | FLAG_SCHED_2
    default:
      return 0
  }
}

/** An address for documentation (RFC 3849). */
const IMPOSSIBLE: Omit<VirtualServerFields, 'scheduler'> = {
  family: 'IPv6',
  address: '2001:db8::c0de',
  port: 20_000,
  protocol: 'tcp',
  flags: 0,
  timeoutSeconds: 0,
  netmask: 0,
  persistenceEngine: '',
}

/**
 * Finds out whether the kernel has a scheduler without creating anything: it is asked for an IPv6 virtual server with prefix
 * length 0, which it refuses. ip_vs_add_service looks the scheduler up before it checks the rest, since IPVS has generic
 * netlink. `no-ipv6`: this kernel's IPVS has no IPv6 (CONFIG_IP_VS_IPV6), so the question cannot be asked. `unknown`: another program has a
 * virtual server at that address. The kernel loads `ip_vs_NAME` if it can. Rejects with KernelError.
 */
export async function askScheduler(
  ipvs: IpvsConnection,
  scheduler: string,
  options: CallOptions = {},
): Promise<'present' | 'missing' | 'no-ipv6' | 'unknown'> {
  const batch = ipvs.batch()
  batch.addService({ ...IMPOSSIBLE, scheduler })
  const [refusal] = await batch.commit(options)
  switch (refusal?.code) {
    case 'EINVAL':
      return 'present'
    case 'ENOENT':
      return 'missing'
    case 'EAFNOSUPPORT':
      return 'no-ipv6'
    case 'EEXIST':
      return 'unknown'
    case undefined:
      // No known kernel accepts it; if one does, the virtual server must not stay.
      batch.deleteService(IMPOSSIBLE)
      await batch.commit(options)
      return 'present'
    default:
      throw refusal
  }
}
