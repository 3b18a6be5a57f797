/**
 * Keys that wait until a given time. Keys with the same length of wait are in one queue, which
 * stays sorted without work because the clock never decreases. So the cost depends only on the few
 * different lengths of wait.
 */
import { earliest } from '../values/clock.ts'

export class DelayedKeys {
  /** When each key is due, and the queue that holds it. */
  readonly #keys = new Map<string, { readonly atMs: number; readonly waitMs: number }>()
  readonly #queues = new Map<number, Set<string>>()

  has(key: string): boolean {
    return this.#keys.has(key)
  }

  /** Makes a key wait `waitMs` milliseconds from now on, in place of any earlier wait. */
  add(key: string, nowMs: number, waitMs: number): void {
    this.delete(key)
    this.#keys.set(key, { atMs: nowMs + waitMs, waitMs })
    const queue = this.#queues.get(waitMs)
    if (queue === undefined) this.#queues.set(waitMs, new Set([key]))
    else queue.add(key)
  }

  /** Returns whether the key was waiting. */
  delete(key: string): boolean {
    const waitMs = this.#keys.get(key)?.waitMs
    if (waitMs === undefined) return false
    this.#keys.delete(key)
    const queue = this.#queues.get(waitMs)
    queue?.delete(key)
    if (queue?.size === 0) this.#queues.delete(waitMs)
    return true
  }

  /** Removes up to `limit` keys that are due and returns them in the order in which they were due. */
  takeDue(nowMs: number, limit: number): readonly string[] {
    const due: { readonly key: string; readonly atMs: number }[] = []
    for (const queue of this.#queues.values()) {
      let left = limit
      for (const key of queue) {
        const atMs = this.#atMs(key)
        if (atMs > nowMs || left-- <= 0) break
        due.push({ key, atMs })
      }
    }
    const taken = due.sort((a, b) => a.atMs - b.atMs).slice(0, limit)
    for (const { key } of taken) this.delete(key)
    return taken.map(({ key }) => key)
  }

  /** When the next key is due; undefined when no key waits. */
  nextMs(): number | undefined {
    return earliest(...Array.from(this.#queues.values(), ([first = '']) => this.#atMs(first)))
  }

  #atMs(key: string): number {
    return this.#keys.get(key)?.atMs ?? 0
  }
}
