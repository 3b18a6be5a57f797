/** What Services have chosen by annotations, and how many have chosen the same. */
import { CHOICE_NAMES, NO_CHOICES, type ServiceChoices } from '../service/annotations.ts'

export class OwnerChoices {
  /** Without those that have chosen nothing: nearly all. */
  readonly #choices = new Map<string, ServiceChoices>()

  set(owner: string, choices: ServiceChoices = NO_CHOICES): void {
    if (choices === NO_CHOICES) this.#choices.delete(owner)
    else this.#choices.set(owner, choices)
  }

  /** How many Services have made each choice in force, by the names in CHOICE_NAMES. */
  counts(): ReadonlyMap<string, number> {
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
