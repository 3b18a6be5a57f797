/**
 * When to check draining real servers (weight 0, unwanted): first after a second, then at growing intervals. Weight 0 in the
 * kernel is the only state. The schedule is derived from it and may be lost at any time; after a restart the drains are found
 * again, and their deadline counts from then.
 */
import { DelayedKeys } from '../sync/delayed-keys.ts'
import type { RealServerKey, VirtualServerKey } from './types.ts'

const FIRST_CHECK_MS = 1000
const LAST_CHECK_MS = 30_000

interface Drain {
  readonly sinceMs: number
}

interface Schedule {
  readonly servers: Map<RealServerKey, Drain>
  nextCheckMs: number
  /** Waits from the last check, or from the start of the drain, to the next check. */
  intervalMs: number
}

/** Connections of one real server at a check. */
export interface Connections {
  readonly active: number
  readonly inactive: number
}

export class Drains {
  /** Drains that have ended since the start, by reason. */
  readonly ended = { idle: 0, deadline: 0 }
  readonly #schedules = new Map<VirtualServerKey, Schedule>()
  readonly #checks = new DelayedKeys()
  readonly #deadlineMs: number | undefined

  /** `deadlineMs`: how long connections may keep a drain alive; undefined = without a limit, as in kube-proxy. */
  constructor(deadlineMs?: number) {
    this.#deadlineMs = deadlineMs
  }

  /** Call it when no real server of this virtual server drains any more. */
  forget(key: VirtualServerKey): void {
    if (this.#schedules.delete(key)) this.#checks.delete(key)
  }

  /** Sets the draining real servers of a virtual server, at least one. */
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
      intervalMs: isNew || before === undefined ? FIRST_CHECK_MS : before.intervalMs,
      nextCheckMs: before?.nextCheckMs ?? Number.POSITIVE_INFINITY,
    }
    this.#schedules.set(key, schedule)
    if (nowMs + schedule.intervalMs < schedule.nextCheckMs) this.#checkLater(key, schedule, nowMs)
  }

  /**
   * Up to `limit` virtual servers whose drains are due for a check, the longest due first; each gets a later time for its next
   * check.
   */
  takeDue(nowMs: number, limit: number): readonly VirtualServerKey[] {
    const due = this.#checks.takeDue(nowMs, limit)
    for (const key of due) {
      const schedule = this.#schedules.get(key)
      if (schedule === undefined) continue
      schedule.intervalMs = Math.min(LAST_CHECK_MS, schedule.intervalMs * 2)
      this.#checkLater(key, schedule, nowMs)
    }
    return due
  }

  #checkLater(key: VirtualServerKey, schedule: Schedule, nowMs: number): void {
    schedule.nextCheckMs = nowMs + schedule.intervalMs
    this.#checks.add(key, nowMs, schedule.intervalMs)
  }

  /** The drains of a virtual server that have ended: no connections left, or the deadline has passed. */
  finished(key: VirtualServerKey, counts: ReadonlyMap<RealServerKey, Connections>, nowMs: number): Set<RealServerKey> {
    const ended = new Set<RealServerKey>()
    for (const [server, drain] of this.#schedules.get(key)?.servers ?? []) {
      const count = counts.get(server)
      const late = this.#deadlineMs !== undefined && nowMs - drain.sinceMs >= this.#deadlineMs
      if (count === undefined) continue
      const idle = count.active + count.inactive === 0
      if (!idle && !late) continue
      this.ended[idle ? 'idle' : 'deadline']++
      ended.add(server)
    }
    return ended
  }

  /** How many real servers drain. */
  get count(): number {
    let count = 0
    for (const schedule of this.#schedules.values()) count += schedule.servers.size
    return count
  }

  nextDueMs(): number | undefined {
    return this.#checks.nextMs()
  }
}
