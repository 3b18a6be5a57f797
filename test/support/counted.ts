/**
 * Everything that /metrics prints, with a value for each possible sample; values differ where a
 * test must distinguish them.
 */
import { AuditCounts, EventLoopDelay, ProbeCounts } from '../../src/metrics/counts.ts'
import { RequestCounts } from '../../src/metrics/request-counts.ts'
import type { ScrapeInput } from '../../src/metrics/scrape.ts'
import { ServiceTraffic } from '../../src/metrics/service-traffic.ts'
import { SyncCounts } from '../../src/metrics/sync-counts.ts'
import { noCounts } from '../../src/sync/table.ts'
import { TABLES } from '../../src/sync/part.ts'
import { service } from './objects.ts'

/** Wall clock of the counts, in milliseconds since the epoch. */
export const START_MS = 1_795_190_400_000

export function everythingCounted(): ScrapeInput {
  let wallMs = START_MS
  const sync = new SyncCounts({ families: ['IPv4', 'IPv6'], wallMs: () => wallMs })
  wallMs += 60_000
  const value = service({ clusterIps: { IPv4: '10.96.0.1', IPv6: 'fd00::1' } })
  sync.changed([{ kind: 'services', key: 'demo/web', value }], { slice: () => undefined })
  sync.beginPass()
  sync.passed(TABLES, { applied: 1, failures: [], repairs: [], unreadable: [] }, 12)
  const requests = new RequestCounts()
  for (const method of ['GET', 'POST']) {
    requests.requested(method, '10.9.2.2:16444', 200, 20, method === 'GET' ? 0 : 201)
    requests.received(method, '10.9.2.2:16444', 445)
  }
  requests.requested('GET', '10.9.2.2:16444', undefined, 20, 0)
  const probes = new ProbeCounts()
  for (const status of [200, 503]) for (const path of ['healthz', 'livez'] as const) probes.answered(path, status)
  probes.checked('ping', true)
  const audits = new AuditCounts()
  audits.ended('virtual-servers', 20, false)
  audits.ended('virtual-servers', 0, true)
  return {
    sync,
    requests,
    probes,
    audits,
    delay: new EventLoopDelay(),
    sources: {
      version: '1.2.3',
      kernelRelease: '6.12.0',
      mode: { configured: 'ipvs', active: 'iptables', reason: 'ipvs-missing' },
      firewall: { configured: 'auto', active: 'nftables', reason: 'ipset-missing' },
      featureGates: () => [{ name: 'WatchListClient', stage: 'BETA', enabled: false }],
      serviceCount: () => 7,
      conflictCount: () => 2,
      room: () => ({ total: 250, limit: 300_000, leftOut: { services: 2, frontends: 40 } }),
      labelledNodeCount: () => 6,
      choiceCounts: () => new Map([['scheduler', 4]]),
      tables: [
        {
          kind: { name: 'virtual-servers' },
          counts: {
            ...noCounts(),
            added: 5,
            removed: 4,
            addFailed: 3,
            removeFailed: 2,
            repaired: 1,
            contested: 1,
            unreadable: 6,
          },
          liveCount: 8,
          desiredCount: 9,
          waitingCount: 1,
          isKnown: true,
          states: () => [],
        },
      ],
      ipvs: {
        setSizes: () => [{ name: 'KUBE-CLUSTER-IP', entries: 3, maxEntries: 65_536 }],
        realServerCount: () => 11,
        drainingCount: () => 1,
        drainsFinished: () => ({ idle: 2, deadline: 1 }),
        slowStarts: () => ({ count: 3, begun: 5 }),
        outliers: () => ({ count: 1, decisions: { suspected: 4, answered: 3 }, serversRead: 99 }),
        readTraffic: async () => undefined,
      },
      connections: () => [{ name: 'ipvs', messagesSent: 30, datagramsSent: 20, datagramsReceived: 10 }],
      relays: () => ({
        listening: 12,
        failing: 2,
        leftOut: 3,
        connections: 4,
        relayed: 50,
        overLimit: 5,
        unreachable: 6,
        foreign: 7,
      }),
      local: { isOpen: true, answers: new Map([[200, 4]]) },
      traffic: new ServiceTraffic({
        limit: 10,
        read: async (visit) => visit('10.96.0.1:80/tcp', Float64Array.of(1, 20, 10, 2000, 1000)),
        ownerOf: () => ({ namespace: 'demo', name: 'web' }),
        now: () => 0,
      }),
    },
  }
}
