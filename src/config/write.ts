/**
 * A configuration as the v1alpha1 object it came from: what /configz shows and `--write-config-to` writes.
 * What could break: every number under a key that ends in `Ms` is a duration; the key loses the suffix on the way out.
 */
import { formatDuration } from './duration.ts'
import { GIVEN_EMPTY } from './field.ts'
import { MAX_FRONTENDS, SERVICE_METRICS_LIMIT } from './kube-ipvs.ts'
import type { UncheckedConfiguration } from './types.ts'

export const API_VERSION = 'kubeproxy.config.k8s.io/v1alpha1'
export const KIND = 'KubeProxyConfiguration'

/** Fields that v1alpha1 leaves out when they have no value (omitempty). */
const OMITTED_WHEN_EMPTY: ReadonlySet<string> = new Set(['featureGates', 'vmodule', 'windowsRunAsService'])
/** Not written back by kube-proxy when false, and not when true either. */
const NEVER_WRITTEN: ReadonlySet<string> = new Set([
  'splitStream',
  'flushFrequencyAsNumber',
  'clusterCIDRGiven',
  'kubeIPVS',
])

/** Plain JSON values in v1alpha1's names; durations as text, an empty list as null. */
export function toV1alpha1(configuration: UncheckedConfiguration): Readonly<Record<string, unknown>> {
  const own = writeOwn(configuration.kubeIPVS)
  return {
    apiVersion: API_VERSION,
    kind: KIND,
    ...writeObject(configuration),
    ...(Object.keys(own).length === 0 ? {} : { kubeIPVS: own }),
  }
}

/** Only what was set: kube-proxy would warn of the block. */
function writeOwn(own: UncheckedConfiguration['kubeIPVS']): Record<string, unknown> {
  const { drainDeadlineMs, allowedExternalIPs, allowedLoadBalancerIPs, allowProtectedExternalIPs } = own
  const { maxFrontendsPerService, serviceMetricsLimit } = own
  return {
    ...(allowedExternalIPs === undefined ? {} : { allowedExternalIPs }),
    ...(allowedLoadBalancerIPs === undefined ? {} : { allowedLoadBalancerIPs }),
    ...(allowProtectedExternalIPs ? { allowProtectedExternalIPs } : {}),
    ...(maxFrontendsPerService === MAX_FRONTENDS ? {} : { maxFrontendsPerService }),
    ...(drainDeadlineMs === 0 ? {} : { drainDeadline: formatDuration(drainDeadlineMs) }),
    ...(serviceMetricsLimit === SERVICE_METRICS_LIMIT ? {} : { serviceMetricsLimit }),
  }
}

function writeObject(object: object): Record<string, unknown> {
  const written: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(object)) {
    if (NEVER_WRITTEN.has(key)) continue
    if (OMITTED_WHEN_EMPTY.has(key) && isEmpty(value)) continue
    if (key === 'flushFrequencyMs' && 'flushFrequencyAsNumber' in object && object.flushFrequencyAsNumber === true)
      written['flushFrequency'] = Number(value) * 1e6
    else if (key.endsWith('Ms') && typeof value === 'number') written[key.slice(0, -2)] = formatDuration(value)
    else written[key] = writeValue(value)
  }
  return written
}

function writeValue(value: unknown): unknown {
  if (Array.isArray(value)) return value.length === 0 && value !== GIVEN_EMPTY ? null : value.map(writeValue)
  return typeof value === 'object' && value !== null ? writeObject(value) : value
}

function isEmpty(value: unknown): boolean {
  return value === false || (typeof value === 'object' && value !== null && Object.keys(value).length === 0)
}
