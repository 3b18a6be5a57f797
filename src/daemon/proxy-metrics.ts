/**
 * The metrics of the daemon joined to what a scrape reads: tables, connections, frontends. A scrape
 * runs in the event loop of the proxy, so reading what grows with the cluster may take no more than
 * nanoseconds an item.
 */
import { isPendingIn, type Mode } from '../modes/mode.ts'
import { type Gate, knownGates } from '../config/known-gates.ts'
import type { KubeProxyConfiguration } from '../config/types.ts'
import { kernelRelease } from '../node/host.ts'
import { LocalCounts } from '../metrics/local-counts.ts'
import { Metrics } from '../metrics/metrics.ts'
import { RequestCounts } from '../metrics/request-counts.ts'
import { ServiceTraffic } from '../metrics/service-traffic.ts'
import type { FeatureGate, Sources } from '../metrics/sources.ts'
import { SyncCounts } from '../metrics/sync-counts.ts'
import type { DesiredFrontends } from '../sync/desired-frontends.ts'
import type { FollowedNodeLabels } from './followed-node-labels.ts'
import type { LocalhostNodePorts } from './localhost-node-ports.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { Fallback } from '../modes/fallback.ts'
import type { Clock } from '../values/clock.ts'
import { VERSION } from '../values/well-known.ts'

export interface ProxyMetricsOptions {
  readonly configuration: Pick<KubeProxyConfiguration, 'featureGates' | 'kubeIPVS' | 'mode'>
  /** Why the mode is not the configured one. */
  readonly fallback?: Fallback | undefined
  readonly mode: Pick<Mode, 'name' | 'firewall' | 'families' | 'parts' | 'sources'>
  readonly desired: DesiredFrontends
  readonly nodeLabels: Pick<FollowedNodeLabels, 'nodeCount'>
  readonly nodeName: string
  readonly localhostNodePorts: Pick<LocalhostNodePorts, 'counts'>
  /** Requests to the API server, which the sources count. Absent: there are none. */
  readonly requests?: RequestCounts
  /** Of the local socket, which belongs to the process. Absent: there is none. */
  readonly local?: LocalCounts
  readonly now: Clock
}

export function proxyMetrics(options: ProxyMetricsOptions): Metrics {
  const { mode } = options
  const sources = sourcesOf(options)
  const rulesPending =
    sources.rules === undefined ? undefined : (family: IpFamily): boolean => isPendingIn(mode.parts, family)
  return new Metrics({
    sync: new SyncCounts({ families: mode.families, wallMs: Date.now, rulesPending }),
    requests: options.requests ?? new RequestCounts(),
    sources,
  })
}

function sourcesOf(options: ProxyMetricsOptions): Sources {
  const { configuration, mode, desired, nodeLabels, now } = options
  const { firewall } = mode
  const readTraffic = mode.sources.ipvs?.readTraffic
  return {
    ...mode.sources,
    version: VERSION,
    kernelRelease: kernelRelease(),
    mode: { configured: configuration.mode, active: mode.name, reason: options.fallback?.reason ?? '' },
    ...(firewall === undefined
      ? {}
      : { firewall: { configured: firewall.configured, active: firewall.name, reason: firewall.lack } }),
    featureGates: () => featureGatesOf(configuration.featureGates),
    serviceCount: () => desired.objects.serviceCount,
    conflictCount: () => desired.lossCount,
    room: () => desired.room,
    labelledNodeCount: () => nodeLabels.nodeCount,
    choiceCounts: () => desired.choiceCounts(),
    relays: () => options.localhostNodePorts.counts,
    local: options.local ?? new LocalCounts(),
    traffic: new ServiceTraffic({
      limit: readTraffic === undefined ? 0 : configuration.kubeIPVS.serviceMetricsLimit,
      read: readTraffic ?? (async () => undefined),
      ownerOf: (key) => desired.get(key)?.servicePort.service,
      now,
    }),
  }
}

/** The feature gates that matter to a service proxy; kubernetes_feature_enabled shows no others. */
const SHOWN_GATES = [
  'AllAlpha',
  'AllBeta',
  'LoggingAlphaOptions',
  'LoggingBetaOptions',
  'PreferSameTrafficDistribution',
  'WatchListClient',
]
const STAGES: Readonly<Record<Gate['stage'], string>> = {
  alpha: 'ALPHA',
  beta: 'BETA',
  settled: '',
  deprecated: 'DEPRECATED',
}

/** @param configured `featureGates` of the configuration */
export function featureGatesOf(configured: Readonly<Record<string, boolean>>): readonly FeatureGate[] {
  return SHOWN_GATES.flatMap((name) => {
    const gate = knownGates().get(name)
    return gate === undefined ? [] : { name, stage: STAGES[gate.stage], enabled: configured[name] ?? gate.on }
  })
}
