/**
 * What only iptables mode counts: a sync writes the rules of one IP family, either all of them
 * (full) or those that changed (partial).
 */
import type { IpFamily } from '../values/protocol.ts'
import { Histogram, SYNC_SECONDS } from './histogram.ts'

/** The result of one pass over the rules of one IP family. */
export interface RulePass {
  /** The pass read all rules first: the first pass, and one after a failure or a foreign change. */
  readonly full: boolean
  readonly changed: boolean
  readonly failed: boolean
  readonly durationMs: number
}

export class RuleCounts {
  readonly fullSeconds = new Histogram(SYNC_SECONDS)
  readonly partialSeconds = new Histogram(SYNC_SECONDS)
  partialFailures = 0

  /** Counts one pass. A pass that only read the rules and changed nothing is no sync. */
  passed({ full, changed, failed, durationMs }: RulePass): void {
    if (failed && !full) this.partialFailures++
    if (failed || changed) (full ? this.fullSeconds : this.partialSeconds).observe(durationMs / 1000)
  }
}

/** What a scrape reads of the rules of one IP family; rules are counted by iptables table. */
export interface FamilyRules {
  readonly family: IpFamily
  readonly counts: RuleCounts
  /** Rules in the last restore, and all rules that kube-ipvs owns. */
  readonly written: () => ReadonlyMap<string, number>
  readonly owned: () => ReadonlyMap<string, number>
}

/** Packets that matched two of the rules. */
export interface CountedPackets {
  readonly invalidDropped: number
  readonly loopbackAccepted: number
}
