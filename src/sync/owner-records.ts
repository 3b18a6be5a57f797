/**
 * What is known of each owner (Service) since it was computed last: what it claims, which fields of
 * NodeContext that depends on, and what its annotations choose. What nearly all have is not stored.
 */
import { CHOICE_NAMES, NO_CHOICES, type ServiceChoices } from '../service/annotations.ts'
import type { Contribution } from '../service/contribution.ts'
import type { FrontendKey } from '../service/frontends.ts'
import { READS_ALL, READS_LOCAL_ADDRESSES } from '../service/node-context.ts'

const NO_KEYS: readonly FrontendKey[] = []

export class OwnerRecords {
  readonly #claimed = new Map<string, readonly FrontendKey[]>()
  /** Without owners that read READS_LOCAL_ADDRESSES only. */
  readonly #reads = new Map<string, number>()
  /** Without owners that have chosen nothing. */
  readonly #choices = new Map<string, ServiceChoices>()

  /** An owner is being computed: until that is done it may read anything. */
  begin(owner: string): void {
    this.#reads.set(owner, READS_ALL)
  }

  /** @param contribution undefined: the Service was deleted */
  set(owner: string, contribution: Contribution | undefined, claims: readonly FrontendKey[]): void {
    if (contribution === undefined) this.#claimed.delete(owner)
    else this.#claimed.set(owner, claims)
    const { reads = READS_LOCAL_ADDRESSES, choices = NO_CHOICES } = contribution ?? {}
    if (reads === READS_LOCAL_ADDRESSES) this.#reads.delete(owner)
    else this.#reads.set(owner, reads)
    if (choices === NO_CHOICES) this.#choices.delete(owner)
    else this.#choices.set(owner, choices)
  }

  /** What an owner claims, won or lost. */
  claimed(owner: string): readonly FrontendKey[] {
    return this.#claimed.get(owner) ?? NO_KEYS
  }

  /** READS_* bits. */
  reads(owner: string): number {
    return this.#reads.get(owner) ?? READS_LOCAL_ADDRESSES
  }

  /** How many owners have made each choice in force, by the names in CHOICE_NAMES. */
  choiceCounts(): ReadonlyMap<string, number> {
    // Services with equal annotations share their choices.
    const owners = new Map<ServiceChoices, number>()
    for (const choices of this.#choices.values()) owners.set(choices, (owners.get(choices) ?? 0) + 1)
    const counts = new Map(Object.values(CHOICE_NAMES).map((name) => [name, 0]))
    for (const [choices, count] of owners)
      for (const choice of Object.keys(choices) as (keyof ServiceChoices)[])
        counts.set(CHOICE_NAMES[choice], (counts.get(CHOICE_NAMES[choice]) ?? 0) + count)
    return counts
  }
}
