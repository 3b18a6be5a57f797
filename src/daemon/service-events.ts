/**
 * Events about Services that every node sees alike. Of the nodes that have endpoints, a few send
 * each of them (src/events/reporters.ts): all daemons watch the same EndpointSlices, so they agree
 * without a word, and no right to read Nodes is needed.
 */
import type { Occurrence } from '../events/event-objects.ts'
import type { Events } from '../events/event-recorder.ts'
import { Reporters } from '../events/reporters.ts'
import { newBudget } from '../values/event-loop.ts'
import type { Clock } from '../values/clock.ts'

export interface ServiceEventsOptions {
  readonly nodeName: string
  /** False: there is no API server, so no other daemon either. */
  readonly isShared: boolean
  readonly events: Events
  /** The nodes of all endpoints in the cluster, many of them often; called when there is an Event. */
  readonly endpointNodes: () => Iterable<string>
  readonly now: Clock
  /** Wait before an Event is sent, in milliseconds; default 1,000. */
  readonly waitMs?: number
}

/** The endpoints of Services that have just been seen may not be here yet, and a start has more urgent work. */
const WAIT_MS = 1000
/** The nodes that were found are used for this long. */
const FRESH_MS = 60_000
/** Most occurrences that wait; others are dropped, as in the recorder. */
const MAX_WAITING = 1000

export class ServiceEvents {
  readonly #options: ServiceEventsOptions
  #waiting: Occurrence[] = []
  #timer: NodeJS.Timeout | undefined
  #reporters: Reporters | undefined
  #freshUntilMs = Number.NEGATIVE_INFINITY
  #isClosed = false

  constructor(options: ServiceEventsOptions) {
    this.#options = options
  }

  /** Never throws and never waits. */
  record(occurrence: Occurrence): void {
    const { isShared, events, waitMs = WAIT_MS } = this.#options
    if (!isShared) return events.record(occurrence)
    if (this.#isClosed || this.#waiting.length >= MAX_WAITING) return
    this.#waiting.push(occurrence)
    if (this.#waiting.length === 1) this.#timer = setTimeout(() => void this.#send(), waitMs).unref()
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  async #send(): Promise<void> {
    const { events, now } = this.#options
    if (now() >= this.#freshUntilMs) {
      this.#reporters = await this.#find()
      this.#freshUntilMs = now() + FRESH_MS
    }
    if (this.#isClosed) return
    for (const occurrence of this.#waiting.splice(0)) {
      const { kind, namespace = '', name } = occurrence.regarding
      if (this.#reporters?.includes(`${kind} ${namespace}/${name}`) === true) events.record(occurrence)
    }
  }

  async #find(): Promise<Reporters> {
    const { nodeName, endpointNodes } = this.#options
    const budget = newBudget()
    const nodes = new Set<string>()
    for (const node of endpointNodes()) {
      nodes.add(node)
      if (budget.spentBySteps()) await budget.turn()
    }
    return new Reporters(nodeName, nodes)
  }
}
