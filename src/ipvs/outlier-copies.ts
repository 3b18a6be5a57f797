/** Whether the kernel makes copies of its counters (its estimator runs), by what reads of real servers show. */

/** Counters stand still after so many changes of the exact number of connections, and so long. */
const [STALLED_MOVES, STALLED_MS] = [50, 10_000]

export class Copies {
  #lastMs: number | undefined
  /** Changes of exact numbers since the last copy. */
  #moves = 0

  /** A real server was read. */
  read(nowMs: number, isCopied: boolean, hasMoved: boolean): void {
    if (isCopied) {
      this.#moves = 0
      this.#lastMs = nowMs
    } else if (hasMoved) this.#moves++
    this.#lastMs ??= nowMs
  }

  /** Whether connections come and go, but no copy is made. */
  isStalled(nowMs: number): boolean {
    return this.#moves >= STALLED_MOVES && nowMs - (this.#lastMs ?? nowMs) >= STALLED_MS
  }

  /** What was read so far does not count any more. */
  restart(): void {
    this.#moves = 0
    this.#lastMs = undefined
  }
}
