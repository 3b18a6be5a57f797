/**
 * Clients that send requests all the time, each from the next address, because a scheduler that
 * hashes the client's address must see many of them. Every result is recorded.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Cluster, clientAddress, FURTHER_CLIENTS, type Outcome } from './cluster.ts'
import { familyOf } from '../../src/values/address.ts'
import type { Place } from './net-namespace.ts'

/** Clients that asked again at once after a refusal would soon have used every source port, some of them twice. */
const REFUSED_MS = 20

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
      const outcome = await this.#cluster.ask('client', place, { address })
      this.#outcomes.push(outcome)
      this.#wake()
      if (outcome === 'refused') await sleep(REFUSED_MS)
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
