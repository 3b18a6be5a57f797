/** The Service ports of virtual servers, as the daemon knows them; asked again when there are new virtual servers. */
import { type DaemonClient, isUnknown } from '../inspect/daemon-client.ts'
import type { Clock } from '../values/clock.ts'

/** How long names are used, in milliseconds: with keys that have none, and without. */
const AGAIN_MS = { unnamed: 10_000, named: 60_000 } as const

export class ServiceNames {
  readonly #daemon: Pick<DaemonClient, 'names'>
  readonly #now: Clock
  #names: ReadonlyMap<string, { readonly servicePort: string }> = new Map()
  #reason: string | undefined
  #askedMs = Number.NEGATIVE_INFINITY

  constructor(daemon: Pick<DaemonClient, 'names'>, now: Clock) {
    this.#daemon = daemon
    this.#now = now
  }

  /** Why no names are known; undefined: they are. */
  get reason(): string | undefined {
    return this.#reason
  }

  nameOf = (key: string): string | undefined => this.#names.get(key)?.servicePort

  /** Asks the daemon if it may know more by now. Names that are known stay when it does not answer. */
  async refresh(keys: Iterable<string>): Promise<void> {
    const isNamed = Array.from(keys).every((key) => this.#names.has(key))
    if (this.#now() - this.#askedMs < (isNamed ? AGAIN_MS.named : AGAIN_MS.unnamed)) return
    const answer = await this.#daemon.names()
    this.#askedMs = this.#now()
    if (!isUnknown(answer)) {
      this.#names = answer
      this.#reason = undefined
    } else if (this.#names.size === 0) this.#reason = answer.reason
  }
}
