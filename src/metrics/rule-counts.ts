/**
 * What only iptables mode counts: writing rules is its sync, of everything or of what changed.
 * What could break: all of this is read at a scrape; a pass adds a few numbers.
 */
import type { IpFamily } from '../values/protocol.ts'
import { SYNC_SECONDS } from './buckets.ts'
import { Histogram } from './histogram.ts'

/** How one pass over the rules of a family went. */
export interface RulePass {
  /** All rules were read first: the first pass, one after a failure, and one after a doubt. */
  readonly full: boolean
  readonly changed: boolean
  readonly failed: boolean
  readonly durationMs: number
}

export class RuleCounts {
  readonly fullSeconds = new Histogram(SYNC_SECONDS)
  readonly partialSeconds = new Histogram(SYNC_SECONDS)
  partialFailures = 0

  /** One that only looked, and found everything as it shall be, is no sync. */
  passed({ full, changed, failed, durationMs }: RulePass): void {
    if (failed && !full) this.partialFailures++
    if (failed || changed) (full ? this.fullSeconds : this.partialSeconds).observe(durationMs / 1000)
  }
}

/** What a scrape reads of the rules of one family, by table of iptables. */
export interface FamilyRules {
  readonly family: IpFamily
  readonly counts: RuleCounts
  /** Rules in the last restore, and all that are ours. */
  readonly written: () => ReadonlyMap<string, number>
  readonly owned: () => ReadonlyMap<string, number>
}

/** Packets that the counters of rules have seen. */
export interface CountedPackets {
  readonly invalidDropped: number
  readonly loopbackAccepted: number
}
