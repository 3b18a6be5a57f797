/**
 * What a scrape reads of ipvs mode: tables, connections, sets, virtual servers. It runs in the event loop of the proxy, so what
 * grows with the cluster may cost nanoseconds an item.
 */
import { countEntries } from '../../ipset/audit.ts'
import type { Kernel } from './kernel.ts'
import type { IpvsDataplane } from './dataplane.ts'
import { listTables } from './tables.ts'
import type { CountedConnection, KernelSources, SetSize } from '../../metrics/sources.ts'
import type { NetlinkCounters } from '../../netlink/exchange.ts'

/** Time with the event loop to itself while the counters of all virtual servers are read. */
const TURN_MS = 4

export function ipvsSources(kernel: Kernel, dataplane: IpvsDataplane): KernelSources {
  const { ipvs, auditIpvs, rtnetlink, auditRtnetlink, ipset, auditIpset } = kernel
  return {
    tables: listTables(dataplane.states, kernel.support.families).map(({ counted }) => counted),
    connections: () => [
      connection('ipvs', ipvs),
      connection('ipvs-audit', auditIpvs),
      connection('rtnetlink', rtnetlink),
      connection('rtnetlink-audit', auditRtnetlink),
      connection('ipset', ipset),
      connection('ipset-audit', auditIpset),
    ],
    ipvs: {
      setSizes: () => setSizes(dataplane),
      realServerCount: () => realServerCount(dataplane),
      drainingCount: () => dataplane.drains.count,
      drainsFinished: () => dataplane.drains.ended,
      slowStarts: () => dataplane.slowStarts,
      readTraffic: (visit, signal) => auditIpvs.visitTraffic(visit, { signal, yieldAfterMs: TURN_MS }),
    },
  }
}

function connection(name: string, { counters }: { readonly counters: Readonly<NetlinkCounters> }): CountedConnection {
  return { name, ...counters }
}

function setSizes({ setsAndRules }: IpvsDataplane): readonly SetSize[] {
  return Array.from(countEntries(setsAndRules.entries), ([name, entries]) => {
    const parameters = setsAndRules.sets.live(name)
    const ports = (parameters?.lastPort ?? 0) - (parameters?.firstPort ?? 0) + 1
    return { name, entries, maxEntries: parameters?.maxElements || ports }
  })
}

function realServerCount({ virtualServers }: IpvsDataplane): number {
  let servers = 0
  virtualServers.forEachLive(({ realServers }) => {
    servers += realServers.length
  })
  return servers
}
