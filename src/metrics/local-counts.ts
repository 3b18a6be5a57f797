/** Counts what the local socket answers. The statuses are few and its own. */

export class LocalCounts {
  /** Whether the socket is open; undefined when the configuration has none. */
  isOpen: boolean | undefined
  /** Answers by HTTP status. */
  readonly answers = new Map<number, number>()

  answered(status: number): void {
    this.answers.set(status, (this.answers.get(status) ?? 0) + 1)
  }
}
