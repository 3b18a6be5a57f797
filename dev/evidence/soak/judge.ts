/** What a soak has shown, pure: its figures, and a sentence for each that breaks its limit. */
import { percentile, rounded } from '../../bench/statistics.ts'
import { sumOf } from '../../bench/metrics-page.ts'
import type { PartResult } from '../part.ts'
import { ROUNDS_A_CYCLE } from './changes.ts'
import { blockMeans, type Slope, slopeOf } from './figures.ts'
import type { SoakOutcome } from './guest.ts'

/** MiB in a million changes, and how many more at the end than after the warm-up. */
const LIMITS = { anonymousMiB: 2, heapMiB: 0.5, descriptors: 2, timers: 10 } as const
/** The share of cycles in which code is compiled and buffers find their sizes; at least one. */
const WARM_UP = 0.25
const MIB = 2 ** 20

/** A figure after the warm-up and at the end. */
interface Ends {
  readonly afterWarmUp: number | null
  readonly last: number | null
}

export function judgeSoak(outcome: SoakOutcome): PartResult {
  const { checkpoints, changes, lagsMs } = outcome
  const { page, delays } = outcome.counted
  const cycles = Math.floor(checkpoints.length / ROUNDS_A_CYCLE)
  const warm = checkpoints.slice(Math.max(1, Math.round(cycles * WARM_UP)) * ROUNDS_A_CYCLE)
  const deep = warm.flatMap(({ changes: made, inside }) => (inside === undefined ? [] : [{ ...inside, made }]))
  const samples = warm.map(({ changes: made, anonymousMiB }) => ({ x: made / 1e6, y: anonymousMiB }))
  const anonymous = slopeOf(blockMeans(samples, ROUNDS_A_CYCLE))
  const heap = slopeOf(deep.map(({ made, heapBytes }) => ({ x: made / 1e6, y: heapBytes / MIB })))
  const total = Object.values(changes).reduce((sum, one) => sum + one, 0)
  const settledMs = checkpoints.map((one) => one.settledMs)
  const wrong = checkpoints.filter((one) => one.differences.length > 0)
  const figures = {
    seconds: outcome.seconds,
    changes: total,
    changesASecond: rounded(total / Math.max(1, outcome.changingSeconds), 1),
    changesByKind: changes,
    endpointChanges: valueOf(page, 'kubeproxy_sync_proxy_rules_endpoint_changes_total'),
    serviceChanges: valueOf(page, 'kubeproxy_sync_proxy_rules_service_changes_total'),
    operations: sumOf(page, 'kubeipvs_operations_total', /outcome="success"/),
    failedOperations: sumOf(page, 'kubeipvs_operations_total', /outcome="failure"/),
    checks: checkpoints.length,
    checksEqualToAFreshStart: checkpoints.length - wrong.length,
    objects: outcome.objects,
    settledMs: { p50: percentile(settledMs, 0.5), max: percentile(settledMs, 1) },
    lagMs: { probes: lagsMs.length, ...percentiles(lagsMs) },
    anonymousMiB: { ...ends(samples, ({ y }) => y), inAMillionChanges: shown(anonymous) },
    heapMiB: { ...ends(deep, (one) => one.heapBytes / MIB), inAMillionChanges: shown(heap) },
    externalMiB: ends(deep, (one) => one.externalBytes / MIB),
    descriptors: ends(warm, (one) => one.descriptors),
    timers: ends(deep, (one) => one.timers),
    handles: ends(deep, (one) => one.handles),
    promises: ends(deep, (one) => one.promises),
    eventLoopDelay: delaysOf(delays),
    complaints: outcome.complaints,
    limits: LIMITS,
  }
  const problems = [
    ...grows('anonymous memory', anonymous, LIMITS.anonymousMiB),
    ...grows('the heap in equal states', heap, LIMITS.heapMiB),
    ...more('descriptors', figures.descriptors, LIMITS.descriptors),
    ...more('timers', figures.timers, LIMITS.timers),
    ...wrong.map(
      (one) => `after ${one.changes} changes the kernel was not as after a start: ${one.differences.join('; ')}`,
    ),
    ...deep.flatMap(({ diff, made }) => (diff === '' ? [] : [`after ${made} changes kube-ipvs diff found: ${diff}`])),
    ...(outcome.lostProbes > 0 ? [`${outcome.lostProbes} changes did not reach the kernel within a minute`] : []),
    ...(anonymous === undefined ? ['the run was too short for a slope'] : []),
  ]
  const columns = ['changes', 'anonymousMiB', 'heapMiB', 'descriptors', 'timers']
  const rows = checkpoints.flatMap(({ changes: made, anonymousMiB, descriptors, inside }) =>
    inside === undefined
      ? []
      : [[made, rounded(anonymousMiB, 1), rounded(inside.heapBytes / MIB, 2), descriptors, inside.timers]],
  )
  return { problems, ...figures, cycles: { columns, rows } }
}

const percentiles = (values: readonly number[]): object =>
  Object.fromEntries(
    Object.entries({ p50: 0.5, p99: 0.99, max: 1 }).map(([name, share]) => [
      name,
      rounded(percentile(values, share), 1),
    ]),
  )

function ends<T>(list: readonly T[], of: (one: T) => number): Ends {
  const [first, last] = [list[0], list.at(-1)].map((one) => (one === undefined ? null : rounded(of(one), 2)))
  return { afterWarmUp: first ?? null, last: last ?? null }
}

const shown = (slope: Slope | undefined): object | null =>
  slope === undefined
    ? null
    : Object.fromEntries(Object.entries(slope).map(([name, value]) => [name, rounded(value, 2)]))

/** A problem where the whole interval is above the limit. */
function grows(what: string, slope: Slope | undefined, limit: number): string[] {
  if (slope === undefined || slope.low <= limit) return []
  const [mean, least] = [slope.slope.toFixed(2), slope.low.toFixed(2)]
  return [`${what} grows by ${mean} MiB in a million changes, with 95 % confidence by ${least} at least`]
}

function more(what: string, { afterWarmUp, last }: Ends, limit: number): string[] {
  return (last ?? 0) - (afterWarmUp ?? 0) <= limit ? [] : [`the ${what} grew from ${afterWarmUp} to ${last}`]
}

/** Buckets with the number of delays in each of them, not in all below it. */
function delaysOf({ count = 0, sum = 0, ...buckets }: Readonly<Record<string, number>>): object {
  const secondsOf = (bound: string): number => Number(bound.replace('Inf', 'Infinity'))
  const sorted = Object.entries(buckets).toSorted(([one], [other]) => secondsOf(one) - secondsOf(other))
  const own = sorted.map(([bound, upTo], index) => [`upTo ${bound} s`, upTo - (sorted[index - 1]?.[1] ?? 0)] as const)
  const meanMs = rounded((sum / Math.max(1, count)) * 1000, 2)
  return { count, meanMs, ...Object.fromEntries(own.filter(([, alone]) => alone > 0)) }
}

const valueOf = (page: string, family: string): number | null => {
  const value = new RegExp(`^${family} (\\S+)$`, 'm').exec(page)?.[1]
  return value === undefined ? null : Number(value)
}
