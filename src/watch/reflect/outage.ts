/**
 * Says that the API server does not give objects of a kind: at once, then once a minute, and a line when it does again.
 * What could break: kube-proxy says nothing while a connection is refused and floods the log otherwise; here one line a
 * minute for each kind is all, however often it is tried.
 */
import type { ObjectKind } from '../../service/objects.ts'
import type { CodedError } from '../../values/errors.ts'
import type { Log } from '../../values/log.ts'
import type { Clock } from '../../values/clock.ts'

/** Time between two lines of one kind. */
const REPEAT_MS = 60_000

/** Kubernetes' own names, which people look for in the log. */
const TYPES: Readonly<Record<ObjectKind, string>> = {
  nodes: '*v1.Node',
  services: '*v1.Service',
  endpointslices: '*v1.EndpointSlice',
}

interface Failing {
  readonly sinceMs: number
  readonly warnedMs: number
}

export class Outage {
  readonly #log: Log
  readonly #now: Clock
  readonly #failing = new Map<ObjectKind, Failing>()

  /** `now` is a clock in milliseconds that never goes back. */
  constructor(log: Log, now: Clock) {
    this.#log = log
    this.#now = now
  }

  /** A request for objects of this kind failed. */
  failed(kind: ObjectKind, error: CodedError, retryMs: number): void {
    const now = this.#now()
    const { sinceMs, warnedMs } = this.#failing.get(kind) ?? { sinceMs: now, warnedMs: Number.NEGATIVE_INFINITY }
    if (now - warnedMs < REPEAT_MS) return
    this.#failing.set(kind, { sinceMs, warnedMs: now })
    const type = TYPES[kind]
    this.#log.error('Failed to watch', {
      error: `failed to list ${type}: ${error.message}`,
      type,
      code: error.code,
      forSeconds: Math.round((now - sinceMs) / 1000),
      retryMs,
    })
  }

  /** The server gives objects of this kind. */
  recovered(kind: ObjectKind): void {
    const failing = this.#failing.get(kind)
    if (failing === undefined) return
    this.#failing.delete(kind)
    const afterSeconds = Math.round((this.#now() - failing.sinceMs) / 1000)
    this.#log.info('API server gives objects again', { type: TYPES[kind], afterSeconds })
  }
}
