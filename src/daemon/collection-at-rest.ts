/**
 * Collects garbage while the program has nothing to do. A burst of changes leaves much garbage, and a full collection in the middle of it makes
 * its changes wait; so V8 may let the heap grow by half before it collects by itself (process.ts), and this collects before that.
 * @impure
 */
import { getHeapStatistics } from 'node:v8'
import { collectInSteps } from './process.ts'

/** Without a pass for this long nothing is under way. Where passes follow each other more closely, only V8 collects. */
const REST_MS = 2_000
/** A collection has ended by then. Passes meanwhile do not begin another one. */
const COLLECTING_MS = 5_000
/** Growth of the heap that is worth a collection: a tenth, and more than the young generation has by itself. */
const GROWTH = 1.1
const YOUNG_BYTES = 6 * 1024 * 1024

export class CollectionAtRest {
  readonly #collect: () => void
  readonly #usedBytes: () => number
  #timer: NodeJS.Timeout | undefined
  #isOpen = false
  /** Bytes in use after the last collection; undefined while they are not known yet. */
  #leastBytes: number | undefined

  /** Both parameters are for tests. */
  constructor(collect = collectInSteps, usedBytes = () => getHeapStatistics().used_heap_size) {
    this.#collect = collect
    this.#usedBytes = usedBytes
  }

  /** To be called when the collections of the start have ended; before that `worked` does nothing. */
  open(): void {
    this.#isOpen = true
    this.#leastBytes = this.#usedBytes()
  }

  /** A pass has ended. */
  worked(): void {
    if (this.#isOpen && this.#leastBytes !== undefined) this.#wait(REST_MS, () => this.#rest(this.#usedBytes()))
  }

  #rest(usedBytes: number): void {
    const leastBytes = Math.min(this.#leastBytes ?? usedBytes, usedBytes)
    this.#leastBytes = leastBytes
    if (usedBytes <= leastBytes * GROWTH + YOUNG_BYTES) return
    this.#collect()
    this.#leastBytes = undefined
    this.#wait(COLLECTING_MS, () => {
      this.#leastBytes = this.#usedBytes()
    })
  }

  #wait(ms: number, then: () => void): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(then, ms)
    this.#timer.unref()
  }
}
