/** What a soak has shown, pure: its figures, and a sentence for each that breaks its limit. */
import { percentile, rounded } from '../../bench/statistics.ts'
import { sumOf } from '../../bench/metrics-page.ts'
import { ROUNDS_A_CYCLE } from './changes.ts'
import { blockMeans, type Point, type Slope, slopeOf } from './figures.ts'
import type { SoakOutcome } from './guest.ts'
import type { Checkpoint } from './run.ts'

/** In MiB for a million changes, and how many more at the end than after the warm-up. */
export const LIMITS = { anonymousMiB: 2, heapMiB: 0.5, descriptors: 2, timers: 10 } as const
/** The share of cycles in which code is compiled and buffers find their sizes; at least one. */
const WARM_UP = 0.25
const MIB = 2 ** 20

export interface SoakFigures {
  readonly problems: readonly string[]
  readonly [figure: string]: unknown
}

export function judgeSoak(outcome: SoakOutcome): SoakFigures {
  const { checkpoints, changes, seconds, changingSeconds, lagsMs, counted } = outcome
  const cycles = Math.floor(checkpoints.length / ROUNDS_A_CYCLE)
  const warmUp = Math.max(1, Math.round(cycles * WARM_UP)) * ROUNDS_A_CYCLE
  const warm = checkpoints.slice(warmUp)
  const deep = warm.flatMap(({ changes: made, inside }) => (inside === undefined ? [] : [{ ...inside, made }]))
  const anonymous = slopeOf(
    blockMeans(
      warm.map((one) => pointOf(one, one.anonymousMiB)),
      ROUNDS_A_CYCLE,
    ),
  )
  const heap = slopeOf(deep.map(({ made, heapBytes }) => ({ x: made / 1e6, y: heapBytes / MIB })))
  const total = Object.values(changes).reduce((sum, one) => sum + one, 0)
  const growth = (of: (one: (typeof deep)[number]) => number): readonly [number, number] => [
    of(deep[0] ?? none),
    of(deep.at(-1) ?? none),
  ]
  const descriptors = [warm[0]?.descriptors ?? 0, warm.at(-1)?.descriptors ?? 0] as const
  const failures = sumOf(counted.page, 'kubeipvs_operations_total', /outcome="failure"/)
  const figures = {
    seconds,
    changes: total,
    changesByKind: changes,
    changesASecond: rounded(total / Math.max(1, changingSeconds), 1),
    rounds: checkpoints.length,
    roundsEqualToAFreshStart: checkpoints.filter((one) => one.differences.length === 0).length,
    settledMs: {
      median: percentile(
        checkpoints.map((one) => one.settledMs),
        0.5,
      ),
      max: percentile(
        checkpoints.map((one) => one.settledMs),
        1,
      ),
    },
    objects: outcome.objects,
    anonymousMiB: {
      afterWarmUp: rounded(warm[0]?.anonymousMiB ?? null, 1),
      last: rounded(warm.at(-1)?.anonymousMiB ?? null, 1),
      aMillionChanges: shown(anonymous),
    },
    heapMiB: {
      ...ends(
        growth((one) => one.heapBytes / MIB),
        2,
      ),
      aMillionChanges: shown(heap),
    },
    externalMiB: ends(
      growth((one) => one.externalBytes / MIB),
      2,
    ),
    descriptors: ends(descriptors, 0),
    timers: ends(
      growth((one) => one.timers),
      0,
    ),
    handles: ends(
      growth((one) => one.handles),
      0,
    ),
    promises: ends(
      growth((one) => one.promises),
      0,
    ),
    maps: ends(
      growth((one) => one.maps),
      0,
    ),
    sets: ends(
      growth((one) => one.sets),
      0,
    ),
    lagMs: {
      probes: lagsMs.length,
      p50: rounded(percentile(lagsMs, 0.5), 1),
      p99: rounded(percentile(lagsMs, 0.99), 1),
      max: rounded(percentile(lagsMs, 1), 1),
    },
    eventLoopDelay: delaysOf(counted.delays),
    operations: sumOf(counted.page, 'kubeipvs_operations_total', /outcome="success"/),
    failedOperations: failures,
    endpointChanges: valueOf(counted.page, 'kubeproxy_sync_proxy_rules_endpoint_changes_total'),
    serviceChanges: valueOf(counted.page, 'kubeproxy_sync_proxy_rules_service_changes_total'),
    complaints: outcome.complaints,
    limits: LIMITS,
    checkpoints,
  }
  const wrong = checkpoints.filter((one) => one.differences.length > 0)
  const odd = deep.filter(({ diff }) => diff !== '')
  const problems = [
    ...grows('anonymous memory', anonymous, LIMITS.anonymousMiB),
    ...grows('the heap in equal states', heap, LIMITS.heapMiB),
    ...more('descriptors', descriptors, LIMITS.descriptors),
    ...more(
      'timers',
      growth((one) => one.timers),
      LIMITS.timers,
    ),
    ...wrong.map(
      (one) => `after round ${one.round + 1} the kernel differed from a fresh start: ${one.differences.join('; ')}`,
    ),
    ...odd.map(({ diff, made }) => `after ${made} changes kube-ipvs diff found: ${diff}`),
    ...(outcome.lostProbes > 0 ? [`${outcome.lostProbes} changes did not reach the kernel within a minute`] : []),
    ...(anonymous === undefined ? ['the run was too short for a slope'] : []),
  ]
  return { problems, ...figures }
}

const none = {
  heapBytes: 0,
  externalBytes: 0,
  handles: 0,
  timers: 0,
  promises: 0,
  abortSignals: 0,
  maps: 0,
  sets: 0,
  diff: '',
  made: 0,
}

const pointOf = ({ changes }: Checkpoint, y: number): Point => ({ x: changes / 1e6, y })

const shown = (slope: Slope | undefined): object | null =>
  slope === undefined
    ? null
    : {
        slope: rounded(slope.slope, 2),
        low: rounded(slope.low, 2),
        high: rounded(slope.high, 2),
        points: slope.points,
        autocorrelation: rounded(slope.autocorrelation, 2),
      }

const ends = ([first, last]: readonly [number, number], digits: number): object => ({
  afterWarmUp: rounded(first, digits),
  last: rounded(last, digits),
})

/** The whole interval is above the limit. */
function grows(what: string, slope: Slope | undefined, limit: number): string[] {
  if (slope === undefined || slope.low <= limit) return []
  return [
    `${what} grows by ${slope.slope.toFixed(2)} MiB in a million changes, at least ${slope.low.toFixed(2)} with 95 % confidence`,
  ]
}

const more = (what: string, [first, last]: readonly [number, number], limit: number): string[] =>
  last - first <= limit ? [] : [`the ${what} grew from ${first} to ${last}`]

/** Buckets with the number of delays in each of them, not in all below it. */
function delaysOf(delays: Readonly<Record<string, number>>): object {
  const { count = 0, sum = 0, ...buckets } = delays
  let before = 0
  const own = Object.entries(buckets)
    .toSorted(([a], [b]) => Number(a.replace('+Inf', 'Infinity')) - Number(b.replace('+Inf', 'Infinity')))
    .map(([bound, upTo]) => {
      const alone = upTo - before
      before = upTo
      return [`to ${bound} s`, alone] as const
    })
    .filter(([, alone]) => alone > 0)
  return { count, meanMs: rounded((sum / Math.max(1, count)) * 1000, 2), ...Object.fromEntries(own) }
}

const valueOf = (page: string, family: string): number | null => {
  const value = new RegExp(`^${family} (\\S+)$`, 'm').exec(page)?.[1]
  return value === undefined ? null : Number(value)
}
