/**
 * Schedulers: the one that a configuration names, the flags it needs, and whether the kernel has
 * it.
 * @impure
 */
import type { CallOptions } from '../netlink/connection.ts'
import type { HashFlags } from '../service/annotations.ts'
import { schedulerTraits } from '../values/schedulers.ts'
import type { IpvsConnection } from './connection.ts'
import { FLAG_SCHED_1, FLAG_SCHED_2, type VirtualServerFields } from './types.ts'

/** The scheduler that a configuration names: without a name it is `rr`, as in kube-proxy. */
export function schedulerOf(configured: string): string {
  return configured || 'rr'
}

/**
 * The flags of a scheduler: those that a Service chose, else those with which a draining real
 * server (weight 0) refuses no new connection: `sh` and `mh` choose another server when the hashed
 * one has weight 0 (IP_VS_SVC_F_SCHED_SH_FALLBACK, IP_VS_SVC_F_SCHED_MH_FALLBACK). `mh` also hashes
 * the source port, as in kube-proxy (IP_VS_SVC_F_SCHED_MH_PORT).
 */
export function schedulerFlags(scheduler: string, chosen?: HashFlags): number {
  if (schedulerTraits(scheduler).hasFlags !== true) return 0
  const { fallback, port } = chosen ?? { fallback: true, port: scheduler === 'mh' }
  return (fallback ? FLAG_SCHED_1 : 0) | (port ? FLAG_SCHED_2 : 0)
}

/** Places of the table of `sh` (IP_VS_SH_TAB_SIZE). */
const SOURCE_HASH_PLACES = 256

/**
 * The weights that a scheduler needs for shares as those of `weights`, in their order. `sh` fills a
 * table of 256 places with as many of each real server as its weight says, one server after the
 * other (ip_vs_sh_reassign), so larger weights would leave the last ones without any: the weights
 * become smaller in proportion, and none less than 1.
 */
export function schedulerWeights(scheduler: string, weights: readonly number[]): readonly number[] {
  if (scheduler !== 'sh' || sum(weights) <= SOURCE_HASH_PLACES) return weights
  const reduced = (factor: number): number[] => weights.map((weight) => Math.max(1, Math.floor(weight * factor)))
  let [low, high] = [0, 1]
  // Halving this often finds the factor more exactly than any weight needs.
  for (let step = 0; step < 24; step++) {
    const middle = (low + high) / 2
    if (sum(reduced(middle)) <= SOURCE_HASH_PLACES) low = middle
    else high = middle
  }
  return reduced(low)
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}

/** Address and port for documentation (RFC 5737), as kube-proxy's own check uses them. */
const PROBE: Omit<VirtualServerFields, 'scheduler'> = {
  family: 'IPv4',
  address: '198.51.100.0',
  port: 20_000,
  protocol: 'tcp',
  flags: 0,
  timeoutSeconds: 0,
  netmask: 0xffffffff,
  persistenceEngine: '',
}

/**
 * Whether the kernel has the scheduler: adds a virtual server with it and deletes that again, for
 * which the kernel loads the module when it can. Rejects with KernelError.
 */
export async function tryScheduler(
  ipvs: IpvsConnection,
  scheduler: string,
  options: CallOptions = {},
): Promise<{ readonly missing: Error } | undefined> {
  const batch = ipvs.batch()
  batch.addService({ ...PROBE, scheduler })
  const [added] = await batch.commit(options)
  if (added !== undefined && added.code !== 'EEXIST') {
    if (added.code !== 'ENOENT') throw added
    return { missing: added }
  }
  batch.deleteService(PROBE)
  const [deleted] = await batch.commit(options)
  if (deleted !== undefined) throw deleted
  return undefined
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
 * Finds out whether the kernel has a scheduler without creating anything: it is asked for an IPv6
 * virtual server with prefix length 0, which it refuses. ip_vs_add_service looks the scheduler up
 * before it checks the rest, since IPVS has generic netlink. `no-ipv6`: this kernel's IPVS has no
 * IPv6 (CONFIG_IP_VS_IPV6), so the question cannot be asked. `unknown`: another program has a
 * virtual server at that address. The kernel loads `ip_vs_NAME` if it can. Rejects with
 * KernelError.
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

/**
 * Whether the kernel has a scheduler, which it loads if it can. Creates nothing where it can be
 * avoided. Rejects with KernelError.
 */
export async function hasScheduler(
  ipvs: IpvsConnection,
  scheduler: string,
  options: CallOptions = {},
): Promise<boolean> {
  const answer = await askScheduler(ipvs, scheduler, options)
  if (answer === 'present' || answer === 'missing') return answer === 'present'
  return (await tryScheduler(ipvs, scheduler, options)) === undefined
}
