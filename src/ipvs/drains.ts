/**
 * When to check draining real servers (weight 0, unwanted): first after a second, then at growing
 * intervals. Weight 0 in the kernel is the only state. The schedule is derived from it and may be
 * lost at any time; after a restart the drains are found again, and their deadline counts from
 * then.
 */
import { DelayedKeys } from '../sync/delayed-keys.ts'
import type { Protocol } from '../values/protocol.ts'
import type { RealServer, RealServerKey, VirtualServerKey } from './types.ts'

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

/** A drain at one moment. */
export interface CurrentDrain {
  readonly virtualServer: VirtualServerKey
  readonly realServer: RealServerKey
  /** Since this process noticed it. */
  readonly ageMs: number
  /** undefined or Infinity: without a limit */
  readonly deadlineMs: number | undefined
}

/** Connections of one real server at a check. */
export interface Connections {
  readonly active: number
  readonly inactive: number
}

/** Whether removed real servers of a virtual server drain. Those of other protocols are removed at once. */
export function canDrain(protocol: Protocol): boolean {
  return protocol === 'tcp'
}

/**
 * Whether a real server in the kernel drains: it has weight 0 in a TCP virtual server, so it keeps
 * its connections and gets no new ones. No Service wants weight 0, but outlier detection gives it to
 * suspects.
 */
export function isDraining(protocol: Protocol, { weight }: Pick<RealServer, 'weight'>): boolean {
  return weight === 0 && canDrain(protocol)
}

export class Drains {
  /** Drains that have ended since the start, by reason. */
  readonly ended = { idle: 0, deadline: 0 }
  readonly #schedules = new Map<VirtualServerKey, Schedule>()
  readonly #checks = new DelayedKeys()
  readonly #deadlineMs: (key: VirtualServerKey) => number | undefined

  /**
   * `deadlineMs`: how long connections may keep a drain of this virtual server alive; undefined =
   * without a limit, as in kube-proxy.
   */
  constructor(deadlineMs: (key: VirtualServerKey) => number | undefined = () => undefined) {
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
    if (nowMs + this.#waitMs(key, schedule, nowMs) < schedule.nextCheckMs) this.#checkLater(key, schedule, nowMs)
  }

  /**
   * Up to `limit` virtual servers whose drains are due for a check, the longest due first; each
   * gets a later time for its next check.
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
    const waitMs = this.#waitMs(key, schedule, nowMs)
    schedule.nextCheckMs = nowMs + waitMs
    this.#checks.add(key, nowMs, waitMs)
  }

  /**
   * The interval, or a part of it that ends before the next deadline, so that a drain ends within a
   * second of its deadline.
   */
  #waitMs(key: VirtualServerKey, { servers, intervalMs }: Schedule, nowMs: number): number {
    const deadlineMs = this.#deadlineMs(key)
    if (deadlineMs === undefined) return intervalMs
    let leftMs = Number.POSITIVE_INFINITY
    for (const { sinceMs } of servers.values()) {
      const ownMs = sinceMs + deadlineMs - nowMs
      if (ownMs > 0) leftMs = Math.min(leftMs, ownMs)
    }
    // Halves, because the queues of DelayedKeys should have few lengths.
    let waitMs = intervalMs
    while (waitMs > leftMs && waitMs > FIRST_CHECK_MS) waitMs = Math.max(FIRST_CHECK_MS, waitMs / 2)
    return waitMs
  }

  /** The drains of a virtual server that have ended: no connections left, or the deadline has passed. */
  finished(key: VirtualServerKey, counts: ReadonlyMap<RealServerKey, Connections>, nowMs: number): Set<RealServerKey> {
    const ended = new Set<RealServerKey>()
    const deadlineMs = this.#deadlineMs(key)
    for (const [server, drain] of this.#schedules.get(key)?.servers ?? []) {
      const count = counts.get(server)
      const late = deadlineMs !== undefined && nowMs - drain.sinceMs >= deadlineMs
      if (count === undefined) continue
      const idle = count.active + count.inactive === 0
      if (!idle && !late) continue
      this.ended[idle ? 'idle' : 'deadline']++
      ended.add(server)
    }
    return ended
  }

  /** Every drain, with its age and its deadline in milliseconds. It follows changes while it is read. */
  *current(nowMs: number): Generator<CurrentDrain, void, void> {
    for (const [virtualServer, { servers }] of this.#schedules) {
      const deadlineMs = this.#deadlineMs(virtualServer)
      for (const [realServer, { sinceMs }] of servers)
        yield { virtualServer, realServer, ageMs: nowMs - sinceMs, deadlineMs }
    }
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
