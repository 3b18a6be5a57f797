/**
 * A case's configuration laid over the base configuration, as the recorder did it. Pure.
 * What could break: null deletes a field, a list replaces the whole list.
 */
import { asObject, type Json } from '../api-server/store.ts'
import type { Mode } from './files.ts'

/** Shorter than the recorder's 5 s: what is found only by looking is put right sooner. */
const SYNC_PERIOD = '1s'

export function baseConfiguration(mode: Mode, kubeconfig: string): Json {
  return {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    mode,
    clusterCIDR: '10.244.0.0/16,fd00:10:244::/56',
    hostnameOverride: 'node0',
    metricsBindAddress: '0.0.0.0:10249',
    ipvs: { minSyncPeriod: '0s', syncPeriod: SYNC_PERIOD },
    iptables: { minSyncPeriod: '0s', syncPeriod: SYNC_PERIOD },
    clientConnection: { kubeconfig },
  }
}

export function merge(base: Json, over: Json | undefined): Json {
  const merged: Record<string, unknown> = { ...base }
  for (const [name, value] of Object.entries(over ?? {})) {
    if (value === null) delete merged[name]
    else if (typeof value === 'object' && !Array.isArray(value))
      merged[name] = merge(asObject(merged[name]), asObject(value))
    else merged[name] = value
  }
  return merged
}
