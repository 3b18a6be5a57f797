/**
 * Our own families, from numbers that the program keeps anyway.
 * What could break: this runs in the event loop of the proxy; what grows with the cluster is written in turns.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { AuditCounts } from './audit-counts.ts'
import type { EventLoopDelay } from './event-loop-delay.ts'
import { OWN } from './own-families.ts'
import type { MetricsPage } from './page.ts'
import { CONNECTIONS, IN_BYTES, IN_PACKETS, OUT_BYTES, OUT_PACKETS, type ServiceTraffic } from './service-traffic.ts'
import type { CountedTable, Sources } from './sources.ts'
import type { SyncCounts } from './sync-counts.ts'

/** Services written between two turns of the event loop: about a millisecond. */
const SERVICES_PER_TURN = 250

export function writeOwn(page: MetricsPage, sources: Sources): void {
  page.value(OWN.build, [sources.kernelRelease, process.version, sources.version], 1)
  page.value(OWN.services, [], sources.serviceCount())
  page.value(OWN.conflicts, [], sources.conflictCount())
  page.value(OWN.heapUsed, [], process.memoryUsage().heapUsed)
  page.value(OWN.realServers, [], sources.realServerCount())
  page.value(OWN.realServersDraining, [], sources.drainingCount())
  const { idle, deadline } = sources.drainsFinished()
  page.value(OWN.drains, ['idle'], idle)
  page.value(OWN.drains, ['deadline'], deadline)
  for (const table of sources.tables) writeTable(page, table)
  for (const { name, entries, maxEntries } of sources.setSizes()) {
    page.value(OWN.setEntries, [name], entries)
    page.value(OWN.setMaxEntries, [name], maxEntries)
  }
  for (const { name, messagesSent, datagramsSent, datagramsReceived } of sources.connections()) {
    page.value(OWN.netlinkMessages, [name], messagesSent)
    page.value(OWN.netlinkDatagrams, [name, 'in'], datagramsReceived)
    page.value(OWN.netlinkDatagrams, [name, 'out'], datagramsSent)
  }
}

/** What this folder counts itself. */
export function writeCounts(page: MetricsPage, sync: SyncCounts, audits: AuditCounts, delay: EventLoopDelay): void {
  page.value(OWN.syncFailures, ['tables'], sync.tableFailures)
  page.value(OWN.syncFailures, ['rules'], sync.ruleFailures)
  for (const [audit, seconds] of audits.seconds) page.histogram(OWN.auditDuration, [audit], seconds)
  for (const [audit, failures] of audits.failures) page.value(OWN.auditFailures, [audit], failures)
  page.histogram(OWN.eventLoopDelay, [], delay.seconds)
}

export async function writeTraffic(page: MetricsPage, traffic: ServiceTraffic): Promise<void> {
  await traffic.refresh()
  page.value(OWN.servicesLeftOut, [], traffic.leftOut)
  page.value(OWN.trafficFailures, [], traffic.failures)
  let written = 0
  for (const { namespace, name, counters } of traffic.totals) {
    if (++written % SERVICES_PER_TURN === 0) await nextTurn()
    const of = (counter: number): number => counters[counter] ?? 0
    page.value(OWN.serviceConnections, [namespace, name], of(CONNECTIONS))
    page.value(OWN.servicePackets, ['in', namespace, name], of(IN_PACKETS))
    page.value(OWN.servicePackets, ['out', namespace, name], of(OUT_PACKETS))
    page.value(OWN.serviceBytes, ['in', namespace, name], of(IN_BYTES))
    page.value(OWN.serviceBytes, ['out', namespace, name], of(OUT_BYTES))
  }
}

function writeTable(page: MetricsPage, table: CountedTable): void {
  const { counts } = table
  const { name } = table.table
  page.value(OWN.operations, ['add', 'failure', name], counts.addFailed)
  page.value(OWN.operations, ['add', 'success', name], counts.added)
  page.value(OWN.operations, ['remove', 'failure', name], counts.removeFailed)
  page.value(OWN.operations, ['remove', 'success', name], counts.removed)
  page.value(OWN.driftRepaired, [name], counts.repaired)
  page.value(OWN.readFailures, [name], counts.unreadable)
  page.value(OWN.tableEntries, [name], table.liveCount)
  page.value(OWN.tableWanted, [name], table.desiredCount)
  page.value(OWN.tableWaiting, [name], table.waitingCount)
}
