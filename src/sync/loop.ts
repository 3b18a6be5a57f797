/**
 * The daemon's loop: objects in, passes out. It waits for the first complete lists, works dirty owners out in slices
 * and runs one pass at a time. Nothing is written before every source has listed once, because what is missing from half a list
 * would look unwanted.
 * @impure
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Frontend, FrontendKey } from '../service/frontends.ts'
import type { NodeContext } from '../service/node-context.ts'
import type { ObjectChange } from '../service/objects.ts'
import type { DesiredFrontends, FrontendListener } from './desired-frontends.ts'
import { Pacer } from './pacer.ts'
import type { PassReport } from './reconciler.ts'
import type { Clock } from '../values/clock.ts'

/** What turns frontends into kernel state: ipvs or iptables. */
export interface Dataplane {
  /** The winning frontend of this key is another one now, or there is none. */
  frontend(key: FrontendKey, frontend: Frontend | undefined): void
  /** One pass over everything that is due. Rejects only when aborted. */
  pass(options: { readonly signal: AbortSignal; readonly mayRemove: boolean }): Promise<PassReport>
  /** When something is due without being asked, on the loop's clock; undefined when nothing is. */
  nextDueMs(): number | undefined
}

export interface LoopOptions {
  readonly dataplane: Dataplane
  readonly desired: DesiredFrontends
  /** Asked before each pass: it may change while the loop runs. */
  readonly minSyncPeriodMs: () => number
  readonly now: Clock
  /** Hears of frontends that changed, as the dataplane does. */
  readonly onFrontend: FrontendListener['frontend']
  /** A pass begins, or the work on objects before it. */
  readonly onBegin?: () => void
  /** Everything that came is worked out; the pass that takes it up follows. */
  readonly onWorkedOut: () => void
  /** Hears of every pass, with its length in milliseconds. */
  readonly onPass: (report: PassReport, durationMs: number) => void
  readonly onProblems: FrontendListener['problems']
  /** Something that must not happen happened; the loop goes on. */
  readonly onError: (error: unknown) => void
}

/** Units of work on Services (see OwnerWork) between two turns of the event loop: some milliseconds. */
const TURN_UNITS = 500
/**
 * Units of work on large Services in one round, after all others: what they come to is in the pass that other changes wait for.
 */
const LARGE_UNITS = 200
/** After a failure nobody foresaw. */
const UNEXPECTED_RETRY_MS = 1000

export class SyncLoop {
  readonly #options: LoopOptions
  readonly #pacer: Pacer
  readonly #listener: FrontendListener
  #open = false
  #mayRemove = false
  #first = true

  constructor(options: LoopOptions) {
    this.#options = options
    this.#pacer = new Pacer({
      minPeriodMs: options.minSyncPeriodMs,
      now: options.now,
      run: (signal) => this.#round(signal),
    })
    this.#listener = {
      frontend: (key, frontend) => {
        options.dataplane.frontend(key, frontend)
        options.onFrontend(key, frontend)
      },
      problems: options.onProblems,
    }
  }

  /** Takes changes of objects in; a pass follows once the loop is open. */
  apply(changes: readonly ObjectChange[]): void {
    for (const change of changes) this.#options.desired.apply(change)
    if (this.#open && this.#options.desired.isDirty) this.#pacer.request()
  }

  setContext(context: NodeContext): void {
    this.#options.desired.setContext(context)
    if (this.#open && this.#options.desired.isDirty) this.#pacer.request()
  }

  /** Every source has listed: passes may run. `mayRemove` false keeps what nothing wants (the Node is not known yet). */
  open(mayRemove: boolean): void {
    this.#open = true
    this.#mayRemove = mayRemove
    this.#pacer.request()
  }

  /** Something outside the objects wants a look: a doubted key, a due drain. */
  request(): void {
    if (this.#open) this.#pacer.request()
  }

  /** What a pass had to leave may come now; a minimum period does not count. */
  resume(): void {
    if (this.#open) this.#pacer.resume()
  }

  /** Stops; a pass that is on is aborted between two batches. */
  close(): Promise<void> {
    return this.#pacer.close()
  }

  async #round(signal: AbortSignal): Promise<number | undefined> {
    const { dataplane, desired, now, onPass, onWorkedOut } = this.#options
    const startedMs = now()
    this.#options.onBegin?.()
    try {
      // What is worked out first is first in every table.
      if (this.#first) desired.flushFirst(this.#listener)
      while (desired.flush(this.#listener, TURN_UNITS) > 0) await nextTurn()
      if (this.#first) {
        // What is missing would look unwanted, and an earlier process may have made it.
        while (desired.resume(this.#listener, TURN_UNITS) > 0) await nextTurn()
        this.#first = false
      } else if (desired.resume(this.#listener, LARGE_UNITS) > 0) this.#pacer.resume()
      onWorkedOut()
      const report = await dataplane.pass({ signal, mayRemove: this.#mayRemove })
      onPass(report, now() - startedMs)
      return dataplane.nextDueMs()
    } catch (error) {
      if (signal.aborted) return undefined
      this.#options.onError(error)
      return now() + UNEXPECTED_RETRY_MS
    }
  }
}
