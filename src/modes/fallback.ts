/**
 * What makes ipvs mode impossible on a node so that the daemon starts in iptables mode instead: a
 * missing module, or a setting that this process may not write, by the code of the error that the
 * opening rejects with. A missing scheduler is none of these, because another one can be configured.
 */
import type { KubeProxyConfiguration } from '../config/types.ts'
import { schedulerOf } from '../ipvs/scheduler.ts'
import { thisHost } from '../node/host.ts'
import { moduleRemedy } from '../node/module-remedy.ts'
import { modulesAtBoot } from '../node/needs.ts'
import { CodedError } from '../values/errors.ts'
import type { Log } from '../values/log.ts'

const LACKS = {
  'ipvs-missing': ['ip_vs', 'the kernel has no IPVS (module ip_vs)'],
  'ipset-missing': ['ip_set', 'the kernel has no ipset (module ip_set)'],
  'set-match-missing': ['xt_set', 'the kernel has no match "set" for iptables (module xt_set)'],
  'nftables-missing': ['nf_tables', 'the kernel has no nf_tables for the nftables firewall (module nf_tables)'],
  'ipvs-conntrack-off': ['', 'net.ipv4.vs.conntrack is not 1 and cannot be set here: IPVS would masquerade nothing'],
} as const

/** Remedy of `ipvs-conntrack-off`: only a process with all rights of root can write the setting. */
export const CONNTRACK_REMEDY =
  'run "kube-ipvs --init-only" with all rights of root (replace the Pod, so that its init container runs), or "sysctl -w net.ipv4.vs.conntrack=1" on the node'

/** The code of the error that opening ipvs mode rejects with. */
export type FallbackReason = keyof typeof LACKS

export interface Fallback {
  readonly reason: FallbackReason
  /** What is missing. */
  readonly message: string
  /** What an operator has to do. */
  readonly remedy: string
}

export const isFallbackReason = (code: string): code is FallbackReason => Object.hasOwn(LACKS, code)

/** What is missing, for people. */
export const lackText = (reason: FallbackReason): string => LACKS[reason][1]

/**
 * The reason and its remedy on this node.
 * @param code any text, such as a label of a metric
 * @param scheduler `ipvs.scheduler`
 */
export function fallbackOf(code: string, scheduler: string): Fallback | undefined {
  if (!isFallbackReason(code)) return undefined
  const [module, message] = LACKS[code]
  if (module === '') return { reason: code, message, remedy: CONNTRACK_REMEDY }
  const atBoot = modulesAtBoot(schedulerOf(scheduler), code === 'nftables-missing' ? 'nftables' : 'iptables')
  return { reason: code, message, remedy: moduleRemedy(module, atBoot, thisHost()) }
}

/**
 * The fallback that the configuration allows for this error of the opening of ipvs mode; undefined:
 * the error ends the start.
 */
export function fallbackFor(
  error: unknown,
  { ipvs, kubeIPVS }: Pick<KubeProxyConfiguration, 'ipvs' | 'kubeIPVS'>,
): Fallback | undefined {
  if (kubeIPVS.fallback === 'none' || !(error instanceof CodedError)) return undefined
  return fallbackOf(error.code, ipvs.scheduler)
}

/** The one warning of a fallback. */
export function logFallback({ reason, message, remedy }: Fallback, log: Log): void {
  log.warn('Falling back to iptables mode', { reason, error: message, remedy })
}
