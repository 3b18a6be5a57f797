/**
 * Collects garbage while the program has nothing to do, or once a minute if it always has. A burst
 * of changes leaves much garbage, and a full collection in the middle of it makes its changes wait;
 * so V8 may let the heap grow by half before it collects by itself (process.ts), and this collects
 * before that.
 * @impure
 */
import { getHeapStatistics } from 'node:v8'
import type { Clock } from '../values/clock.ts'
import { collectInSteps } from './process.ts'

/** Without work for this long nothing is under way. */
const REST_MS = 2_000
/** Where work never pauses, the heap is looked at after this time all the same. */
const BUSY_MS = 60_000
/** A collection has ended by then. */
const COLLECTING_MS = 5_000
/** Growth of the heap that is worth a collection: a tenth, and more than the young generation has by itself. */
const GROWTH = 1.1
const YOUNG_BYTES = 6 * 1024 * 1024

/** What tests replace. */
export interface CollectionOptions {
  readonly collect?: () => void
  readonly usedBytes?: () => number
  readonly now?: Clock
}

export class CollectionAtRest {
  readonly #collect: () => void
  readonly #usedBytes: () => number
  readonly #now: Clock
  #timer: NodeJS.Timeout | undefined
  /** Bytes in use after the last collection while the program was idle. Undefined before `open`. */
  #baselineBytes: number | undefined
  /** When the timer was first set that has not run since. */
  #waitsSinceMs: number | undefined
  #isCollecting = false
  #workedBesideCollection = false
  /** The last collection was followed by another one because of work beside it. */
  #isRepeated = false

  constructor({
    collect = collectInSteps,
    usedBytes = () => getHeapStatistics().used_heap_size,
    now = () => performance.now(),
  }: CollectionOptions = {}) {
    this.#collect = collect
    this.#usedBytes = usedBytes
    this.#now = now
  }

  /**
   * To be called when the collections of the start have ended; before that `worked` does nothing,
   * and its garbage counts as in use.
   */
  open(): void {
    this.#baselineBytes = this.#usedBytes()
  }

  /** A pass or an audit has ended. */
  worked(): void {
    if (this.#baselineBytes === undefined) return
    if (this.#isCollecting) {
      this.#workedBesideCollection = true
      return
    }
    // A timer after each audit would wake a program that rests.
    if (!this.#hasGrown()) return
    const nowMs = this.#now()
    this.#waitsSinceMs ??= nowMs
    const leftMs = this.#waitsSinceMs + BUSY_MS - nowMs
    // The timer is due, so it must run now. Passes that follow each other at once would postpone it forever.
    if (leftMs <= 0) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#rest(), Math.min(REST_MS, leftMs))
    this.#timer.unref()
  }

  /** Whether a collection is worth it. Lowers the baseline if less is in use: V8 has collected by itself. */
  #hasGrown(): boolean {
    const usedBytes = this.#usedBytes()
    this.#baselineBytes = Math.min(this.#baselineBytes ?? usedBytes, usedBytes)
    return usedBytes > this.#baselineBytes * GROWTH + YOUNG_BYTES
  }

  #rest(): void {
    this.#waitsSinceMs = undefined
    // The young generation may have been collected meanwhile.
    if (!this.#hasGrown()) return
    this.#collect()
    this.#isCollecting = true
    this.#workedBesideCollection = false
    setTimeout(() => this.#collected(), COLLECTING_MS).unref()
  }

  #collected(): void {
    this.#isCollecting = false
    // Work beside a collection leaves garbage, which must not become the baseline. Where work never
    // pauses, that cannot be avoided.
    this.#isRepeated = this.#workedBesideCollection && !this.#isRepeated
    if (this.#isRepeated) this.worked()
    else this.#baselineBytes = this.#usedBytes()
  }
}
