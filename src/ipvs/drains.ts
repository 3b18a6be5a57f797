/**
 * When to look at real servers that drain (weight 0, unwanted): first after a second, then more and more slowly.
 * Weight 0 in the kernel is the only state. This schedule is derived from it and may be lost at any time; a restart finds
 * the drains again, and counts a deadline from then.
 */
import { DelayedKeys } from '../sync/delayed-keys.ts'
import type { RealServerKey, VirtualServerKey } from './types.ts'

const FIRST_LOOK_MS = 1000
const LAST_LOOK_MS = 30_000

interface Drain {
  readonly sinceMs: number
}

interface Schedule {
  readonly servers: Map<RealServerKey, Drain>
  nextLookMs: number
  /** From the last look, or from the beginning, to the next one. */
  intervalMs: number
}

/** Counts of one real server, as a look finds them. */
export interface Connections {
  readonly active: number
  readonly inactive: number
}

export class Drains {
  /** Drains found to be over since the start, by reason. */
  readonly ended = { idle: 0, deadline: 0 }
  readonly #schedules = new Map<VirtualServerKey, Schedule>()
  readonly #looks = new DelayedKeys()
  readonly #deadlineMs: number | undefined

  /** `deadlineMs`: how long connections may keep a drain alive; undefined = for ever (kube-proxy's way). */
  constructor(deadlineMs?: number) {
    this.#deadlineMs = deadlineMs
  }

  /** Nothing of this virtual server drains any more. */
  forget(key: VirtualServerKey): void {
    if (this.#schedules.delete(key)) this.#looks.delete(key)
  }

  /** The real servers of this virtual server that drain now, at least one. */
  observe(key: VirtualServerKey, draining: readonly RealServerKey[], nowMs: number): void {
    const before = this.#schedules.get(key)
    const servers = new Map<RealServerKey, Drain>()
    let isNew = before === undefined
    for (const server of draining) {
      const known = before?.servers.get(server)
      isNew ||= known === undefined
      servers.set(server, known ?? { sinceMs: nowMs })
    }
    const schedule: Schedule = {
      servers,
      intervalMs: isNew || before === undefined ? FIRST_LOOK_MS : before.intervalMs,
      nextLookMs: before?.nextLookMs ?? Number.POSITIVE_INFINITY,
    }
    this.#schedules.set(key, schedule)
    if (nowMs + schedule.intervalMs < schedule.nextLookMs) this.#lookLater(key, schedule, nowMs)
  }

  /**
   * Up to `limit` virtual servers whose drains have to be looked at now, those that are due longest first; each gets a later time
   * for its next look.
   */
  takeDue(nowMs: number, limit: number): readonly VirtualServerKey[] {
    const due = this.#looks.takeDue(nowMs, limit)
    for (const key of due) {
      const schedule = this.#schedules.get(key)
      if (schedule === undefined) continue
      schedule.intervalMs = Math.min(LAST_LOOK_MS, schedule.intervalMs * 2)
      this.#lookLater(key, schedule, nowMs)
    }
    return due
  }

  #lookLater(key: VirtualServerKey, schedule: Schedule, nowMs: number): void {
    schedule.nextLookMs = nowMs + schedule.intervalMs
    this.#looks.add(key, nowMs, schedule.intervalMs)
  }

  /** Which drains of a virtual server are over: no connections left, or the deadline has passed. */
  finished(key: VirtualServerKey, counts: ReadonlyMap<RealServerKey, Connections>, nowMs: number): Set<RealServerKey> {
    const over = new Set<RealServerKey>()
    for (const [server, drain] of this.#schedules.get(key)?.servers ?? []) {
      const count = counts.get(server)
      const late = this.#deadlineMs !== undefined && nowMs - drain.sinceMs >= this.#deadlineMs
      if (count === undefined) continue
      const idle = count.active + count.inactive === 0
      if (!idle && !late) continue
      this.ended[idle ? 'idle' : 'deadline']++
      over.add(server)
    }
    return over
  }

  /** Real servers that drain now. */
  get count(): number {
    let count = 0
    for (const schedule of this.#schedules.values()) count += schedule.servers.size
    return count
  }

  nextDueMs(): number | undefined {
    return this.#looks.nextMs()
  }
}
