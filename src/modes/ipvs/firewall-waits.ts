/** How long new virtual servers wait for the parts of the firewall that they need, by family and need. */
import { type Clock, earliest } from '../../values/clock.ts'
import type { IpFamily } from '../../values/protocol.ts'

/** A wait lasts this long, in milliseconds. */
export const FIREWALL_WAIT_MS = 15_000

interface Wait {
  readonly untilMs: number
  isOver: boolean
}

export class FirewallWaits<Need extends string> {
  readonly #now: Clock
  readonly #onOver: (family: IpFamily) => void
  readonly #begun = new Map<IpFamily, Map<Need, Wait>>()

  /** @param onOver called for the first wait of a family that is over, and again once none of them is */
  constructor(now: Clock, onOver: (family: IpFamily) => void) {
    this.#now = now
    this.#onOver = onOver
  }

  /** Whether the wait for this need is over; begins it when it is new. */
  isOver(family: IpFamily, need: Need): boolean {
    const waits = this.#begun.get(family) ?? new Map<Need, Wait>()
    this.#begun.set(family, waits)
    const wait = waits.get(need)
    if (wait === undefined) waits.set(need, { untilMs: this.#now() + FIREWALL_WAIT_MS, isOver: false })
    return wait?.isOver === true
  }

  /** Forgets the waits for what is not missing any more. */
  keep(family: IpFamily, isMissing: (need: Need) => boolean): void {
    const waits = this.#begun.get(family)
    for (const need of waits?.keys() ?? []) if (!isMissing(need)) waits?.delete(need)
  }

  /** Ends the waits that are over; whether there were any. */
  takeEnded(): boolean {
    const nextMs = this.nextEndMs()
    if (nextMs === undefined || nextMs > this.#now()) return false
    const nowMs = this.#now()
    for (const [family, waits] of this.#begun) {
      const ended = Array.from(waits.values()).filter(({ isOver, untilMs }) => !isOver && untilMs <= nowMs)
      const isFirst = !Array.from(waits.values()).some(({ isOver }) => isOver)
      for (const wait of ended) wait.isOver = true
      if (ended.length > 0 && isFirst) this.#onOver(family)
    }
    return true
  }

  /** undefined: nothing waits. */
  nextEndMs(): number | undefined {
    const waits = Array.from(this.#begun.values()).flatMap((ofFamily) => Array.from(ofFamily.values()))
    return earliest(...waits.map(({ untilMs, isOver }) => (isOver ? undefined : untilMs)))
  }
}
