/** New TCP connections at a steady rate, each with one question: counts them, and keeps what failed. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Cluster, From } from './cluster.ts'
import type { Place } from './net-namespace.ts'

/** From the start of one connection to the next. */
const PERIOD_MS = 20

export class NewConnections {
  readonly #abort = new AbortController()
  readonly #open = new Set<Promise<void>>()
  readonly #running: Promise<void>
  /** Connections that have ended, with or without an answer. */
  count = 0
  /** Frontend and outcome of each connection that no pod answered. */
  readonly failures: string[] = []

  /** Connects to each place in turn until `stop`. */
  constructor(cluster: Cluster, from: From, places: readonly Place[]) {
    this.#running = this.#run(cluster, from, places)
  }

  async #run(cluster: Cluster, from: From, places: readonly Place[]): Promise<void> {
    const { signal } = this.#abort
    for (let index = 0; !signal.aborted; index++) {
      const place = places[index % places.length]
      if (place === undefined) return
      const asked = this.#ask(cluster, from, place).finally(() => this.#open.delete(asked))
      this.#open.add(asked)
      await sleep(PERIOD_MS, undefined, { signal }).catch(() => undefined)
    }
  }

  async #ask(cluster: Cluster, from: From, place: Place): Promise<void> {
    const outcome = await cluster.ask(from, place).catch((error: unknown) => String(error))
    this.count++
    if (!/^[a-c] /.test(outcome)) this.failures.push(`${place.address} ${place.port}: ${outcome}`)
  }

  /** Resolves when the last connection has ended. */
  async stop(): Promise<void> {
    this.#abort.abort()
    await this.#running
    await Promise.all(this.#open)
  }
}
