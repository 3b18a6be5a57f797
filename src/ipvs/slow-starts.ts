/**
 * Slow starts: the weight of a new real server rises from 1 to its full weight in steps. The state
 * is only in memory: a process that starts gives every real server its full weight. All virtual
 * servers with the same duration share one queue, and a step of a virtual server concerns all of
 * its real servers that start, so the cost depends on what starts and not on what there is.
 */
import { DelayedKeys } from '../sync/delayed-keys.ts'
import {
  compareRealServers,
  type RealServer,
  realServerKey,
  type RealServerKey,
  type VirtualServer,
  type VirtualServerKey,
} from './types.ts'

/** Steps that a slow start has at least; rounding to few different waits makes them 15 at most. */
const STEPS = 10
/** Waits between two steps are one of these times a power of ten. */
const WAITS = [8, 6, 5, 4, 3, 2, 1.5, 1]

/** The time between two steps of a slow start: DelayedKeys needs few different waits. In milliseconds. */
export function stepMs(durationMs: number): number {
  const most = durationMs / STEPS
  const power = 10 ** Math.floor(Math.log10(most))
  return (WAITS.find((wait) => wait * power <= most) ?? 1) * power
}

/** The real servers of a virtual server that start. */
interface Schedule {
  /** The virtual server when every real server has its full weight. */
  readonly full: VirtualServer
  readonly durationMs: number
  /** When each began. */
  readonly sinceMs: Map<RealServerKey, number>
}

export class SlowStarts {
  /** Slow starts that have begun since the start of the process. */
  begun = 0
  readonly #schedules = new Map<VirtualServerKey, Schedule>()
  readonly #steps = new DelayedKeys()

  /**
   * The virtual server as it should be now. A real server starts slowly when it is new beside one
   * that stays: in `full` and not in `before`. Where no other stays, as in a new virtual server, it
   * would carry all traffic at any weight, so it has its full weight at once.
   * @param full with the full weight of each real server
   * @param before the virtual server as it was wanted so far; undefined: it is new in the kernel,
   * or this process is
   * @param durationMs of a slow start; undefined: the Service wants none
   */
  render(
    key: VirtualServerKey,
    full: VirtualServer,
    before: VirtualServer | undefined,
    durationMs: number | undefined,
    nowMs: number,
  ): VirtualServer {
    const known = this.#schedules.get(key)
    const added =
      durationMs === undefined || before === undefined ? [] : newBeside(full.realServers, before.realServers)
    if (durationMs === undefined || (known === undefined && added.length === 0)) {
      this.forget(key)
      return full
    }
    const sinceMs = new Map<RealServerKey, number>()
    for (const server of full.realServers) {
      const since = known?.sinceMs.get(realServerKey(server))
      if (since !== undefined) sinceMs.set(realServerKey(server), since)
    }
    for (const server of added) sinceMs.set(server, nowMs)
    this.begun += added.length
    this.#schedules.set(key, { full, durationMs, sinceMs })
    if (known?.durationMs !== durationMs) this.#steps.add(key, nowMs, stepMs(durationMs))
    return this.step(key, nowMs) ?? full
  }

  /** Call it when a virtual server is gone. */
  forget(key: VirtualServerKey): void {
    if (this.#schedules.delete(key)) this.#steps.delete(key)
  }

  /** One virtual server that is due for a step, the longest due first; undefined for none. */
  takeDue(nowMs: number): VirtualServerKey | undefined {
    const [key] = this.#steps.takeDue(nowMs, 1)
    const schedule = key === undefined ? undefined : this.#schedules.get(key)
    if (key !== undefined && schedule !== undefined) this.#steps.add(key, nowMs, stepMs(schedule.durationMs))
    return key
  }

  /** The virtual server with the weights of this moment; undefined when none of its real servers starts. */
  step(key: VirtualServerKey, nowMs: number): VirtualServer | undefined {
    const schedule = this.#schedules.get(key)
    if (schedule === undefined) return undefined
    const { full, durationMs, sinceMs } = schedule
    const waitMs = stepMs(durationMs)
    const realServers = full.realServers.map((server) => {
      const since = sinceMs.get(realServerKey(server))
      if (since === undefined) return server
      if (nowMs - since >= durationMs) {
        sinceMs.delete(realServerKey(server))
        return server
      }
      // Changes of the virtual server between two steps make no further step.
      const elapsedMs = Math.floor((nowMs - since) / waitMs) * waitMs
      return { ...server, weight: Math.max(1, Math.floor((server.weight * elapsedMs) / durationMs)) }
    })
    if (sinceMs.size === 0) this.forget(key)
    return { ...full, realServers }
  }

  /** How many real servers start now. */
  get count(): number {
    let count = 0
    for (const { sinceMs } of this.#schedules.values()) count += sinceMs.size
    return count
  }

  /** When the next step is due; undefined when nothing starts. */
  nextDueMs(): number | undefined {
    return this.#steps.nextMs()
  }
}

/** Keys of the real servers in `after` that are not in `before`, if another one is in both. Both lists are sorted. */
function newBeside(after: readonly RealServer[], before: readonly RealServer[]): readonly RealServerKey[] {
  if (after === before) return []
  const added: RealServerKey[] = []
  let stays = false
  let next = 0
  for (const server of after) {
    let other = before[next]
    while (other !== undefined && compareRealServers(other, server) < 0) other = before[++next]
    if (other !== undefined && compareRealServers(other, server) === 0) stays = true
    else added.push(realServerKey(server))
  }
  return stays ? added : []
}

/**
 * The wanted virtual server for a process that does not know what starts: a live weight from 1 to
 * the full one is one that the running daemon may want now.
 */
export function acceptStarting(wanted: VirtualServer, live: VirtualServer | undefined): VirtualServer {
  const liveWeights = new Map(live?.realServers.map((server) => [realServerKey(server), server.weight]))
  const realServers = wanted.realServers.map((server) => {
    const weight = liveWeights.get(realServerKey(server)) ?? server.weight
    return weight > 0 && weight < server.weight ? { ...server, weight } : server
  })
  return { ...wanted, realServers }
}
