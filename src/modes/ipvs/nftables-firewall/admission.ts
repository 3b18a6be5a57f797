/**
 * Which new virtual servers may take traffic: those whose table is in the kernel, and whose source
 * ranges are if they have some. Without the table virtual servers serve clients on this node and
 * most pods, with it also the others, so they do not wait for ever, as with the other firewall.
 */
import type { FrontendKey } from '../../../service/frontends.ts'
import { type Clock, earliest } from '../../../values/clock.ts'
import type { IpFamily } from '../../../values/protocol.ts'

/** A new virtual server waits for the table of its family this long, in milliseconds. */
export const TABLE_WAIT_MS = 15_000

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
  readonly #waits = new Map<IpFamily, { readonly untilMs: number; isOver: boolean }>()
  #hasChanged = false

  constructor(options: AdmissionOptions) {
    this.#options = options
  }

  /** The table of a family, or the source ranges of a frontend, have come into the kernel. */
  changed(): void {
    this.#hasChanged = true
  }

  /** Whether the answers of `mayAdd` have changed since the last call. */
  takeChanged(): boolean {
    const { now, isThere, onOverdue } = this.#options
    for (const [family, wait] of this.#waits) {
      if (isThere(family)) this.#waits.delete(family)
      else if (!wait.isOver && wait.untilMs <= now()) {
        wait.isOver = true
        this.#hasChanged = true
        onOverdue(family)
      }
    }
    const hasChanged = this.#hasChanged
    this.#hasChanged = false
    return hasChanged
  }

  /** When the next wait for a table ends; undefined: nothing waits for a table. */
  nextDueMs(): number | undefined {
    return earliest(...Array.from(this.#waits.values(), ({ untilMs, isOver }) => (isOver ? undefined : untilMs)))
  }

  /** A table that does not come is awaited for TABLE_WAIT_MS, source ranges without end. */
  mayAdd(key: FrontendKey, family: IpFamily): boolean {
    const { now, isThere, areRangesThere } = this.#options
    const areThere = areRangesThere(key)
    if (isThere(family)) return areThere !== false
    const wait = this.#waits.get(family)
    if (wait === undefined) this.#waits.set(family, { untilMs: now() + TABLE_WAIT_MS, isOver: false })
    return wait?.isOver === true && areThere === undefined
  }
}
