/**
 * CPU and heap profiles of this process, taken with V8's inspector while the process works. Taking
 * a profile slows the process down a little, so only one is taken at a time, and it ends when its
 * client disconnects.
 * @impure
 */
import type { HeapProfiler, Profiler, Session } from 'node:inspector/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { CodedError } from '../values/errors.ts'
import { type CallFrame, encodeProfile, type ProfileSample } from './pprof-codec.ts'

/** Sampling intervals, close to the defaults of V8 and Go. */
const CPU_INTERVAL_US = 1000
const HEAP_INTERVAL_BYTES = 65_536

/** A profile in V8's format (.cpuprofile, .heapprofile) and as profile.proto. */
export interface TakenProfile {
  readonly v8: () => string
  readonly pprof: () => Uint8Array
}

let isTaking = false

/**
 * Takes one profile. An abort ends it early, with the samples so far. Rejects with `profile-busy`
 * during another profile.
 */
export async function takeProfile(
  kind: 'profile' | 'heap',
  seconds: number,
  signal: AbortSignal,
): Promise<TakenProfile> {
  if (isTaking) throw new CodedError('profile-busy', 'another profile is being taken')
  isTaking = true
  try {
    // Loaded only when a profile is taken.
    const inspector = await import('node:inspector/promises')
    const session = new inspector.Session()
    session.connect()
    try {
      return await (kind === 'profile' ? takeCpu : takeHeap)(session, seconds, signal)
    } finally {
      session.disconnect()
    }
  } finally {
    isTaking = false
  }
}

async function takeCpu(session: Session, seconds: number, signal: AbortSignal): Promise<TakenProfile> {
  await session.post('Profiler.enable')
  await session.post('Profiler.setSamplingInterval', { interval: CPU_INTERVAL_US })
  await session.post('Profiler.start')
  await wait(seconds, signal)
  const { profile } = await session.post('Profiler.stop')
  const span = spanOf(profile.endTime - profile.startTime)
  return {
    v8: () => JSON.stringify(profile),
    pprof: () =>
      encodeProfile({
        types: [
          ['samples', 'count'],
          ['cpu', 'nanoseconds'],
        ],
        samples: cpuSamples(profile),
        ...span,
        period: CPU_INTERVAL_US * 1000,
      }),
  }
}

async function takeHeap(session: Session, seconds: number, signal: AbortSignal): Promise<TakenProfile> {
  const startedMs = performance.now()
  await session.post('HeapProfiler.startSampling', { samplingInterval: HEAP_INTERVAL_BYTES })
  await wait(seconds, signal)
  const { profile } = await session.post('HeapProfiler.stopSampling')
  const span = spanOf((performance.now() - startedMs) * 1000)
  return {
    v8: () => JSON.stringify(profile),
    pprof: () =>
      encodeProfile({
        types: [['inuse_space', 'bytes']],
        samples: heapSamples(profile.head, []),
        ...span,
        period: HEAP_INTERVAL_BYTES,
      }),
  }
}

function wait(seconds: number, signal: AbortSignal): Promise<void> {
  return sleep(seconds * 1000, undefined, { signal }).catch(() => undefined)
}

/** Start and duration of a profile that has just ended. */
function spanOf(microseconds: number): { readonly startNanoseconds: bigint; readonly durationNanoseconds: bigint } {
  const durationNanoseconds = BigInt(Math.round(microseconds)) * 1000n
  return { startNanoseconds: BigInt(Date.now()) * 1_000_000n - durationNanoseconds, durationNanoseconds }
}

/** Frames in which no code of the program runs; V8 samples them too. */
const NO_WORK: ReadonlySet<string> = new Set(['(idle)', '(root)'])

function* cpuSamples({ nodes, samples = [], timeDeltas = [] }: Profiler.Profile): Generator<ProfileSample> {
  const parents = new Map<number, Profiler.ProfileNode>()
  for (const node of nodes) for (const child of node.children ?? []) parents.set(child, node)
  const spent = new Map<number, { count: number; nanoseconds: number }>()
  for (const [index, id] of samples.entries()) {
    const sum = spent.get(id) ?? { count: 0, nanoseconds: 0 }
    sum.count++
    // A sample stands for the time up to the next sample.
    sum.nanoseconds += Math.max(0, timeDeltas[index + 1] ?? 0) * 1000
    spent.set(id, sum)
  }
  for (const node of nodes) {
    const sum = spent.get(node.id)
    if (sum === undefined || NO_WORK.has(node.callFrame.functionName)) continue
    const stack: CallFrame[] = []
    for (let at: Profiler.ProfileNode | undefined = node; at !== undefined; at = parents.get(at.id))
      if (!NO_WORK.has(at.callFrame.functionName)) stack.push(at.callFrame)
    yield { stack, values: [sum.count, sum.nanoseconds] }
  }
}

function* heapSamples(
  node: HeapProfiler.SamplingHeapProfileNode,
  below: readonly CallFrame[],
): Generator<ProfileSample> {
  const stack = NO_WORK.has(node.callFrame.functionName) ? below : [node.callFrame, ...below]
  if (node.selfSize > 0) yield { stack, values: [node.selfSize] }
  for (const child of node.children) yield* heapSamples(child, stack)
}
