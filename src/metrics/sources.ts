/**
 * What a scrape reads from the rest of the program: numbers that are counted anyway, where they are counted.
 * What could break: a scrape may come at any time, in the middle of a pass too, and may change nothing.
 */
import type { TableCounts } from '../sync/table-counts.ts'
import type { CountedPackets, FamilyRules } from './rule-counts.ts'
import type { ServiceTraffic, ServiceTrafficOptions } from './service-traffic.ts'

/** A table of the kernel. */
export interface CountedTable {
  readonly table: { readonly name: string }
  readonly counts: Readonly<TableCounts>
  readonly liveCount: number
  readonly desiredCount: number
  readonly waitingCount: number
}

export interface SetSize {
  readonly name: string
  readonly entries: number
  readonly maxEntries: number
}

/** A connection to the kernel, under a name of ours. */
export interface CountedConnection {
  readonly name: string
  readonly messagesSent: number
  readonly datagramsSent: number
  readonly datagramsReceived: number
}

/** Where rules are the whole of a sync: iptables mode. */
export interface RuleSources {
  readonly families: readonly FamilyRules[]
  /** Undefined where the kernel has no such counters. */
  readonly packets: () => Promise<CountedPackets | undefined>
}

/** What the kernel side of a mode tells. */
export interface KernelSources {
  readonly tables: readonly CountedTable[]
  /** Sets that are not empty. */
  readonly setSizes: () => readonly SetSize[]
  readonly realServerCount: () => number
  readonly drainingCount: () => number
  /** Drains that ended, by reason. */
  readonly drainsFinished: () => { readonly idle: number; readonly deadline: number }
  readonly connections: () => readonly CountedConnection[]
  readonly rules?: RuleSources
  /** Visits the counters of every virtual server once; absent: there are none. */
  readonly readTraffic?: ServiceTrafficOptions['read']
}

export interface Sources extends Omit<KernelSources, 'readTraffic'> {
  readonly version: string
  readonly kernelRelease: string
  /** `featureGates` of the configuration. */
  readonly featureGates: Readonly<Record<string, boolean>>
  readonly serviceCount: () => number
  readonly conflictCount: () => number
  readonly traffic: ServiceTraffic
}
