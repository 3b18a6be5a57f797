/**
 * When to look at real servers that drain (weight 0, unwanted): first after a second, then more and more slowly.
 * What could break: weight 0 in the kernel is the only state. This schedule is derived from it and may be lost at any
 * time; a restart finds the drains again, and counts a deadline from then.
 */
import type { RealServerKey, VirtualServerKey } from './types.ts'

const FIRST_LOOK_MS = 1000
const LAST_LOOK_MS = 30_000

interface Drain {
  readonly sinceMs: number
}

interface Schedule {
  readonly servers: Map<RealServerKey, Drain>
  nextLookMs: number
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
  readonly #deadlineMs: number | undefined

  /** `deadlineMs`: how long connections may keep a drain alive; undefined = for ever (kube-proxy's way). */
  constructor(deadlineMs?: number) {
    this.#deadlineMs = deadlineMs
  }

  /** Nothing of this virtual server drains any more. */
  forget(key: VirtualServerKey): void {
    this.#schedules.delete(key)
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
    const intervalMs = isNew || before === undefined ? FIRST_LOOK_MS : before.intervalMs
    const nextLookMs = before === undefined ? nowMs + intervalMs : Math.min(before.nextLookMs, nowMs + intervalMs)
    this.#schedules.set(key, { servers, nextLookMs, intervalMs })
  }

  /** Virtual servers whose drains have to be looked at now; each gets a later time for its next look. */
  takeDue(nowMs: number): VirtualServerKey[] {
    const due: VirtualServerKey[] = []
    for (const [key, schedule] of this.#schedules) {
      if (schedule.nextLookMs > nowMs) continue
      due.push(key)
      schedule.intervalMs = Math.min(LAST_LOOK_MS, schedule.intervalMs * 2)
      schedule.nextLookMs = nowMs + schedule.intervalMs
    }
    return due
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
    let next: number | undefined
    for (const { nextLookMs } of this.#schedules.values())
      if (next === undefined || nextLookMs < next) next = nextLookMs
    return next
  }
}
