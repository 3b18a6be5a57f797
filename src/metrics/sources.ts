/**
 * What a scrape reads from the rest of the program: numbers that each part counts anyway. A scrape
 * can happen at any time, also in the middle of a pass, so reading them must change nothing.
 * @impure
 */
import type { RelayCounts } from '../relay/relay-counts.ts'
import type { LocalCounts } from './local-counts.ts'
import type { KeyState } from '../sync/plan.ts'
import type { TableCounts } from '../sync/table.ts'
import type { CountedPackets, FamilyRules } from './rule-counts.ts'
import type { ServiceTraffic, ServiceTrafficOptions } from './service-traffic.ts'

/** A table of the kernel. */
export interface CountedTable {
  readonly kind: { readonly name: string }
  readonly counts: Readonly<TableCounts>
  readonly liveCount: number
  readonly desiredCount: number
  readonly waitingCount: number
  /** Whether the whole table has been read, and not all of it was doubted since. */
  readonly isKnown: boolean
  /** The states of the keys as the mirror has them; no scrape asks for them. */
  states(): Iterable<KeyState>
}

/** The size of an ipset. */
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

export function countedConnection(
  name: string,
  { counters }: { readonly counters: Readonly<Omit<CountedConnection, 'name'>> },
): CountedConnection {
  return { name, ...counters }
}

/** What only iptables mode has: its rules are its whole sync. */
export interface RuleSources {
  readonly families: readonly FamilyRules[]
  /** Undefined where the kernel has no such counters. */
  readonly packets: () => Promise<CountedPackets | undefined>
}

/** What only ipvs mode has. */
export interface IpvsSources {
  /** Sets that are not empty. */
  readonly setSizes: () => readonly SetSize[]
  readonly realServerCount: () => number
  readonly drainingCount: () => number
  /** Finished drains by reason. */
  readonly drainsFinished: () => { readonly idle: number; readonly deadline: number }
  /** Real servers whose weight still rises, and slow starts that have begun. */
  readonly slowStarts: () => { readonly count: number; readonly begun: number }
  /** Outlier detection: real servers that are suspects or on trial, decisions by kind, and real servers read. */
  readonly outliers: () => {
    readonly count: number
    readonly decisions: Readonly<Record<string, number>>
    readonly serversRead: number
  }
  /** Visits the counters of every virtual server once. */
  readonly readTraffic: ServiceTrafficOptions['read']
}

/** The kernel side of a mode. */
export interface KernelSources {
  readonly tables: readonly CountedTable[]
  readonly connections: () => readonly CountedConnection[]
  /** Absent in ipvs mode. */
  readonly rules?: RuleSources
  /** Absent in iptables mode, where the page shows 0 real servers, drains and Services with traffic. */
  readonly ipvs?: IpvsSources
}

/** A feature gate of Kubernetes as `kubernetes_feature_enabled` shows it. */
export interface FeatureGate {
  readonly name: string
  /** `ALPHA`, `BETA`, `DEPRECATED`; '' for a gate that is generally available. */
  readonly stage: string
  readonly enabled: boolean
}

/** The configured mode, the one that runs, and why they differ; '' when they do not. */
export interface ModeLabels {
  readonly configured: string
  readonly active: string
  readonly reason: string
}

/** Everything that a scrape reads outside this folder. */
export interface Sources extends KernelSources {
  readonly version: string
  readonly kernelRelease: string
  readonly mode: ModeLabels
  /** The firewall of ipvs mode. */
  readonly firewall?: ModeLabels
  readonly featureGates: () => readonly FeatureGate[]
  readonly serviceCount: () => number
  readonly conflictCount: () => number
  /** What all Services have of the room of the node, what they may have, and what is left out. */
  readonly room: () => {
    readonly total: number
    readonly limit: number
    readonly leftOut: { readonly services: number; readonly frontends: number }
  }
  /** Nodes with a label that rules for weights name. */
  readonly labelledNodeCount: () => number
  /** Services by what they have chosen by annotation: the name of the annotation without its prefix. */
  readonly choiceCounts: () => ReadonlyMap<string, number>
  /** Node ports at 127.0.0.1 and ::1 by state, and connections to them; undefined while they are switched off. */
  readonly relays: () => RelayCounts | undefined
  readonly traffic: ServiceTraffic
  readonly local: Pick<LocalCounts, 'isOpen' | 'answers'>
}
