/**
 * Clients that send requests all the time, each from the next address, because a scheduler that
 * hashes the client's address must see many of them. Every result is recorded.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Cluster, clientAddress, FURTHER_CLIENTS, type Outcome } from './cluster.ts'
import { familyOf } from '../../src/values/address.ts'
import type { Place } from './net-namespace.ts'

/** What a client got, and the place of its request in the order in which the clients asked. */
interface Answer {
  readonly number: number
  readonly outcome: Outcome
}

/** The results since the last look: of requests that were sent before it began, and of those that were sent later. */
export interface Taken {
  readonly sentBefore: readonly Outcome[]
  readonly sentAfter: readonly Outcome[]
}

/** Clients that asked again at once after a refusal would soon have used every source port, some of them twice. */
const REFUSED_MS = 20

export class Load {
  readonly #cluster: Cluster
  readonly #places: readonly Place[]
  readonly #loops: Promise<void>[]
  #asked = 0
  #stopped = false
  #answers: Answer[] = []
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
      this.#answers.push({ number, outcome })
      this.#wake()
      if (outcome === 'refused') await sleep(REFUSED_MS)
    }
  }

  /**
   * Waits until `count` requests that clients send from now on have their results, and returns every
   * result that was not returned before. A request may be on its way for long on a busy machine, so
   * the order of the results does not say which request was sent before this call.
   */
  async take(count: number): Promise<Taken> {
    const first = this.#asked
    const results = (answers: readonly Answer[]): Outcome[] => answers.map(({ outcome }) => outcome)
    for (;;) {
      const after = this.#answers.filter(({ number }) => number >= first)
      if (after.length >= count) {
        const before = this.#answers.filter(({ number }) => number < first)
        this.#answers = []
        return { sentBefore: results(before), sentAfter: results(after) }
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await Promise.all(this.#loops)
  }
}
