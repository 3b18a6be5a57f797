/**
 * How long work may last before others get their turn. All work whose amount depends on what
 * anybody may write is in stretches, and between two of them the event loop reads changes and
 * answers probes. A computation that cannot wait by itself is a generator: it yields where its
 * stretch is over.
 */
import type { Clock } from './clock.ts'

/** The length of a stretch: a few of them, one after the other, are not felt. */
const STRETCH_MS = 2
/** What the kernel takes for an item that is to be written: a real server, an entry of a set, an address. */
const ITEM_MS = 0.01
/** Steps of about a microsecond between two looks at the clock. */
const STEPS = 64
/** Some kernels (user-mode Linux) count processor time in ticks of this length. */
const TICK_MS = 10

export interface BudgetOptions {
  /** The monotonic clock. */
  readonly now: Clock
  /** Lets the event loop run. Default: nobody else wants a turn. */
  readonly nextTurn?: () => Promise<void>
  readonly stretchMs?: number
  /**
   * The processor time of this thread, for work that rests in proportion to what it took: on a busy
   * machine most of the time of a stretch may be that of others. Default: all time is ours.
   */
  readonly processor?: Clock
}

const UNLIMITED: BudgetOptions = { now: () => 0, stretchMs: Number.POSITIVE_INFINITY }

export class Budget {
  readonly stretchMs: number
  readonly #now: Clock
  readonly #nextTurn: () => Promise<void>
  #beganMs: number
  /** Work that follows this stretch. */
  #laterMs = 0
  #steps = 0
  #workMs = 0
  readonly #processor: Clock | undefined
  #processorBeganMs = 0
  /** Time of earlier stretches that the processor's clock has not shown, up to a tick of it. */
  #unshownMs = 0

  /** The first stretch begins. Without options the work never gives way. */
  constructor(options: BudgetOptions = UNLIMITED) {
    const { now, nextTurn = () => Promise.resolve(), stretchMs = STRETCH_MS, processor } = options
    this.#now = now
    this.#processor = processor
    this.#processorBeganMs = processor?.() ?? 0
    this.#nextTurn = nextTurn
    this.stretchMs = stretchMs
    this.#beganMs = now()
  }

  /** Begins a stretch without a turn for others. */
  begin(): void {
    this.#beganMs = this.#now()
    this.#processorBeganMs = this.#processor?.() ?? 0
    this.#laterMs = 0
  }

  /** Whether the stretch is over: looks at the clock. */
  spent(): boolean {
    return this.usedMs >= this.stretchMs
  }

  /** How much of the stretch is used, in milliseconds: looks at the clock. */
  get usedMs(): number {
    return this.#now() - this.#beganMs + this.#laterMs
  }

  /**
   * Whether the stretch is over, for steps of about a microsecond: to look at the clock at each of
   * them would take as long as the step.
   */
  spentBySteps(): boolean {
    return ++this.#steps % STEPS === 0 && this.spent()
  }

  /**
   * Counts items that the kernel has still to write because of this stretch. They end it also where
   * the clock stands still.
   */
  use(items: number): void {
    this.#laterMs += items * ITEM_MS
  }

  /** Does work that cannot be divided: all its processor time counts, also what is beyond a stretch. */
  whole<Result>(work: () => Result): Result {
    const clock = this.#processor ?? this.#now
    const beganMs = clock()
    const result = work()
    this.#workMs += Math.max(0, clock() - beganMs - this.stretchMs)
    return result
  }

  /** Lets the event loop run, and begins the next stretch. */
  turn(): Promise<void> {
    this.#endWork()
    return this.#nextTurn().then(() => this.begin())
  }

  /**
   * How long this stretch and those before it were since the last call. None counts as longer than
   * `stretchMs`: the rest was the work of others, or a collection of garbage; and none as longer
   * than it had the processor.
   */
  takeWorkMs(): number {
    this.#endWork()
    this.begin()
    const workMs = this.#workMs
    this.#workMs = 0
    return workMs
  }

  #endWork(): void {
    const elapsedMs = Math.min(this.stretchMs, this.usedMs)
    this.#workMs += this.#processor === undefined ? elapsedMs : this.#shownMs(this.#processor, elapsedMs)
  }

  /** Of the time that has elapsed, that in which this thread had the processor. */
  #shownMs(processor: Clock, elapsedMs: number): number {
    const possibleMs = this.#unshownMs + elapsedMs
    const shownMs = Math.min(possibleMs, processor() - this.#processorBeganMs)
    this.#unshownMs = Math.min(TICK_MS, possibleMs - shownMs)
    return shownMs
  }
}

/** A computation that gives way to others: it yields where the stretch is over. */
export type Work<Result> = Generator<undefined, Result, void>
