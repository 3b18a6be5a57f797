/**
 * Writes the metrics of kube-ipvs itself, from numbers that the program keeps anyway.
 * @impure
 */
import type { AuditCounts, EventLoopDelay } from './counts.ts'
import { OWN } from './own-families.ts'
import type { MetricsPage } from './page.ts'
import { CONNECTIONS, IN_BYTES, IN_PACKETS, OUT_BYTES, OUT_PACKETS, type ServiceTraffic } from './service-traffic.ts'
import type { CountedTable, Sources } from './sources.ts'
import type { SyncCounts } from './sync-counts.ts'
import { newBudget } from '../values/event-loop.ts'

/** Writes what a scrape reads from the rest of the program. */
export function writeOwn(page: MetricsPage, sources: Sources): void {
  const { ipvs } = sources
  page.value(OWN.build, [sources.kernelRelease, process.version, sources.version], 1)
  const { active, configured, reason } = sources.mode
  page.value(OWN.mode, [active, configured, reason], 1)
  const { firewall } = sources
  if (firewall !== undefined) page.value(OWN.firewall, [firewall.active, firewall.configured, firewall.reason], 1)
  page.value(OWN.services, [], sources.serviceCount())
  page.value(OWN.conflicts, [], sources.conflictCount())
  const { total, limit, leftOut } = sources.room()
  page.value(OWN.roomUsed, [], total)
  page.value(OWN.roomLimit, [], limit)
  page.value(OWN.frontendsLeftOut, [], leftOut.frontends)
  page.value(OWN.servicesShort, [], leftOut.services)
  page.value(OWN.heapUsed, [], process.memoryUsage().heapUsed)
  page.value(OWN.realServers, [], ipvs?.realServerCount() ?? 0)
  page.value(OWN.realServersDraining, [], ipvs?.drainingCount() ?? 0)
  const { idle, deadline } = ipvs?.drainsFinished() ?? { idle: 0, deadline: 0 }
  page.value(OWN.drains, ['idle'], idle)
  page.value(OWN.drains, ['deadline'], deadline)
  if (sources.local.isOpen !== undefined) page.value(OWN.localSocket, [], sources.local.isOpen ? 1 : 0)
  for (const [code, answers] of sources.local.answers) page.value(OWN.localAnswers, [String(code)], answers)
  const { count, begun } = ipvs?.slowStarts() ?? { count: 0, begun: 0 }
  page.value(OWN.realServersStarting, [], count)
  page.value(OWN.slowStarts, [], begun)
  const outliers = ipvs?.outliers() ?? { count: 0, decisions: {}, serversRead: 0 }
  page.value(OWN.realServersSuspected, [], outliers.count)
  for (const [decision, times] of Object.entries(outliers.decisions))
    page.value(OWN.outlierDecisions, [decision], times)
  page.value(OWN.outlierReads, [], outliers.serversRead)
  page.value(OWN.labelledNodes, [], sources.labelledNodeCount())
  for (const [annotation, services] of sources.choiceCounts()) page.value(OWN.serviceChoices, [annotation], services)
  writeRelays(page, sources.relays())
  for (const table of sources.tables) writeTable(page, table)
  for (const { name, entries, maxEntries } of ipvs?.setSizes() ?? []) {
    page.value(OWN.setEntries, [name], entries)
    page.value(OWN.setMaxEntries, [name], maxEntries)
  }
  for (const { name, messagesSent, datagramsSent, datagramsReceived } of sources.connections()) {
    page.value(OWN.netlinkMessages, [name], messagesSent)
    page.value(OWN.netlinkDatagrams, [name, 'in'], datagramsReceived)
    page.value(OWN.netlinkDatagrams, [name, 'out'], datagramsSent)
  }
}

/** Writes what this folder counts itself. */
export function writeCounts(page: MetricsPage, sync: SyncCounts, audits: AuditCounts, delay: EventLoopDelay): void {
  page.value(OWN.syncFailures, ['tables'], sync.tableFailures)
  page.value(OWN.syncFailures, ['rules'], sync.ruleFailures)
  for (const [audit, seconds] of audits.seconds) page.histogram(OWN.auditDuration, [audit], seconds)
  for (const [audit, failures] of audits.failures) page.value(OWN.auditFailures, [audit], failures)
  page.histogram(OWN.eventLoopDelay, [], delay.seconds)
}

/** Writes the traffic of Services. Their number can be large, so it yields to the event loop in between. */
export async function writeTraffic(page: MetricsPage, traffic: ServiceTraffic): Promise<void> {
  await traffic.refresh()
  page.value(OWN.servicesLeftOut, [], traffic.leftOut)
  page.value(OWN.trafficFailures, [], traffic.failures)
  const budget = newBudget()
  for (const { namespace, name, counters } of traffic.totals) {
    if (budget.spentBySteps()) await budget.turn()
    const of = (counter: number): number => counters[counter] ?? 0
    page.value(OWN.serviceConnections, [namespace, name], of(CONNECTIONS))
    page.value(OWN.servicePackets, ['in', namespace, name], of(IN_PACKETS))
    page.value(OWN.servicePackets, ['out', namespace, name], of(OUT_PACKETS))
    page.value(OWN.serviceBytes, ['in', namespace, name], of(IN_BYTES))
    page.value(OWN.serviceBytes, ['out', namespace, name], of(OUT_BYTES))
  }
}

function writeRelays(page: MetricsPage, relays: ReturnType<Sources['relays']>): void {
  if (relays === undefined) return
  page.value(OWN.localhostNodePorts, ['failing'], relays.failing)
  page.value(OWN.localhostNodePorts, ['left-out'], relays.leftOut)
  page.value(OWN.localhostNodePorts, ['open'], relays.listening)
  page.value(OWN.localhostConnections, [], relays.connections)
  page.value(OWN.localhostConnectionsTotal, ['foreign'], relays.foreign)
  page.value(OWN.localhostConnectionsTotal, ['over-limit'], relays.overLimit)
  page.value(OWN.localhostConnectionsTotal, ['relayed'], relays.relayed)
  page.value(OWN.localhostConnectionsTotal, ['unreachable'], relays.unreachable)
}

function writeTable(page: MetricsPage, table: CountedTable): void {
  const { counts } = table
  const { name } = table.kind
  page.value(OWN.operations, ['add', 'failure', name], counts.addFailed)
  page.value(OWN.operations, ['add', 'success', name], counts.added)
  page.value(OWN.operations, ['remove', 'failure', name], counts.removeFailed)
  page.value(OWN.operations, ['remove', 'success', name], counts.removed)
  page.value(OWN.driftRepaired, [name], counts.repaired)
  page.value(OWN.rivalWrites, [name], counts.contested)
  page.value(OWN.readFailures, [name], counts.unreadable)
  page.value(OWN.tableEntries, [name], table.liveCount)
  page.value(OWN.tableWanted, [name], table.desiredCount)
  page.value(OWN.tableWaiting, [name], table.waitingCount)
}
