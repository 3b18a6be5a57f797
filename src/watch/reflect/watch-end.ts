/**
 * Judges the end of a watch: whether the next one starts at once or after a wait, and whether the
 * end is reported. As in client-go only a failure and a very short watch without events cause a
 * wait. Otherwise a load balancer that closes idle connections would delay changes by up to the
 * longest wait.
 */
import type { CodedError } from '../../values/errors.ts'
import { ApiError } from '../api/api-error.ts'

export interface WatchEnd {
  /** Undefined when the server ended the watch without an error. */
  readonly failure: CodedError | undefined
  /** How long the watch delivered changes, in milliseconds; undefined when it never did. */
  readonly livedMs: number | undefined
  /** Its resourceVersion changed. */
  readonly progressed: boolean
}

export interface Verdict {
  /** The next watch may start at once, and the backoff starts again with its first wait. */
  readonly isHealthy: boolean
  /** The failure to report; undefined for none. */
  readonly failure: CodedError | undefined
}

/** client-go's "very short watch" (handleAnyWatch): less than a second, and no event. */
const SHORT_MS = 1000

export class WatchEnds {
  readonly #healthyMs: number
  #earlyEnds = 0

  /** @param healthyMs a watch that lasted this long was healthy, even if it ended with an error */
  constructor(healthyMs: number) {
    this.#healthyMs = healthyMs
  }

  /**
   * An early end (before `healthyMs`) without an error is reported if it is at least the second in
   * a row. Ends that cause no wait are reported at the second, fourth, eighth and so on, because a
   * program that closes idle connections does so all the time.
   */
  judge({ failure, livedMs, progressed }: WatchEnd): Verdict {
    const isLong = (livedMs ?? 0) >= this.#healthyMs
    const hasLived = livedMs !== undefined && livedMs >= SHORT_MS
    if (failure !== undefined) {
      // A program that closes idle connections often resets them. A server that is dead has another
      // one beside it, or none.
      const isCut = (failure.code === 'api-reset' || failure.code === 'api-dead') && hasLived
      return { isHealthy: isLong || isCut, failure }
    }
    this.#earlyEnds = isLong ? 0 : this.#earlyEnds + 1
    const isHealthy = isLong || hasLived || (livedMs !== undefined && progressed)
    const count = this.#earlyEnds
    if (count < 2 || (isHealthy && (count & (count - 1)) !== 0)) return { isHealthy, failure: undefined }
    const message = `${count} watches in a row ended early without an error, this one after ${Math.round(livedMs ?? 0)} ms`
    return { isHealthy, failure: new ApiError('api-ended', message) }
  }
}
