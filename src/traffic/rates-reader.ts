/**
 * Reads again and again, and makes rates of each two reads.
 * @impure
 */
import type { TrafficReader } from './open-traffic.ts'
import { placesByUse, type SortKey } from './rows.ts'
import { type Rates, ratesBetween, type Sample } from './sample.ts'

export interface NextOptions {
  /** The real servers of what is most by this are read first. */
  readonly sort: SortKey
  /** False: no real servers are read, because their rates and connections are not needed yet. */
  readonly withRealServers: boolean
  /** Longest time for real servers, in milliseconds; absent: any. */
  readonly budgetMs?: number | undefined
  readonly signal: AbortSignal
}

export class RatesReader {
  readonly #reader: Pick<TrafficReader, 'read'>
  #before: Sample | undefined
  #rates: Rates | undefined

  constructor(reader: Pick<TrafficReader, 'read'>) {
    this.#reader = reader
  }

  /** The rates since the read before; undefined after the first. */
  async next({ sort, withRealServers, budgetMs, signal }: NextOptions): Promise<Rates | undefined> {
    const choose = (sample: Sample): readonly string[] =>
      withRealServers ? placesByUse(this.#rates, sample, sort) : []
    const sample = await this.#reader.read({ choose, budgetMs, signal })
    this.#rates = this.#before && ratesBetween(this.#before, sample)
    this.#before = sample
    return this.#rates
  }
}
