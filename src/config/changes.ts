/**
 * What differs between two configurations, and what a running proxy does about each field: it takes the new value over, or
 * only a new process can, or the field means nothing in its mode. Pure.
 * A field may be listed as live only when everything that reads it reads the new value.
 */
import { GATES_WITH_EFFECT } from './gates.ts'
import type { KubeProxyConfiguration, ProxyMode } from './types.ts'
import { toV1alpha1 } from './write.ts'

const LIVE_IN_BOTH: readonly string[] = [
  'logging.verbosity',
  'logging.vmodule',
  'nodePortAddresses',
  'conntrack.maxPerCore',
  'conntrack.min',
  'conntrack.tcpCloseWaitTimeout',
  'conntrack.tcpEstablishedTimeout',
  'conntrack.udpStreamTimeout',
  'conntrack.udpTimeout',
  'oomScoreAdj',
]

/**
 * Fields that are applied while the proxy runs in a mode. conntrack.tcpBeLiberal is not live in iptables mode, which has a rule
 * that depends on it.
 */
export const LIVE_FIELDS: Readonly<Record<ProxyMode, readonly string[]>> = {
  ipvs: [...LIVE_IN_BOTH, 'conntrack.tcpBeLiberal', 'ipvs.syncPeriod', 'ipvs.minSyncPeriod'],
  iptables: [...LIVE_IN_BOTH, 'iptables.syncPeriod', 'iptables.minSyncPeriod'],
}

/** Fields that mean nothing to this program; those that end in `.` with everything below them. */
const WITHOUT_EFFECT_IN_BOTH: readonly string[] = [
  'configSyncPeriod',
  'logging.flushFrequency',
  'logging.options.',
  'nftables.',
  'portRange',
  'showHiddenMetricsForVersion',
  'windowsRunAsService',
  'winkernel.',
]

/** ipvs.excludeCIDRs also counts in iptables mode: for what ipvs mode left, which is removed at the start. */
const WITHOUT_EFFECT: Readonly<Record<ProxyMode, readonly string[]>> = {
  ipvs: [...WITHOUT_EFFECT_IN_BOTH, 'iptables.localhostNodePorts', 'iptables.syncPeriod', 'iptables.minSyncPeriod'],
  iptables: [
    ...WITHOUT_EFFECT_IN_BOTH,
    'ipvs.minSyncPeriod',
    'ipvs.scheduler',
    'ipvs.strictARP',
    'ipvs.syncPeriod',
    'ipvs.tcpFinTimeout',
    'ipvs.tcpTimeout',
    'ipvs.udpTimeout',
  ],
}

export interface ConfigurationChanges {
  /** Names of v1alpha1, `ipvs.syncPeriod`; sorted. */
  readonly live: readonly string[]
  readonly withoutEffect: readonly string[]
  /** What takes a new process. */
  readonly restart: readonly string[]
}

/** `before` is what the proxy runs with; its mode decides. */
export function changesBetween(before: KubeProxyConfiguration, after: KubeProxyConfiguration): ConfigurationChanges {
  const [old, now] = [leavesOf(before), leavesOf(after)]
  const changed = [...new Set([...old.keys(), ...now.keys()])]
    .filter((field) => old.get(field) !== now.get(field))
    .sort()
  const found = { live: new Array<string>(), withoutEffect: new Array<string>(), restart: new Array<string>() }
  for (const field of changed) found[consequenceOf(field, before.mode)].push(field)
  return found
}

function consequenceOf(field: string, mode: ProxyMode): keyof ConfigurationChanges {
  if (LIVE_FIELDS[mode].includes(field)) return 'live'
  if (field.startsWith(GATE)) return GATES_THAT_COUNT.has(field.slice(GATE.length)) ? 'restart' : 'withoutEffect'
  const isListed = WITHOUT_EFFECT[mode].some((entry) =>
    entry.endsWith('.') ? field.startsWith(entry) : field === entry,
  )
  return isListed ? 'withoutEffect' : 'restart'
}

const GATE = 'featureGates.'
const GATES_THAT_COUNT: ReadonlySet<string> = new Set([...GATES_WITH_EFFECT, 'AllAlpha', 'AllBeta'])

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
