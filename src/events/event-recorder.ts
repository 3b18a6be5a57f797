/**
 * Sends Events to the API server, or only logs them when the objects have another source. Events
 * must not disturb the rest of the program: one request at a time, limited per second, retried as
 * in client-go and then dropped. Events about this node are first, because anybody who may write
 * Services can cause others.
 * @impure
 */
import type { Log } from '../values/log.ts'
import type { ApiClient } from '../watch/api/api-client.ts'
import { ApiError } from '../watch/api/api-error.ts'
import type { EventRequest, Occurrence } from './event-objects.ts'
import { EventSeries, FINISH_MS, type SeriesKey } from './event-series.ts'
import { Rate } from './rate.ts'
import { errorText } from '../values/errors.ts'

/** Takes occurrences to report as Events. */
export interface Events {
  /** Never throws and never waits. */
  record(occurrence: Occurrence): void
  /** Stops sending; resolves when no request is in progress. */
  close(): Promise<void>
}

export interface EventRecorderOptions {
  /** A client for Events only, which the recorder closes. */
  readonly client: Pick<ApiClient, 'write' | 'invalidateCredentials' | 'close'>
  /** Name of the machine. */
  readonly hostName: string
  readonly log: Log
  /** `clientConnection.qps`: requests per second; negative: no limit. Default 5. */
  readonly qps?: number
  /** `clientConnection.burst`: requests that may be sent at once. Default 10. */
  readonly burst?: number
  /** Wait before a retry in milliseconds, plus a random part of up to a quarter; default 10,000, as in client-go. */
  readonly retryMs?: number
  /**
   * Time between two requests about Services, after a burst of them; default 10,000. Each node of a
   * large cluster may send some.
   */
  readonly serviceIntervalMs?: number
}

interface Pending {
  tries: number
  /** Earliest time of the next attempt, on the clock of `performance.now`. */
  dueMs: number
}

/** Attempts for one request, as in client-go. */
const MAX_TRIES = 12
/** The longest wait that the server may ask for; a timer of more than 24 days would end at once. */
const MAX_RETRY_AFTER_MS = 300_000
const SERVICE_INTERVAL_MS = 10_000
/** Requests about Services that may be sent at once. */
const SERVICE_BURST = 10

export class EventRecorder implements Events {
  readonly #options: EventRecorderOptions
  readonly #series: EventSeries
  /** Series to send; bounded by the number of series. */
  readonly #pending = new Map<SeriesKey, Pending>()
  readonly #abort = new AbortController()
  readonly #sweeps: NodeJS.Timeout
  #timer: NodeJS.Timeout | undefined
  #sending: Promise<void> | undefined
  /** One warning is enough: the right to write Events is missing, or a namespace is being deleted. */
  #hasWarned = false
  readonly #rate: Rate
  readonly #serviceRate: Rate

  constructor(options: EventRecorderOptions) {
    const { hostName, qps = 5, burst = 10, serviceIntervalMs = SERVICE_INTERVAL_MS } = options
    this.#options = options
    this.#series = new EventSeries(hostName)
    this.#rate = new Rate(qps > 0 ? 1000 / qps : 0, burst)
    this.#serviceRate = new Rate(serviceIntervalMs, SERVICE_BURST)
    this.#sweeps = setInterval(() => this.#sweep(), FINISH_MS).unref()
  }

  record(occurrence: Occurrence): void {
    logOccurrence(this.#options.log, occurrence)
    const key = this.#series.record(occurrence, Date.now())
    if (key !== undefined) this.#enqueue(key)
  }

  async close(): Promise<void> {
    this.#abort.abort()
    clearInterval(this.#sweeps)
    clearTimeout(this.#timer)
    await this.#sending
    await this.#options.client.close()
  }

  #sweep(): void {
    for (const key of this.#series.sweep(Date.now())) this.#enqueue(key)
  }

  #enqueue(key: SeriesKey): void {
    if (!this.#pending.has(key)) this.#pending.set(key, { tries: 0, dueMs: 0 })
    this.#schedule()
  }

  /** Sends the series that may be sent first, at its time, unless a request is in progress. */
  #schedule(): void {
    if (this.#sending !== undefined || this.#abort.signal.aborted) return
    clearTimeout(this.#timer)
    const nowMs = performance.now()
    const first = this.#first(nowMs)
    if (first === undefined) return
    this.#timer = setTimeout(() => {
      this.#sending = this.#send(first.key).finally(() => {
        this.#sending = undefined
        this.#schedule()
      })
    }, first.atMs - nowMs).unref()
  }

  /** The series that may be sent first, and when; of several at the same time one about this node. */
  #first(nowMs: number): { readonly key: SeriesKey; readonly atMs: number } | undefined {
    let first: { readonly key: SeriesKey; readonly atMs: number; readonly isOfNode: boolean } | undefined
    for (const [key, { dueMs }] of this.#pending) {
      const isOfNode = this.#series.isOfNode(key)
      const allowedMs = isOfNode ? this.#rate.nextMs : Math.max(this.#rate.nextMs, this.#serviceRate.nextMs)
      const atMs = Math.max(nowMs, dueMs, allowedMs)
      const isBefore = first === undefined || atMs < first.atMs || (atMs === first.atMs && isOfNode && !first.isOfNode)
      if (isBefore) first = { key, atMs, isOfNode }
    }
    return first
  }

  async #send(key: SeriesKey): Promise<void> {
    const pending = this.#pending.get(key)
    const request = this.#series.request(key)
    if (pending === undefined || request === undefined) {
      this.#pending.delete(key)
      return
    }
    const count = this.#series.count(key)
    try {
      await this.#write(key, request)
      this.#settle(key, count)
    } catch (error) {
      if (!this.#abort.signal.aborted) this.#failed(key, pending, count, error)
    }
  }

  async #write(key: SeriesKey, request: EventRequest): Promise<void> {
    try {
      await this.#request(key, request)
    } catch (error) {
      const isDeleted = request.method === 'PATCH' && statusOf(error) === 404
      const creation = isDeleted ? this.#series.recreateRequest(key) : undefined
      if (creation === undefined) throw error
      await this.#request(key, creation)
    }
  }

  async #request(key: SeriesKey, { method, path, contentType, body }: EventRequest): Promise<void> {
    const nowMs = performance.now()
    this.#rate.take(nowMs)
    if (!this.#series.isOfNode(key)) this.#serviceRate.take(nowMs)
    await this.#options.client.write(method, path, { contentType, body: JSON.stringify(body) }, this.#abort.signal)
  }

  #failed(key: SeriesKey, pending: Pending, count: number, error: unknown): void {
    const { client, retryMs = 10_000, log } = this.#options
    const status = statusOf(error)
    if (status === 401) client.invalidateCredentials()
    // The Event exists: the answer to an earlier attempt was lost, or another program created it.
    if (status === 409) this.#series.settle(key, 1, Date.now())
    const isDone = status === 409 && count === 1
    pending.tries++
    const retries = !isDone && mayRetry(status) && pending.tries < MAX_TRIES
    const requestedMs = error instanceof ApiError ? Math.min(error.retryAfterMs, MAX_RETRY_AFTER_MS) : 0
    const delayMs = Math.max(requestedMs, retryMs * (1 + Math.random() / 4))
    if (retries) pending.dueMs = performance.now() + delayMs
    else this.#settle(key, count)
    if (isDone) return
    const reason = errorText(error)
    if (status === 403 && !this.#hasWarned) {
      this.#hasWarned = true
      log.warn('The API server refuses Events, so only the log has them', { reason })
    }
    log.verbose(2, 'Cannot write an event', { event: key, reason, retryMs: retries ? Math.round(delayMs) : undefined })
  }

  #settle(key: SeriesKey, count: number): void {
    this.#pending.delete(key)
    this.#series.settle(key, count, Date.now())
    // The second occurrence was recorded while the first was being sent.
    if (count === 1 && this.#series.count(key) > 1) this.#enqueue(key)
  }
}

/** Events as log lines at verbosity 2, where no API server takes them. */
export function loggedEvents(log: Log): Events {
  return { record: (occurrence) => logOccurrence(log, occurrence), close: async () => undefined }
}

function logOccurrence(log: Log, { regarding, type, reason, action, note }: Occurrence): void {
  const { kind, namespace, name } = regarding
  const object = namespace === undefined ? name : `${namespace}/${name}`
  log.verbose(2, 'Event occurred', { object, kind, type, reason, action, note })
}

/** HTTP status of a failed request; 0 without an answer. */
function statusOf(error: unknown): number {
  return error instanceof ApiError ? error.status : 0
}

/** Client errors are not retried, except those that can succeed later. */
function mayRetry(status: number): boolean {
  return status < 400 || status >= 500 || [401, 408, 409, 429].includes(status)
}
