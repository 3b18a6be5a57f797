/**
 * Kernel settings under /proc/sys that IPVS mode needs.
 * What could break: a setting that does not exist, or that may not be written, is reported and never fatal; IPv6
 * forwarding is never written, because that switches router advertisements off.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import type { Problem } from '../values/errors.ts'

export interface SysctlSetting {
  /** Path below /proc/sys. */
  readonly name: string
  readonly value: number
}

/**
 * The settings of ipvs mode (kube-proxy's NewProxier): conntrack for masquerading, connections to a deleted real server
 * end at once (UDP moves on), persistence to a quiescent one too, forwarding; `strictArp` as ipvs.strictARP.
 */
export function ipvsSysctls(strictArp: boolean): readonly SysctlSetting[] {
  const settings = [
    { name: 'net/ipv4/vs/conntrack', value: 1 },
    { name: 'net/ipv4/vs/expire_nodest_conn', value: 1 },
    { name: 'net/ipv4/vs/expire_quiescent_template', value: 1 },
    { name: 'net/ipv4/ip_forward', value: 1 },
  ]
  if (strictArp)
    settings.push(
      { name: 'net/ipv4/conf/all/arp_ignore', value: 1 },
      { name: 'net/ipv4/conf/all/arp_announce', value: 2 },
    )
  return settings
}

/** Writes what differs. Returns one problem for each setting that could not be read or written. */
export function applySysctls(settings: readonly SysctlSetting[], root = '/proc/sys'): Problem[] {
  const problems: Problem[] = []
  for (const { name, value } of settings) {
    const file = `${root}/${name}`
    try {
      if (readFileSync(file, 'utf8').trim() !== String(value)) writeFileSync(file, String(value))
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      problems.push({ code: 'sysctl', subject: 'sysctl', field: name, message: `cannot set it to ${value}: ${reason}` })
    }
  }
  return problems
}
