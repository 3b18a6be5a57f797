/**
 * Keeps the sink up to date with one kind of objects: a streaming list that continues as a watch
 * (KEP-3157), or a paged list and a watch for servers that cannot stream. `#version`, from which
 * the next watch continues, moves only when everything before it has been delivered. A server that
 * answers and then fails at once gets requests at growing intervals.
 * @impure
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ObjectChange, ObjectKind } from '../../service/objects.ts'
import type { Budget } from '../../values/budget.ts'
import { newBudget } from '../../values/event-loop.ts'
import { CodedError } from '../../values/errors.ts'
import type { ApiClient } from '../api/api-client.ts'
import { ApiError } from '../api/api-error.ts'
import { Backoff } from '../../values/backoff.ts'
import { listPages } from './list-pages.ts'
import { applyEvents, ObjectStore, type WatchOutcome } from './object-store.ts'
import { streamingListQuery, watchQuery } from './queries.ts'
import { type ReflectorTimes, reflectorTimes } from './reflector-times.ts'
import type { Selection } from '../objects/selection.ts'
import type { ObjectSink } from '../source.ts'
import { WatchEnds } from './watch-end.ts'
import type { Clock } from '../../values/clock.ts'

export interface ReflectorOptions {
  readonly kind: ObjectKind
  readonly selection: Selection
  /** The labels of Nodes that are kept; absent: none. */
  readonly labels?: ReadonlySet<string>
  readonly client: Pick<ApiClient, 'list' | 'watch' | 'invalidateCredentials'>
  readonly sink: ObjectSink
  readonly now: Clock
  /** A number from 0 to 1, 1 excluded. */
  readonly random: () => number
  readonly times?: ReflectorTimes
  /** Waits before the next request, until aborted; never rejects. Tests replace it. */
  readonly wait?: (milliseconds: number, signal: AbortSignal) => Promise<void>
  /**
   * A request failed; the next one follows in `retryMs`. `healthy`: a watch ended that had worked,
   * which needs no attention.
   */
  readonly onFailure: (error: CodedError, retryMs: number, healthy: boolean) => void
  /** The server answers: a list is complete or a watch has started. */
  readonly onHealthy: () => void
}

/** Most objects of a list that are delivered in one call. */
const MAX_DELIVERY = 100
/** Longest wait that a server may ask for. */
const MAX_RETRY_AFTER_MS = 300_000

export class Reflector {
  readonly #options: ReflectorOptions
  readonly #store: ObjectStore
  readonly #backoff: Backoff
  readonly #abort = new AbortController()
  #running: Promise<void> | undefined
  readonly #times: Required<ReflectorTimes>
  readonly #ends: WatchEnds
  /** The resourceVersion from which the next watch continues; '' when a list is needed first. */
  #version = ''
  /** The next list is paged, because the server refused the last streaming list. */
  #pagedNext = false
  #listed = false
  /** The current or last request is a streaming list that is not complete. */
  #streamingList = false
  /** When the present watch started to deliver changes; undefined before that. */
  #aliveSinceMs: number | undefined
  /** How long the last watches were silent, one after the other. */
  #silentMs = 0
  /** The resourceVersion at which the present watch started. */
  #versionBefore = ''
  readonly #budget: Budget

  constructor(options: ReflectorOptions) {
    this.#options = options
    this.#times = reflectorTimes(options.times)
    const { healthyMs, backoffFirstMs: firstMs, backoffMaxMs: maxMs } = this.#times
    this.#ends = new WatchEnds(healthyMs)
    this.#backoff = new Backoff({ firstMs, maxMs }, options.random)
    const sink: Pick<ObjectSink, 'problems'> = {
      problems: (subject, problems) => {
        if (!this.#closed) options.sink.problems(subject, problems)
      },
    }
    this.#store = new ObjectStore(options.kind, sink, options.labels)
    this.#budget = newBudget(options.now)
  }

  /** Starts the first list. Called once. */
  start(): void {
    // Failed requests are handled inside. Any other error is a bug and ends the process as an unhandled rejection.
    this.#running = this.#run()
  }

  /** Stops. The sink is not called afterwards. */
  async close(): Promise<void> {
    this.#abort.abort()
    await this.#running
  }

  get #closed(): boolean {
    return this.#abort.signal.aborted
  }

  async #run(): Promise<void> {
    while (!this.#closed) {
      this.#aliveSinceMs = undefined
      let failure: CodedError | undefined
      try {
        await this.#listAndWatch()
      } catch (error) {
        if (this.#closed) return
        if (!(error instanceof CodedError)) throw error
        failure = error
      }
      await this.#waitAfter(failure)
    }
  }

  /** Lists if necessary, and watches. Returns when the server ends the watch without an error. */
  async #listAndWatch(): Promise<void> {
    if (this.#version !== '') return this.#stream(false)
    if (!this.#pagedNext) return this.#stream(true)
    await this.#listPages()
    this.#pagedNext = false
    return this.#stream(false)
  }

  /** Waits before the next request; not at all after a healthy watch. */
  async #waitAfter(ended: CodedError | undefined): Promise<void> {
    const { client, onFailure } = this.#options
    const livedMs = this.#aliveSinceMs === undefined ? undefined : this.#livedMs()
    const progressed = this.#version !== this.#versionBefore
    const { isHealthy, failure } = this.#ends.judge({ failure: ended, livedMs, progressed })
    if (isHealthy) this.#backoff.reset()
    const api = ended instanceof ApiError ? ended : undefined
    if (api?.isExpired === true) this.#version = ''
    if (api?.status === 401) client.invalidateCredentials()
    const requestedMs = Math.min(api?.retryAfterMs ?? 0, MAX_RETRY_AFTER_MS)
    // A server that refuses streaming lists gets a paged list at once. If that fails too, the wait is the usual one.
    const isRefusal = this.#streamingList && api !== undefined && refusesStreaming(api)
    if (isRefusal) this.#pagedNext = true
    const atOnce = isHealthy || isRefusal
    const waitMs = requestedMs === 0 && atOnce ? 0 : Math.max(this.#backoff.next(), requestedMs)
    if (failure !== undefined) onFailure(failure, waitMs, atOnce)
    if (waitMs > 0) await (this.#options.wait ?? waitUntilAborted)(waitMs, this.#abort.signal)
  }

  /** A watch from `#version`, or a streaming list that continues as a watch. */
  async #stream(initial: boolean): Promise<void> {
    const { client, selection, random } = this.#options
    const timeoutSeconds = 300 + Math.floor(random() * 301)
    const query = initial
      ? streamingListQuery(selection, timeoutSeconds)
      : watchQuery(selection, timeoutSeconds, this.#version)
    this.#streamingList = initial
    this.#versionBefore = this.#version
    if (initial) this.#store.beginList()
    let silent = true
    let limitMs = 0
    const inactivityMs = (isPinged: boolean): number => {
      const { initialInactivityMs, inactivityMs: pingedMs, unpingedMs } = this.#times
      limitMs = this.#streamingList ? initialInactivityMs : isPinged ? pingedMs : unpingedMs
      return limitMs
    }
    try {
      for await (const events of client.watch(selection.path, query, { signal: this.#abort.signal, inactivityMs })) {
        if (this.#closed) return
        if (events.length > 0) {
          silent = false
          this.#silentMs = 0
        }
        const { complete, failure } = this.#applyEvents(events)
        if (complete && this.#streamingList) {
          this.#streamingList = false
          await this.#finishList()
        }
        if (failure !== undefined) throw failure
        if (!this.#streamingList) this.#markAlive()
        if (this.#budget.spent()) await this.#budget.turn()
      }
    } catch (error) {
      if (silent && error instanceof ApiError && error.code === 'api-silent') {
        this.#silentMs += limitMs
        if (this.#silentMs >= this.#times.inactivityMs) this.#version = ''
      }
      throw error
    }
    if (this.#streamingList) throw new ApiError('api-reset', 'the stream ended before the list was complete')
    // No bookmark in minutes: the server may know only older versions, for example after etcd was
    // restored from a backup.
    if (silent && this.#livedMs() > this.#times.inactivityMs / 2) this.#version = ''
  }

  /** A list in pages. Sets `#version` to that of the list. */
  async #listPages(): Promise<void> {
    const { client, selection } = this.#options
    this.#streamingList = false
    this.#store.beginList()
    const restart = (): void => this.#store.beginList()
    for await (const page of listPages(client, selection, restart, this.#abort.signal)) {
      for (let start = 0; start < page.items.length; start += MAX_DELIVERY) {
        const slice = page.items.slice(start, start + MAX_DELIVERY)
        this.#deliver(slice.map((json) => this.#store.put(json)).filter((change) => change !== undefined))
        if (this.#budget.spent()) await this.#budget.turn()
        if (this.#closed) return
      }
      if (page.continueToken !== '') continue
      if (typeof page.resourceVersion !== 'string' || page.resourceVersion === '')
        throw new ApiError('api-bad-response', 'a list without a resourceVersion')
      await this.#finishList()
      this.#version = page.resourceVersion
    }
  }

  /** Called when all objects of a list are delivered: removes the objects that it did not contain. */
  async #finishList(): Promise<void> {
    const removals = this.#store.endList()
    for (let start = 0; start < removals.length; start += MAX_DELIVERY) {
      this.#deliver(removals.slice(start, start + MAX_DELIVERY))
      if (this.#budget.spent()) await this.#budget.turn()
    }
    if (!this.#listed && !this.#closed) {
      this.#listed = true
      this.#options.sink.listed(this.#options.kind)
    }
    this.#options.onHealthy()
  }

  #deliver(changes: readonly ObjectChange[]): void {
    if (changes.length > 0 && !this.#closed) this.#options.sink.apply(changes)
  }

  #markAlive(): void {
    if (this.#aliveSinceMs !== undefined) return
    this.#aliveSinceMs = this.#options.now()
    this.#options.onHealthy()
  }

  #livedMs(): number {
    return this.#aliveSinceMs === undefined ? 0 : this.#options.now() - this.#aliveSinceMs
  }

  /** Delivers the events of one chunk of the stream. */
  #applyEvents(events: readonly unknown[]): WatchOutcome {
    const outcome = applyEvents(events, this.#store)
    const { changes, version, complete } = outcome
    this.#deliver(changes)
    // A streaming list sends objects in any order of versions, so only the version of its last bookmark counts.
    if (version !== '' && (!this.#streamingList || complete)) this.#version = version
    return outcome
  }
}

async function waitUntilAborted(milliseconds: number, signal: AbortSignal): Promise<void> {
  await sleep(milliseconds, undefined, { signal }).catch(() => {})
}

/**
 * Whether the failure of a streaming list means that the server cannot stream lists: it refuses
 * with 400, 406 or 422, with an error inside the stream when its etcd is too old, or it ignores the
 * parameter and never marks the end of the list.
 */
function refusesStreaming(error: ApiError): boolean {
  if (error.code === 'api-silent') return true
  if (error.status === 400 || error.status === 406 || error.status === 422) return true
  return error.inStream && error.status >= 500
}
