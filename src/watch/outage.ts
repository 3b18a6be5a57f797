/**
 * Says that the API server does not answer: a warning at once, then one a minute, and a line when it does again.
 * What could break: the three reflectors of a source fail together; they share one of these, so that they warn once.
 */
import type { ObjectKind } from '../service/objects.ts'
import type { CodedError } from '../values/errors.ts'
import type { Log } from '../values/log.ts'

/** Time between two warnings. */
const REPEAT_MS = 60_000

export class Outage {
  readonly #log: Log
  readonly #now: () => number
  readonly #failing = new Set<ObjectKind>()
  #sinceMs = 0
  #warnedMs = Number.NEGATIVE_INFINITY

  /** `now` is a clock in milliseconds that never goes back. */
  constructor(log: Log, now: () => number) {
    this.#log = log
    this.#now = now
  }

  /** A request for objects of this kind failed. */
  failed(kind: ObjectKind, error: CodedError, retryMs: number): void {
    const now = this.#now()
    if (this.#failing.size === 0) this.#sinceMs = now
    this.#failing.add(kind)
    if (now - this.#warnedMs < REPEAT_MS) return
    this.#warnedMs = now
    this.#log.warn('API server does not give objects', {
      kinds: [...this.#failing].join(','),
      reason: error.message,
      code: error.code,
      forSeconds: Math.round((now - this.#sinceMs) / 1000),
      retryMs,
    })
  }

  /** The server gives objects of this kind. */
  recovered(kind: ObjectKind): void {
    if (!this.#failing.delete(kind) || this.#failing.size > 0) return
    this.#log.info('API server gives objects again', { afterSeconds: Math.round((this.#now() - this.#sinceMs) / 1000) })
  }
}
