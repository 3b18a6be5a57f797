/**
 * How long single changes take while other work is under way: the work (a burst, the removal of a namespace, an audit), the times of the
 * changes, and the event loop meanwhile. Both benches that measure it, in a guest and without a kernel, use this file.
 */
import type { Arrivals } from '../../src/modes/bench-probe.ts'
import { type ApiServerProcess, SERVICES_A_NAMESPACE, type Written } from './api-server-process.ts'
import { percentile, rounded } from './statistics.ts'
import { namespaceOf, serviceName } from '../api-server/generate.ts'

/**
 * What is under way. The kernel keeps each deleted real server for two to four minutes, and walks over all of them for each new one. So the work that
 * deletes most comes last: whatever was measured after it would take longer.
 */
export const DISTURBANCES = ['nothing', 'audit', 'namespace', 'burst'] as const
export type Disturbance = (typeof DISTURBANCES)[number]
/** What the changes of one row were made beside: such work, or the drains that follow a burst. */
export type Beside = Disturbance | 'drains'

/** One timed change, in milliseconds of CLOCK_MONOTONIC. */
export interface TimedChange {
  /** Of the EndpointSlice. */
  readonly key: string
  /** The API server began to send it. */
  readonly writtenMs: number
  /** The kernel had it; undefined: not in time. */
  readonly doneMs: number | undefined
}

/** The changes beside one kind of work. */
export interface Fairness {
  readonly beside: Beside
  /** How many changes were timed. */
  readonly changes: number
  /** From the arrival in the daemon (its reader of the watch hands the change over) to the kernel, in milliseconds; null: none arrived. */
  readonly arrivalP50Ms: number | null
  readonly arrivalP99Ms: number | null
  readonly arrivalMaxMs: number | null
  /** From the API server's write to the kernel. */
  readonly writeP50Ms: number | null
  readonly writeP99Ms: number | null
  readonly writeMaxMs: number | null
  /** Longest time between two turns of the event loop, and the longest part of one that its thread had a processor. */
  readonly eventLoopMaxMs: number | null
  readonly eventLoopOwnMaxMs: number | null
  /** How long the work itself took, until the kernel had all of it; the median where it was repeated, null where it has no end. */
  readonly workMs: number | null
}

export const BURST_PERCENT = 10
/** The Services that are replaced in a burst have numbers that this divides, so others are those of probes. */
const BURST_STEP = Math.round(100 / BURST_PERCENT)
/** The namespace that is removed; its Services get no probes. */
export const REMOVED_NAMESPACE = 0

/** The Services whose changes are timed, in an endless order in which neighbours are distant: not in a burst and not in the namespace. */
export function* probedServices(services: number): Generator<number, never, undefined> {
  const first = services > SERVICES_A_NAMESPACE * 2 ? SERVICES_A_NAMESPACE * (REMOVED_NAMESPACE + 1) : 0
  const fitting = (service: number): boolean => service % BURST_STEP !== 0
  const range = services - first
  for (let turn = 0; ; ) {
    turn = (turn + 7919) % range
    if (range <= 1 || fitting(first + turn)) yield first + turn
    else if (fitting(first + turn + 1) && first + turn + 1 < services) yield first + turn + 1
  }
}

/** The key of a Service's slice in the daemon. */
export const sliceKeyOf = (service: number): string => `${namespaceOf(service)}/${serviceName(service)}-x7k2p`

/** Does the work. Resolves to the Services as the kernel must have them after a burst, or to those that must be gone. */
export function disturb(api: ApiServerProcess, what: 'burst' | 'namespace'): Promise<Written> {
  return what === 'burst' ? api.burst(BURST_PERCENT) : api.deleteNamespace(REMOVED_NAMESPACE)
}

/** The figures of some changes. @param loop of the reading after them */
export function fairnessOf(
  beside: Beside,
  changes: readonly TimedChange[],
  arrivals: Arrivals,
  loop: Pick<Fairness, 'eventLoopMaxMs' | 'eventLoopOwnMaxMs'>,
  worksMs: readonly number[],
): Fairness {
  const arrivedMs = arrivalTimes(changes, arrivals)
  const done = changes.flatMap(({ writtenMs, doneMs }, index) =>
    doneMs === undefined ? [] : [{ write: doneMs - writtenMs, arrival: doneMs - (arrivedMs[index] ?? Number.NaN) }],
  )
  const writes = done.map(({ write }) => write)
  const own = done.map(({ arrival }) => arrival).filter((time) => !Number.isNaN(time))
  return {
    beside,
    changes: done.length,
    arrivalP50Ms: percentile(own, 0.5),
    arrivalP99Ms: percentile(own, 0.99),
    arrivalMaxMs: percentile(own, 1),
    writeP50Ms: percentile(writes, 0.5),
    writeP99Ms: percentile(writes, 0.99),
    writeMaxMs: percentile(writes, 1),
    eventLoopMaxMs: loop.eventLoopMaxMs,
    eventLoopOwnMaxMs: loop.eventLoopOwnMaxMs,
    workMs: percentile(worksMs, 0.5),
  }
}

/** The same with two digits after each point. */
export function plainFairness(fairness: Fairness): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fairness).map(([name, value]) => [name, typeof value === 'number' ? rounded(value, 2) : value]),
  )
}

/** When each change arrived: the first arrival of its slice after it was written. Both lists are in the order of time. */
function arrivalTimes(changes: readonly TimedChange[], arrivals: Arrivals): (number | undefined)[] {
  const byKey = new Map<string, number[]>()
  for (const [key, atMs] of arrivals) {
    const times = byKey.get(key)
    if (times === undefined) byKey.set(key, [atMs])
    else times.push(atMs)
  }
  return changes.map(({ key, writtenMs }) => byKey.get(key)?.find((atMs) => atMs >= writtenMs))
}
