/**
 * First come, first served: lets one call at a time use a connection.
 * What could break: `take` must not wait (not even a microtask) when nobody holds the turn, or the synchronous fast
 * path of a batch is gone; and every `take` that resolved needs its `pass`.
 */
interface Waiting {
  readonly proceed: () => void
  readonly refuse: (reason: unknown) => void
}

export class Turns {
  #held = false
  #closed: Error | undefined
  readonly #waiting = new Set<Waiting>()

  /** Gets the turn at once (undefined) or a promise of it. Rejects with the signal's reason, or after `close`. */
  take(signal?: AbortSignal): Promise<void> | undefined {
    if (this.#closed !== undefined) return Promise.reject(this.#closed)
    if (!this.#held) {
      this.#held = true
      return undefined
    }
    return new Promise<void>((resolve, reject) => {
      const abort = (): void => {
        this.#waiting.delete(waiting)
        reject(signal?.reason)
      }
      const waiting: Waiting = {
        proceed: () => {
          signal?.removeEventListener('abort', abort)
          resolve()
        },
        refuse: (reason) => {
          signal?.removeEventListener('abort', abort)
          reject(reason)
        },
      }
      this.#waiting.add(waiting)
      signal?.addEventListener('abort', abort, { once: true })
    })
  }

  /** Hands the turn to the one who waits longest. */
  pass(): void {
    for (const next of this.#waiting) {
      this.#waiting.delete(next)
      next.proceed()
      return
    }
    this.#held = false
  }

  /** Refuses everybody who waits or comes later. */
  close(reason: Error): void {
    if (this.#closed !== undefined) return
    this.#closed = reason
    for (const waiting of this.#waiting) waiting.refuse(reason)
    this.#waiting.clear()
  }
}
