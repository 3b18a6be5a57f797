/**
 * The metrics of the daemon joined to what they are read from, once asked for: tables, connections, frontends.
 * What could break: this runs at a scrape, in the event loop of the proxy. What grows with the cluster may cost nanoseconds an item.
 */
import type { KubeProxyConfiguration } from '../config/types.ts'
import type { Kernel } from '../dataplane/kernel.ts'
import type { IpvsDataplane } from '../dataplane/ipvs.ts'
import type { NetlinkCounters } from '../netlink/exchange.ts'
import { kernelRelease } from '../node/host.ts'
import { Metrics } from '../metrics/metrics.ts'
import { RequestCounts } from '../metrics/request-counts.ts'
import { ServiceTraffic } from '../metrics/service-traffic.ts'
import type { CountedConnection, SetSize, Sources } from '../metrics/sources.ts'
import { SyncCounts } from '../metrics/sync-counts.ts'
import type { DesiredFrontends } from '../sync/desired-frontends.ts'
import { VERSION } from './version.ts'

export interface ProxyMetricsOptions {
  readonly configuration: Pick<KubeProxyConfiguration, 'featureGates' | 'kubeIPVS'>
  readonly kernel: Kernel
  readonly dataplane: IpvsDataplane
  readonly desired: DesiredFrontends
  /** Requests to the API server, counted by whoever makes them. */
  readonly requests?: RequestCounts
  /** Milliseconds on a clock that never goes back. */
  readonly now: () => number
}

/** Time with the event loop to itself while the counters of all virtual servers are read. */
const TURN_MS = 4

export function proxyMetrics(options: ProxyMetricsOptions): Metrics {
  return new Metrics({
    sync: new SyncCounts({ families: options.kernel.families, wallMs: Date.now }),
    requests: options.requests ?? new RequestCounts(),
    sources: sourcesOf(options),
  })
}

function sourcesOf(options: ProxyMetricsOptions): Sources {
  const { configuration, kernel, dataplane, desired, now } = options
  const { guard, virtualServers, device, addresses, drains } = dataplane
  const { ipvs, auditIpvs, rtnetlink } = kernel.ipvs
  const { ipset, auditIpset } = kernel.guard
  return {
    version: VERSION,
    kernelRelease: kernelRelease(),
    featureGates: configuration.featureGates,
    serviceCount: () => desired.serviceCount,
    conflictCount: () => count(desired.losers()),
    tables: [guard.sets, guard.entries, ...guard.loops.map(({ sync }) => sync), virtualServers, device, addresses],
    setSizes: () => setSizes(dataplane),
    realServerCount: () => realServerCount(dataplane),
    drainingCount: () => drains.count,
    drainsFinished: () => drains.ended,
    connections: () => [
      connection('ipvs', ipvs),
      connection('ipvs-audit', auditIpvs),
      connection('rtnetlink', rtnetlink),
      connection('ipset', ipset),
      connection('ipset-audit', auditIpset),
    ],
    traffic: new ServiceTraffic({
      limit: configuration.kubeIPVS.serviceMetricsLimit,
      read: (visit, signal) => auditIpvs.visitTraffic(visit, { signal, yieldAfterMs: TURN_MS }),
      ownerOf: (key) => desired.get(key)?.service,
      now,
    }),
  }
}

function connection(name: string, { counters }: { readonly counters: Readonly<NetlinkCounters> }): CountedConnection {
  return { name, ...counters }
}

function setSizes({ guard }: IpvsDataplane): readonly SetSize[] {
  const sizes = new Map<string, number>()
  for (const [, { set }] of guard.entries.liveEntries()) sizes.set(set, (sizes.get(set) ?? 0) + 1)
  return Array.from(sizes, ([name, entries]) => {
    const parameters = guard.sets.live(name)
    const ports = (parameters?.lastPort ?? 0) - (parameters?.firstPort ?? 0) + 1
    return { name, entries, maxEntries: parameters?.maxElements || ports }
  })
}

function realServerCount({ virtualServers }: IpvsDataplane): number {
  let servers = 0
  for (const [, { realServers }] of virtualServers.liveEntries()) servers += realServers.length
  return servers
}

function count(items: Iterable<unknown>): number {
  let counted = 0
  for (const _ of items) counted++
  return counted
}
