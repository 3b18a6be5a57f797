/**
 * The daemon's loop: it takes changes of objects, computes dirty owners in slices, and runs one pass at a time. It writes nothing
 * before every source has listed once, because items of objects that are not listed yet would be removed.
 * @impure
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Frontend, FrontendKey } from '../service/frontends.ts'
import type { NodeContext } from '../service/node-context.ts'
import type { ObjectChange } from '../service/objects.ts'
import type { DesiredFrontends, FrontendListener } from './desired-frontends.ts'
import type { LargeWork } from './owner-shares.ts'
import { Pacer } from './pacer.ts'
import { Portion } from './portion.ts'
import type { PassOptions, PassReport } from './reconciler.ts'
import { Budget } from '../values/budget.ts'
import type { Clock } from '../values/clock.ts'
import type { Problem } from '../values/errors.ts'

/** What turns frontends into kernel state: ipvs or iptables. */
export interface Dataplane {
  /** The frontend that owns `key` has changed; undefined when no Service claims the key any more. */
  frontend(key: FrontendKey, frontend: Frontend | undefined): void
  /** One pass over everything that is due. Rejects only when aborted. */
  pass(options: DataplanePass): Promise<PassReport>
  /** When the dataplane needs a pass without a request, on the loop's clock; undefined when nothing is due. */
  nextDueMs(): number | undefined
  /**
   * Several passes over a part of the changes each cost little more than one over all of them: later passes than the first are kept short,
   * so that no change waits for many others. Default false.
   */
  readonly takesPortions?: boolean
}

export interface DataplanePass extends Pick<PassOptions, 'signal' | 'mayRemove'> {
  /** Changes wait for the pass after this one, so what is not urgent may wait for them. Default false. */
  readonly changesWait?: boolean
  /** What is left of the round for work that large Services cause beside their changes; absent: no limit. */
  readonly large?: LargeWork
}

export interface LoopOptions {
  readonly dataplane: Dataplane
  readonly desired: DesiredFrontends
  /** Read before each pass, because it may change while the loop runs. */
  readonly minSyncPeriodMs: () => number
  readonly now: Clock
  readonly listener: LoopListener
}

/** What the loop reports. */
export interface LoopListener {
  /** A round begins: the work on objects, then a pass. */
  passBegins(): void
  /** Called for each changed frontend, after the dataplane. */
  frontendChanged(key: FrontendKey, frontend: Frontend | undefined): void
  /** All present problems of this owner's frontends. */
  serviceProblems(owner: string, problems: readonly Problem[]): void
  /** All changes so far have been computed; the pass that follows applies the last of them. Passes before it applied parts. */
  frontendsReady(): void
  /** A pass over the tables has ended. */
  tablesPassed(report: PassReport, durationMs: number): void
  /** An unexpected error; the loop continues. */
  passFailed(error: unknown): void
}

/** Units of work on Services (see OwnerWork) between two turns of the event loop: some milliseconds. */
const TURN_UNITS = 500
/**
 * Units of work on large Services in one round, after all others. Other changes wait for the pass that applies this work.
 */
const LARGE_UNITS = 200
/** The same beside a portion: at least this. */
const SMALLEST_LARGE_UNITS = 4
/** When so many changes have arrived since the last round, more are probably on their way. */
const FLOOD_CHANGES = 16
/**
 * In a flood the next round starts this long after the last one ended, or as soon as a turn of the event loop brings no change. So a single
 * change behind the flood in the stream of a watch is read sooner; otherwise a round would follow each piece of the stream.
 */
const READING_MS = 4
/** Decisions about the room of the node before the first pass, which should not remove what a later one would add again. */
const FIRST_DECISIONS = 5
/** Wait after an unexpected error. */
const UNEXPECTED_RETRY_MS = 1000

export class SyncLoop {
  readonly #options: LoopOptions
  readonly #pacer: Pacer
  readonly #frontends: FrontendListener
  #open = false
  #mayRemove = false
  #first = true
  readonly #portion = new Portion()
  /** Changes that arrived since a round was last due, and since one began. */
  #arrived = 0
  #arrivedSinceRound = 0
  #lastEndMs = Number.NEGATIVE_INFINITY
  #restTimer: NodeJS.Timeout | undefined

  constructor(options: LoopOptions) {
    this.#options = options
    this.#pacer = new Pacer({
      minPeriodMs: options.minSyncPeriodMs,
      now: options.now,
      run: (signal) => this.#round(signal),
    })
    this.#frontends = {
      frontend: (key, frontend) => {
        options.dataplane.frontend(key, frontend)
        options.listener.frontendChanged(key, frontend)
      },
      problems: (owner, problems) => options.listener.serviceProblems(owner, problems),
    }
  }

  /** Applies changes of objects; a pass follows once the loop is open. */
  apply(changes: readonly ObjectChange[]): void {
    for (const change of changes) this.#options.desired.apply(change)
    this.#arrived += changes.length
    if (this.#open && this.#options.desired.isDirty) this.#pacer.request()
  }

  setContext(context: NodeContext): void {
    this.#options.desired.setContext(context)
    if (this.#open && this.#options.desired.isDirty) this.#pacer.request()
  }

  /** Every source has listed: passes may run. Without `mayRemove` they keep what nothing wants (the Node is not known yet). */
  open(mayRemove: boolean): void {
    this.#open = true
    this.#mayRemove = mayRemove
    this.#pacer.request()
  }

  /** Asks for a pass for a reason outside the objects: a doubted key, a due drain. */
  request(): void {
    if (this.#open) this.#pacer.request()
  }

  /** Retries what the last pass had to postpone, ignoring minSyncPeriod. */
  resume(): void {
    if (this.#open) this.#pacer.resume()
  }

  /** Stops. A running pass is aborted between two batches. */
  close(): Promise<void> {
    clearTimeout(this.#restTimer)
    return this.#pacer.close()
  }

  async #round(signal: AbortSignal): Promise<number | undefined> {
    const { dataplane, now, listener } = this.#options
    const startedMs = now()
    const isFirst = this.#first
    if (!isFirst && dataplane.takesPortions === true && this.#readsFlood(startedMs)) {
      this.#pacer.resume()
      return undefined
    }
    listener.passBegins()
    try {
      const budget = new Budget(LARGE_UNITS)
      const isPart = !isFirst && dataplane.takesPortions === true && this.#computePortion(budget, startedMs)
      if (!isPart) {
        await this.#computeAll(isFirst, budget, startedMs)
        listener.frontendsReady()
      }
      // Large Services never use all that the steps of slow starts need.
      if (budget.left < SMALLEST_LARGE_UNITS) budget.renew(SMALLEST_LARGE_UNITS)
      const large = { budget, shares: this.#options.desired.shares }
      const report = await dataplane.pass({ signal, mayRemove: this.#mayRemove, changesWait: isPart, large })
      const endedMs = now()
      this.#lastEndMs = endedMs
      listener.tablesPassed(report, endedMs - startedMs)
      if (isPart) {
        this.#portion.observe(endedMs - startedMs)
        this.#pacer.resume()
      } else this.#portion.end()
      // After the first round no Service rests.
      this.#restLarge(isFirst ? endedMs : startedMs, endedMs)
      return dataplane.nextDueMs()
    } catch (error) {
      if (signal.aborted) return undefined
      listener.passFailed(error)
      return now() + UNEXPECTED_RETRY_MS
    }
  }

  /** Whether a round has to wait until more was read. */
  #readsFlood(nowMs: number): boolean {
    const arrived = this.#arrived
    this.#arrived = 0
    this.#arrivedSinceRound += arrived
    if (arrived > 0 && this.#arrivedSinceRound >= FLOOD_CHANGES && nowMs - this.#lastEndMs < READING_MS) return true
    this.#arrivedSinceRound = 0
    return false
  }

  /** Computes a portion of the dirty owners; returns whether some are left for the next round. */
  #computePortion(large: Budget, startedMs: number): boolean {
    const { desired } = this.#options
    const { units } = this.#portion
    if (desired.flushPortion(this.#frontends, units, startedMs) === 0) return false
    // Large Services continue, too, although others wait.
    large.renew(Math.max(SMALLEST_LARGE_UNITS, units / 4))
    desired.resume(this.#frontends, large, startedMs)
    return true
  }

  async #computeAll(isFirst: boolean, large: Budget, startedMs: number): Promise<void> {
    const { desired } = this.#options
    // The owners that are computed first are first in every table.
    if (isFirst) desired.flushFirst(this.#frontends)
    // Nothing rests before the first pass.
    const nowMs = isFirst ? Number.POSITIVE_INFINITY : startedMs
    for (let decisions = 0; ; decisions++) {
      while (desired.flush(this.#frontends, TURN_UNITS, nowMs) > 0) await nextTurn()
      if (!isFirst) break
      // What an earlier process wrote for a missing frontend would be removed.
      while (desired.resume(this.#frontends, new Budget(TURN_UNITS)) > 0) await nextTurn()
      if (!desired.hasDecided || decisions === FIRST_DECISIONS) break
    }
    if (isFirst) this.#first = false
    else desired.resume(this.#frontends, large, startedMs)
  }

  /**
   * Lets large Services rest for as long as the round took, so that one that changes all the time uses at most half of the loop.
   */
  #restLarge(startedMs: number, endMs: number): void {
    const { desired } = this.#options
    desired.rest(endMs, endMs + (endMs - startedMs))
    const workMs = desired.nextWorkMs
    clearTimeout(this.#restTimer)
    if (workMs === undefined) return
    if (workMs <= endMs) this.#pacer.resume()
    else this.#restTimer = setTimeout(() => this.#pacer.resume(), Math.ceil(workMs - endMs))
  }
}
