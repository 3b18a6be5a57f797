/**
 * Which new virtual servers may take traffic: those whose table is in the kernel, and whose source
 * ranges are if they have some. Without the table virtual servers serve clients on this node and
 * most pods, with it also the others, so they do not wait for ever, as with the other firewall.
 */
import type { FrontendKey } from '../../../service/frontends.ts'
import type { Clock } from '../../../values/clock.ts'
import { IP_FAMILIES, type IpFamily } from '../../../values/protocol.ts'
import { FirewallWaits } from '../firewall-waits.ts'

export interface AdmissionOptions {
  readonly now: Clock
  /** The table of a family is missing for so long that new virtual servers are added without it; called once until it is there. */
  readonly onOverdue: (family: IpFamily) => void
  /** Whether the kernel has the table of a family with its sets and chains. */
  readonly isThere: (family: IpFamily) => boolean
  /** Whether the kernel has the source ranges of this frontend; undefined: it has none. */
  readonly areRangesThere: (key: FrontendKey) => boolean | undefined
}

export class Admission {
  readonly #options: AdmissionOptions
  readonly #waits: FirewallWaits<'table'>
  #hasChanged = false

  constructor(options: AdmissionOptions) {
    this.#options = options
    this.#waits = new FirewallWaits(options.now, options.onOverdue)
  }

  /** The table of a family, or the source ranges of a frontend, have come into the kernel. */
  changed(): void {
    this.#hasChanged = true
  }

  /** Whether the answers of `mayAdd` have changed since the last call. */
  takeChanged(): boolean {
    const { isThere } = this.#options
    for (const family of IP_FAMILIES) this.#waits.keep(family, () => !isThere(family))
    const isOver = this.#waits.takeEnded()
    const hasChanged = this.#hasChanged || isOver
    this.#hasChanged = false
    return hasChanged
  }

  /** When the next wait for a table ends; undefined: nothing waits for a table. */
  nextDueMs(): number | undefined {
    return this.#waits.nextEndMs()
  }

  /** A table that does not come is awaited for FIREWALL_WAIT_MS, source ranges without end. */
  mayAdd(key: FrontendKey, family: IpFamily): boolean {
    const { isThere, areRangesThere } = this.#options
    const areThere = areRangesThere(key)
    if (isThere(family)) return areThere !== false
    return this.#waits.isOver(family, 'table') && areThere === undefined
  }
}
