/**
 * What the end of a watch means for the next one: at once, or after a pause, and whether anybody has to hear of it.
 * As in client-go, only a failure and a watch that ended at once without having brought anything ask for a pause: a load
 * balancer that closes idle connections would otherwise make changes arrive as late as the longest pause.
 */
import type { CodedError } from '../../values/errors.ts'
import { ApiError } from '../api/api-error.ts'

export interface WatchEnd {
  /** Undefined: the server ended the watch in order. */
  readonly failure: CodedError | undefined
  /** Since the server let the watch go on, in milliseconds; undefined when it never did. */
  readonly livedMs: number | undefined
  /** Its resourceVersion moved. */
  readonly progressed: boolean
}

export interface Verdict {
  /** The next watch may begin at once, and the next pause is the shortest. */
  readonly isWell: boolean
  /** Undefined: nothing that anybody has to hear of. */
  readonly failure: CodedError | undefined
}

/** client-go's "very short watch" (handleAnyWatch): less than a second, and no event. */
const SHORT_MS = 1000

export class WatchEnds {
  readonly #healthyMs: number
  #earlyEnds = 0

  /** `healthyMs`: a watch that lived so long was healthy, whatever ended it. */
  constructor(healthyMs: number) {
    this.#healthyMs = healthyMs
  }

  /**
   * Orderly ends before `healthyMs` are reported from the second one in a row on; those that need no pause at the second,
   * the fourth, the eighth and so on, since something that closes idle connections goes on doing so.
   */
  judge({ failure, livedMs, progressed }: WatchEnd): Verdict {
    const isLong = (livedMs ?? 0) >= this.#healthyMs
    const hasLived = livedMs !== undefined && livedMs >= SHORT_MS
    if (failure !== undefined) {
      // What closes idle connections often does it without an orderly end.
      const isCut = failure.code === 'api-reset' && hasLived
      return { isWell: isLong || isCut, failure }
    }
    this.#earlyEnds = isLong ? 0 : this.#earlyEnds + 1
    const isWell = isLong || hasLived || (livedMs !== undefined && progressed)
    const count = this.#earlyEnds
    if (count < 2 || (isWell && (count & (count - 1)) !== 0)) return { isWell, failure: undefined }
    const message = `${count} watches in a row ended early without an error, this one after ${Math.round(livedMs ?? 0)} ms`
    return { isWell, failure: new ApiError('api-ended', message) }
  }
}
