/**
 * Clients that send requests all the time, each from the next address, because a scheduler that
 * hashes the client's address must see many of them. Every result is recorded.
 */
import { type Cluster, clientAddress, FURTHER_CLIENTS, type Outcome } from './cluster.ts'
import { familyOf } from '../../src/values/address.ts'
import type { Place } from './net-namespace.ts'

export class Load {
  readonly #cluster: Cluster
  readonly #places: readonly Place[]
  readonly #loops: Promise<void>[]
  #asked = 0
  #stopped = false
  #outcomes: Outcome[] = []
  #wake: () => void = () => undefined

  /** `clients` of them at the same time. */
  constructor(cluster: Cluster, places: readonly Place[], clients: number) {
    this.#cluster = cluster
    this.#places = places
    this.#loops = Array.from({ length: clients }, () => this.#run())
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      const number = this.#asked++
      const place = this.#places[number % this.#places.length]
      if (place === undefined) return
      const address = clientAddress(Math.floor(number / this.#places.length) % FURTHER_CLIENTS)[familyOf(place.address)]
      this.#outcomes.push(await this.#cluster.ask('client', place, { address }))
      this.#wake()
    }
  }

  /** Waits for at least this many more requests, and returns every result that was not returned before. */
  async take(count: number): Promise<Outcome[]> {
    const end = this.#outcomes.length + count
    while (this.#outcomes.length < end)
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    const taken = this.#outcomes
    this.#outcomes = []
    return taken
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await Promise.all(this.#loops)
  }
}
