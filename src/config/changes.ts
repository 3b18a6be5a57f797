/**
 * What differs between two configurations, and which of that a running proxy can take over. Pure.
 * What could break: a field is live only if everything that reads it reads the new value; any other change takes a new
 * process, and the reason names the fields.
 */
import type { KubeProxyConfiguration } from './types.ts'
import { toV1alpha1 } from './write.ts'

/** Fields that are applied while the proxy runs; those that end in `.` with everything below them. */
export const LIVE_FIELDS: readonly string[] = [
  'logging.verbosity',
  'logging.vmodule',
  'ipvs.syncPeriod',
  'ipvs.minSyncPeriod',
  'nodePortAddresses',
  'conntrack.',
  'oomScoreAdj',
]

/** Fields that mean nothing in ipvs mode on Linux, or nothing to this program. */
const WITHOUT_EFFECT: readonly string[] = [
  'configSyncPeriod',
  'iptables.localhostNodePorts',
  'iptables.syncPeriod',
  'iptables.minSyncPeriod',
  'logging.flushFrequency',
  'logging.options.',
  'nftables.',
  'portRange',
  'windowsRunAsService',
  'winkernel.',
]

export interface ConfigurationChanges {
  /** Names of v1alpha1, `ipvs.syncPeriod`; sorted. */
  readonly live: readonly string[]
  readonly withoutEffect: readonly string[]
  /** What takes a new process. */
  readonly restart: readonly string[]
}

export function changesBetween(before: KubeProxyConfiguration, after: KubeProxyConfiguration): ConfigurationChanges {
  const [old, now] = [leavesOf(before), leavesOf(after)]
  const changed = [...new Set([...old.keys(), ...now.keys()])]
    .filter((field) => old.get(field) !== now.get(field))
    .sort()
  const isIn = (list: readonly string[], field: string): boolean =>
    list.some((entry) => (entry.endsWith('.') ? field.startsWith(entry) : field === entry))
  return {
    live: changed.filter((field) => isIn(LIVE_FIELDS, field)),
    withoutEffect: changed.filter((field) => isIn(WITHOUT_EFFECT, field)),
    restart: changed.filter((field) => !isIn(LIVE_FIELDS, field) && !isIn(WITHOUT_EFFECT, field)),
  }
}

/** Every value that is no object, by its path, as text. */
function leavesOf(configuration: KubeProxyConfiguration): ReadonlyMap<string, string> {
  const leaves = new Map<string, string>()
  const visit = (path: string, value: unknown): void => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) leaves.set(path, JSON.stringify(value))
    else for (const [key, inner] of Object.entries(value)) visit(path === '' ? key : `${path}.${key}`, inner)
  }
  visit('', toV1alpha1(configuration))
  return leaves
}
