/**
 * Keeps the sink up to date with one kind of objects: a streaming list that goes on as a watch (KEP-3157), or a paged list
 * and a watch where the server cannot stream.
 * What could break: the version to go on from (`#version`) must only move when everything before it has been delivered; and a
 * server that answers and fails at once must meet a growing pause, whatever it answers.
 */
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import type { ObjectChange, ObjectKind } from '../../service/objects.ts'
import { CodedError } from '../../values/errors.ts'
import type { ApiClient, ListPage } from '../api/api-client.ts'
import { ApiError } from '../api/api-error.ts'
import { Backoff } from '../../values/backoff.ts'
import { pageQuery, streamingListQuery, watchQuery, wholeListQuery } from './list-queries.ts'
import { ObjectStore } from './object-store.ts'
import type { Selection } from '../objects/selection.ts'
import type { ObjectSink } from '../source.ts'
import { WatchEnds } from './watch-end.ts'
import { applyEvents } from './watch-events.ts'
import type { Clock } from '../../values/clock.ts'

/** How long things take; all in milliseconds, all with a default. Tests shorten them. */
export interface ReflectorTimes {
  /** A watch that brings not even a bookmark for so long is dead. API servers send one a minute. Default 150,000. */
  readonly inactivityMs?: number
  /** The same while a streaming list is on: a server that ignores `sendInitialEvents` never ends it. Default 30,000. */
  readonly initialInactivityMs?: number
  /** A watch that lived so long was healthy, whatever ended it. Default 30,000. */
  readonly healthyMs?: number
  /** First and longest pause. Defaults 800 and 30,000. */
  readonly backoffFirstMs?: number
  readonly backoffMaxMs?: number
}

export interface ReflectorOptions {
  readonly kind: ObjectKind
  readonly selection: Selection
  readonly client: Pick<ApiClient, 'list' | 'watch' | 'invalidateCredentials'>
  readonly sink: ObjectSink
  readonly now: Clock
  /** A number from 0 to 1, 1 excluded. */
  readonly random: () => number
  readonly times?: ReflectorTimes
  /** Waits before the next try, until aborted; never rejects. Tests have a clock of their own. */
  readonly wait?: (milliseconds: number, signal: AbortSignal) => Promise<void>
  /** A try failed; the next one follows in `retryMs`. `healthy`: a stream ended that had been well, nothing to worry about. */
  readonly onFailure: (error: CodedError, retryMs: number, healthy: boolean) => void
  /** The server answers: a list is complete or a watch goes on. */
  readonly onHealthy: () => void
}

/** Objects delivered in one call where there are many. */
const SLICE_OBJECTS = 100
/** Longest time with the event loop to ourselves. */
const TURN_MS = 8
/** Longest time that a server may ask to be left alone. */
const MAX_RETRY_AFTER_MS = 300_000

export class Reflector {
  readonly #options: ReflectorOptions
  readonly #store: ObjectStore
  readonly #backoff: Backoff
  readonly #abort = new AbortController()
  #running: Promise<void> | undefined
  readonly #times: Required<Pick<ReflectorTimes, 'inactivityMs' | 'initialInactivityMs'>>
  readonly #ends: WatchEnds
  /** Where a watch goes on; '' when a list has to come first. */
  #version = ''
  /** The next list is a paged one, because the server refused the last streaming list. */
  #pagedNext = false
  #listed = false
  /** The request that is on, or failed last, is a streaming list that is not complete. */
  #streamingList = false
  /** When the server let the present watch go on; undefined before it does. */
  #aliveSinceMs: number | undefined
  /** Where the present watch began. */
  #versionBefore = ''
  #turnStartMs: number

  constructor(options: ReflectorOptions) {
    this.#options = options
    const { times = {}, random } = options
    this.#times = {
      inactivityMs: times.inactivityMs ?? 150_000,
      initialInactivityMs: times.initialInactivityMs ?? 30_000,
    }
    this.#ends = new WatchEnds(times.healthyMs ?? 30_000)
    // The limits of client-go's reflector.
    const limits = { firstMs: times.backoffFirstMs ?? 800, maxMs: times.backoffMaxMs ?? 30_000 }
    this.#backoff = new Backoff(limits, random)
    this.#store = new ObjectStore(options.kind, {
      problems: (subject, problems) => {
        if (!this.#closed) options.sink.problems(subject, problems)
      },
    })
    this.#turnStartMs = options.now()
  }

  /** Begins with the first list. Called once. */
  start(): void {
    // Nobody catches what else than a failed request is thrown in there: it is a mistake of this program and ends it.
    this.#running = this.#run()
  }

  /** Stops; no call to the sink comes after. */
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
        await this.#once()
      } catch (error) {
        if (this.#closed) return
        if (!(error instanceof CodedError)) throw error
        failure = error
      }
      await this.#pause(failure)
    }
  }

  /** One request, or a list of several pages; returns when the server ended a watch in order. */
  async #once(): Promise<void> {
    if (this.#version !== '') return this.#stream(false)
    if (!this.#pagedNext) return this.#stream(true)
    await this.#listPages()
    this.#pagedNext = false
    return this.#stream(false)
  }

  /** Waits as long as the end of the last request asks for: not at all after a watch that was well. */
  async #pause(ended: CodedError | undefined): Promise<void> {
    const { client, onFailure } = this.#options
    const livedMs = this.#aliveSinceMs === undefined ? undefined : this.#livedMs()
    const progressed = this.#version !== this.#versionBefore
    const { isWell, failure } = this.#ends.judge({ failure: ended, livedMs, progressed })
    if (isWell) this.#backoff.reset()
    const api = ended instanceof ApiError ? ended : undefined
    if (api?.isExpired === true) this.#version = ''
    if (api?.status === 401) client.invalidateCredentials()
    const asked = Math.min(api?.retryAfterMs ?? 0, MAX_RETRY_AFTER_MS)
    // A server that refuses streaming lists is asked the other way at once, but not again and again.
    const otherWay = this.#streamingList && api !== undefined && refusesStreaming(api)
    if (otherWay) this.#pagedNext = true
    const waitMs = asked === 0 && (isWell || otherWay) ? 0 : Math.max(this.#backoff.next(), asked)
    if (failure !== undefined) onFailure(failure, waitMs, isWell || otherWay)
    if (waitMs > 0) await (this.#options.wait ?? rest)(waitMs, this.#abort.signal)
  }

  /** A watch from `#version`, or a streaming list that goes on as a watch. */
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
    const inactivityMs = (): number =>
      this.#streamingList ? this.#times.initialInactivityMs : this.#times.inactivityMs
    try {
      for await (const events of client.watch(selection.path, query, { signal: this.#abort.signal, inactivityMs })) {
        if (this.#closed) return
        if (events.length > 0) silent = false
        const complete = this.#take(events)
        if (complete && this.#streamingList) {
          this.#streamingList = false
          await this.#finishList()
        }
        if (!this.#streamingList) this.#alive()
        await this.#turn()
      }
    } catch (error) {
      if (silent && error instanceof ApiError && error.code === 'api-silent') this.#version = ''
      throw error
    }
    if (this.#streamingList) throw new ApiError('api-reset', 'the stream ended before the list was complete')
    // Not even a bookmark in minutes: so a server answers that knows only older versions (etcd restored from a backup).
    if (silent && this.#livedMs() > this.#times.inactivityMs / 2) this.#version = ''
  }

  /** A list in pages; the watch goes on from its version. */
  async #listPages(): Promise<void> {
    const { client, selection } = this.#options
    this.#streamingList = false
    this.#store.beginList()
    let query = pageQuery(selection, '')
    for (;;) {
      let page: ListPage
      try {
        page = await client.list(selection.path, query, this.#abort.signal)
      } catch (error) {
        if (!(error instanceof ApiError) || !error.isExpired || query['continue'] === undefined) throw error
        // The list took longer than the server remembers: once more in one piece, as client-go does.
        this.#store.beginList()
        query = wholeListQuery(selection)
        continue
      }
      for (let start = 0; start < page.items.length; start += SLICE_OBJECTS) {
        const slice = page.items.slice(start, start + SLICE_OBJECTS)
        this.#deliver(slice.map((json) => this.#store.put(json)).filter((change) => change !== undefined))
        await this.#turn()
        if (this.#closed) return
      }
      if (page.continueToken === '') {
        if (typeof page.resourceVersion !== 'string' || page.resourceVersion === '')
          throw new ApiError('api-bad-response', 'a list without a resourceVersion')
        await this.#finishList()
        this.#version = page.resourceVersion
        return
      }
      if (page.continueToken === query['continue'])
        throw new ApiError('api-bad-response', 'the list goes on with the page that it just gave')
      query = pageQuery(selection, page.continueToken)
    }
  }

  /** Every object of the list is delivered: takes away what it did not bring. */
  async #finishList(): Promise<void> {
    const gone = this.#store.endList()
    for (let start = 0; start < gone.length; start += SLICE_OBJECTS) {
      this.#deliver(gone.slice(start, start + SLICE_OBJECTS))
      await this.#turn()
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

  #alive(): void {
    if (this.#aliveSinceMs !== undefined) return
    this.#aliveSinceMs = this.#options.now()
    this.#options.onHealthy()
  }

  #livedMs(): number {
    return this.#aliveSinceMs === undefined ? 0 : this.#options.now() - this.#aliveSinceMs
  }

  /** Lets the event loop have its turn when we had ours for some milliseconds. */
  async #turn(): Promise<void> {
    if (this.#options.now() - this.#turnStartMs < TURN_MS) return
    await nextTurn()
    this.#turnStartMs = this.#options.now()
  }

  /** Delivers the events of one piece of the stream. True when the bookmark that ends a streaming list was among them. */
  #take(events: readonly unknown[]): boolean {
    const { changes, version, complete, failure } = applyEvents(events, this.#store)
    this.#deliver(changes)
    // During a streaming list objects come in any order of versions; only its last bookmark counts.
    if (version !== '' && (!this.#streamingList || complete)) this.#version = version
    if (failure !== undefined) throw failure
    return complete
  }
}

async function rest(milliseconds: number, signal: AbortSignal): Promise<void> {
  await sleep(milliseconds, undefined, { signal }).catch(() => {})
}

/**
 * Whether a server that was asked for a streaming list cannot give one: it says so (400, 422; inside the stream when its etcd
 * is too old), or it knows nothing of them and never marks their end.
 */
function refusesStreaming(error: ApiError): boolean {
  if (error.code === 'api-silent') return true
  if (error.status === 400 || error.status === 406 || error.status === 422) return true
  return error.inStream && error.status >= 500
}
