/**
 * The daemon's loop: it takes changes of objects, computes dirty owners in stretches, and runs one
 * pass at a time. It writes nothing before every source has listed once, because items of objects
 * that are not listed yet would be removed.
 * @impure
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Frontend, FrontendKey } from '../service/frontends.ts'
import type { NodeContext } from '../service/node-context.ts'
import type { ObjectChange } from '../service/objects.ts'
import type { DesiredFrontends, FrontendListener } from './desired-frontends.ts'
import { Pacer } from './pacer.ts'
import type { PassOptions, PassReport } from './pass.ts'
import { type Clock, earliest } from '../values/clock.ts'
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
   * Several passes over a part of the changes each cost little more than one over all of them: a
   * later pass than the first is over what one stretch has computed, so that no change waits for
   * many others. Default false.
   */
  readonly hasCheapPasses?: boolean
}

export interface DataplanePass extends Pick<PassOptions, 'signal' | 'mayRemove'> {
  /** Changes wait for the pass after this one, so what is not urgent may wait for them. Default false. */
  readonly changesWait?: boolean
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
  /**
   * All changes so far have been computed; the pass that follows applies the last of them. Passes
   * before it applied parts.
   */
  frontendsReady(): void
  /**
   * A pass over the tables has ended. @param isLast false: what this pass postponed may be done now,
   * so that another one follows
   */
  tablesPassed(report: PassReport, durationMs: number, isLast: boolean): void
  /** An unexpected error; the loop continues. */
  passFailed(error: unknown): void
}

/** Wait after an unexpected error. */
const UNEXPECTED_RETRY_MS = 1000

export class SyncLoop {
  readonly #options: LoopOptions
  readonly #pacer: Pacer
  readonly #frontends: FrontendListener
  #open = false
  #mayRemove = false
  #isFirst = true
  /** Changes have arrived since a round was last due. */
  #hasRead = false

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
    this.#hasRead = true
    if (this.#open && this.#options.desired.isDirty) this.#pacer.request()
  }

  setContext(context: NodeContext): void {
    this.#options.desired.setContext(context)
    if (this.#open && this.#options.desired.isDirty) this.#pacer.request()
  }

  /**
   * Every source has listed: passes may run. Without `mayRemove` they keep what nothing wants (the
   * Node is not known yet).
   */
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
    return this.#pacer.close()
  }

  /**
   * One round: reads what arrives, computes for one stretch, and for another one what is long, and
   * makes a pass. What is left is for the next round, which follows at once.
   */
  async #round(signal: AbortSignal): Promise<number | undefined> {
    const { dataplane, desired, now, listener } = this.#options
    try {
      await this.#read()
      const startedMs = now()
      listener.passBegins()
      const isReady = await this.#compute(startedMs)
      if (isReady) listener.frontendsReady()
      const isMore = desired.isDirty
      const report = await dataplane.pass({ signal, mayRemove: this.#mayRemove, changesWait: !isReady })
      listener.tablesPassed(report, now() - startedMs, !this.#pacer.isResumed)
      if (isMore) this.#pacer.resume()
      return earliest(dataplane.nextDueMs(), desired.room.nextDecisionMs)
    } catch (error) {
      if (signal.aborted) return undefined
      listener.passFailed(error)
      return now() + UNEXPECTED_RETRY_MS
    }
  }

  /**
   * Waits until a turn of the event loop brings no change, for one stretch at most: a single change
   * behind a burst in the stream of a watch is read sooner than if a round followed each piece of
   * the stream.
   */
  async #read(): Promise<void> {
    const { budget } = this.#options.desired
    budget.begin()
    while (this.#hasRead && !budget.spent()) {
      this.#hasRead = false
      budget.use(1)
      await nextTurn()
    }
  }

  /** Returns whether all is computed but what is long. */
  async #compute(nowMs: number): Promise<boolean> {
    const { dataplane, desired } = this.#options
    const { budget } = desired
    if (this.#isFirst) {
      // What an earlier process wrote for a frontend that is missing now would be removed.
      for (const _ of desired.all(this.#frontends)) await budget.turn()
      this.#isFirst = false
      return true
    }
    budget.begin()
    let left = desired.flush(this.#frontends, nowMs)
    while (left > 0 && dataplane.hasCheapPasses !== true) {
      await budget.turn()
      left = desired.flush(this.#frontends, nowMs)
    }
    // A dataplane that writes everything at once gets what the end of a stretch has cut: a stretch
    // for each. Otherwise each of them would cost it a pass.
    const stretches = dataplane.hasCheapPasses === true ? 1 : desired.longCount
    for (let stretch = 0; stretch < stretches && desired.longCount > 0; stretch++) {
      await budget.turn()
      desired.resume(this.#frontends, nowMs)
    }
    return left === 0
  }
}
