/**
 * What a scrape reads of ipvs mode: tables, connections, virtual servers. It runs in the event loop
 * of the proxy, so what grows with the cluster may cost nanoseconds an item.
 */
import type { Kernel } from './kernel.ts'
import type { IpvsDataplane } from './dataplane.ts'
import type { OutlierWatch } from './outlier-watch.ts'
import { countedConnection, type KernelSources } from '../../metrics/sources.ts'

export function ipvsSources(
  kernel: Kernel,
  dataplane: IpvsDataplane,
  outlierWatch: Pick<OutlierWatch, 'serversRead'>,
): KernelSources {
  const { ipvs, auditIpvs, rtnetlink, auditRtnetlink } = kernel
  const { firewall } = dataplane
  return {
    tables: dataplane.tables.map(({ counted }) => counted),
    connections: () => [
      countedConnection('ipvs', ipvs),
      countedConnection('ipvs-audit', auditIpvs),
      countedConnection('rtnetlink', rtnetlink),
      countedConnection('rtnetlink-audit', auditRtnetlink),
      ...firewall.sources.connections(),
    ],
    ipvs: {
      setSizes: () => firewall.sources.sizes(),
      realServerCount: () => realServerCount(dataplane),
      drainingCount: () => dataplane.drains.count,
      drainsFinished: () => dataplane.drains.ended,
      slowStarts: () => dataplane.servers.slowStarts,
      outliers: () => ({
        count: dataplane.servers.outliers.count,
        decisions: dataplane.servers.outliers.counts,
        serversRead: outlierWatch.serversRead,
      }),
      readTraffic: (visit, signal) => auditIpvs.visitTraffic(visit, { signal }),
    },
  }
}

function realServerCount({ virtualServers }: IpvsDataplane): number {
  let servers = 0
  virtualServers.forEachLive(({ realServers }) => {
    servers += realServers.length
  })
  return servers
}
