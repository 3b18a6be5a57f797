/**
 * How often our jumps were moved to the top of their chains again. A program that insists on its
 * place gets it after some rounds, so that two programs do not fight: the jump is then moved once
 * after a wait that doubles, and the rule in front of it is a problem until our jump stays.
 */
import type { Clock } from '../values/clock.ts'

/** So many moves within this time, in milliseconds; then the jump waits. */
export const MAX_MOVES = 3
export const MOVES_WITHIN_MS = 600_000
/** The first wait, and the longest. */
export const FIRST_WAIT_MS = 600_000
const LONGEST_WAIT_MS = 7_200_000
/** A jump that stays first for so long after a move is not contested any more. */
const QUIET_MS = 60_000
/** After a wait the jump may be moved for so long, in case the first attempt fails. */
const RETRY_MS = 60_000

interface Contest {
  readonly waitMs: number
  /** When the jump may be moved again. */
  readonly untilMs: number
  /** The end of the attempts after that time, once there was one. */
  retryEndsMs: number | undefined
}

export class JumpOrder {
  readonly #now: Clock
  /** Times of the last moves, by the key of the jump. */
  readonly #moves = new Map<string, readonly number[]>()
  readonly #contests = new Map<string, Contest>()
  /** Contested jumps that stand first since their last move. */
  readonly #quiet = new Set<string>()

  constructor(now: Clock) {
    this.#now = now
  }

  /** The jump stands behind a rule that takes packets: whether it may be moved now. */
  admit(key: string): boolean {
    const nowMs = this.#now()
    this.#quiet.delete(key)
    const contest = this.#contests.get(key)
    if (contest !== undefined) {
      if (nowMs < contest.untilMs) return false
      contest.retryEndsMs ??= nowMs + RETRY_MS
      if (nowMs < contest.retryEndsMs) return true
      this.#wait(key, contest)
      return false
    }
    const moves = (this.#moves.get(key) ?? []).filter((atMs) => nowMs - atMs < MOVES_WITHIN_MS)
    this.#moves.set(key, moves)
    if (moves.length < MAX_MOVES) return true
    this.#contests.set(key, { waitMs: FIRST_WAIT_MS, untilMs: nowMs + FIRST_WAIT_MS, retryEndsMs: undefined })
    return false
  }

  /** The jump was moved. */
  moved(key: string): void {
    const nowMs = this.#now()
    this.#moves.set(key, [...(this.#moves.get(key) ?? []), nowMs].slice(-MAX_MOVES))
    const contest = this.#contests.get(key)
    if (contest === undefined) return
    this.#wait(key, contest)
    this.#quiet.add(key)
  }

  #wait(key: string, contest: Contest): void {
    const waitMs = Math.min(2 * contest.waitMs, LONGEST_WAIT_MS)
    this.#contests.set(key, { waitMs, untilMs: this.#now() + waitMs, retryEndsMs: undefined })
  }

  /** The rules have been read: forgets jumps that are not there, or not looked at. */
  keepOnly(keys: ReadonlySet<string>): void {
    for (const key of this.#contests.keys())
      if (!keys.has(key)) for (const all of [this.#contests, this.#moves, this.#quiet]) all.delete(key)
  }

  /** The jump stands first, or behind nothing that takes packets. */
  isFirst(key: string): void {
    if (!this.#contests.has(key)) return
    const lastMs = this.#moves.get(key)?.at(-1) ?? Number.NEGATIVE_INFINITY
    if (this.#now() - lastMs < QUIET_MS) {
      this.#quiet.add(key)
      return
    }
    this.#contests.delete(key)
    this.#moves.delete(key)
    this.#quiet.delete(key)
  }

  /** When the rules have to be read again because of a contested jump; undefined: there is none. */
  nextDueMs(): number | undefined {
    if (this.#contests.size === 0) return undefined
    let next: number | undefined
    for (const [key, { untilMs, retryEndsMs }] of this.#contests) {
      const lastMs = this.#moves.get(key)?.at(-1) ?? 0
      const againMs = retryEndsMs ?? untilMs
      const dueMs = this.#quiet.has(key) ? Math.min(againMs, lastMs + QUIET_MS) : againMs
      if (next === undefined || dueMs < next) next = dueMs
    }
    return next
  }
}
