/**
 * Events on their way to the API server, and for a source that is none, Events as log lines.
 * What could break: whatever goes wrong here must disturb nothing: one request at a time, as many a second as configured,
 * tried again like client-go does, and then forgotten.
 */
import type { Log } from '../values/log.ts'
import type { ApiClient } from '../watch/api/api-client.ts'
import { ApiError } from '../watch/api/api-error.ts'
import type { EventRequest, Happening } from './event-objects.ts'
import { EventSeries, FINISH_MS, type SeriesKey } from './event-series.ts'
import { errorText } from '../values/errors.ts'

/** Takes what happened. Never throws, never waits. */
export interface Events {
  record(happening: Happening): void
  /** Nothing is sent any more; resolves when nothing is under way. */
  close(): Promise<void>
}

export interface EventRecorderOptions {
  /** For Events alone; closed with the recorder. */
  readonly client: Pick<ApiClient, 'write' | 'invalidateCredentials' | 'close'>
  /** Name of the machine. */
  readonly hostName: string
  readonly log: Log
  /** `clientConnection`: requests a second, and how many may come at once. Negative qps: no limit. Defaults 5 and 10. */
  readonly qps?: number
  readonly burst?: number
  /** Time before another try, in milliseconds, up to a quarter of it added at random; default 10,000 as client-go. */
  readonly retryMs?: number
}

interface Pending {
  tries: number
  /** When it may be sent, on the clock that never goes back. */
  dueMs: number
}

/** As client-go. */
const MAX_TRIES = 12

export class EventRecorder implements Events {
  readonly #options: EventRecorderOptions
  readonly #series: EventSeries
  /** Never more than there are series. */
  readonly #pending = new Map<SeriesKey, Pending>()
  readonly #abort = new AbortController()
  readonly #sweeps: NodeJS.Timeout
  #timer: NodeJS.Timeout | undefined
  #sending: Promise<void> | undefined
  /** When the bucket of the rate limit is full again. */
  #fullMs = 0

  constructor(options: EventRecorderOptions) {
    this.#options = options
    this.#series = new EventSeries(options.hostName)
    this.#sweeps = setInterval(() => this.#sweep(), FINISH_MS).unref()
  }

  record(happening: Happening): void {
    logHappening(this.#options.log, happening)
    const key = this.#series.record(happening, Date.now())
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

  /** Sends what is due first as soon as it is due; one at a time. */
  #schedule(): void {
    if (this.#sending !== undefined || this.#abort.signal.aborted) return
    clearTimeout(this.#timer)
    const first = this.#first()
    if (first === undefined) return
    const waitMs = Math.max(first.dueMs, this.#allowedMs()) - performance.now()
    this.#timer = setTimeout(
      () => {
        this.#sending = this.#send(first.key).finally(() => {
          this.#sending = undefined
          this.#schedule()
        })
      },
      Math.max(waitMs, 0),
    ).unref()
  }

  #first(): { readonly key: SeriesKey; readonly dueMs: number } | undefined {
    let first: { readonly key: SeriesKey; readonly dueMs: number } | undefined
    for (const [key, { dueMs }] of this.#pending) if (first === undefined || dueMs < first.dueMs) first = { key, dueMs }
    return first
  }

  get #intervalMs(): number {
    const { qps = 5 } = this.#options
    return qps > 0 ? 1000 / qps : 0
  }

  /** When the rate limit lets another request through. */
  #allowedMs(): number {
    return this.#fullMs - (Math.max(this.#options.burst ?? 10, 1) - 1) * this.#intervalMs
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
      await this.#request(request)
    } catch (error) {
      const anew = request.method === 'PATCH' && statusOf(error) === 404 ? this.#series.requestAnew(key) : undefined
      if (anew === undefined) throw error
      await this.#request(anew)
    }
  }

  async #request({ method, path, contentType, body }: EventRequest): Promise<void> {
    this.#fullMs = Math.max(this.#fullMs, performance.now()) + this.#intervalMs
    await this.#options.client.write(method, path, { contentType, body: JSON.stringify(body) }, this.#abort.signal)
  }

  #failed(key: SeriesKey, pending: Pending, count: number, error: unknown): void {
    const { client, retryMs = 10_000, log } = this.#options
    const status = statusOf(error)
    if (status === 401) client.invalidateCredentials()
    // It is there: an answer was lost, or somebody was quicker.
    if (status === 409) this.#series.settle(key, 1, Date.now())
    const isDone = status === 409 && count === 1
    pending.tries++
    const again = !isDone && mayRetry(status) && pending.tries < MAX_TRIES
    const askedMs = error instanceof ApiError ? error.retryAfterMs : 0
    const delayMs = Math.max(askedMs, retryMs * (1 + Math.random() / 4))
    if (again) pending.dueMs = performance.now() + delayMs
    else this.#settle(key, count)
    if (isDone) return
    const reason = errorText(error)
    log.verbose(2, 'Cannot write an event', { event: key, reason, retryMs: again ? Math.round(delayMs) : undefined })
  }

  #settle(key: SeriesKey, count: number): void {
    this.#pending.delete(key)
    this.#series.settle(key, count, Date.now())
    // The second time came while the first was on its way.
    if (count === 1 && this.#series.count(key) > 1) this.#enqueue(key)
  }
}

/** Events where nobody takes them: lines at verbosity 2. */
export function loggedEvents(log: Log): Events {
  return { record: (happening) => logHappening(log, happening), close: async () => undefined }
}

function logHappening(log: Log, { regarding, type, reason, action, note }: Happening): void {
  const { kind, namespace, name } = regarding
  const object = namespace === undefined ? name : `${namespace}/${name}`
  log.verbose(2, 'Event occurred', { object, kind, type, reason, action, note })
}

/** HTTP status of a refusal; 0 when there was no answer. */
function statusOf(error: unknown): number {
  return error instanceof ApiError ? error.status : 0
}

/** A request that the server does not like it will not like later; anything else may pass. */
function mayRetry(status: number): boolean {
  return status < 400 || status >= 500 || [401, 408, 409, 429].includes(status)
}
