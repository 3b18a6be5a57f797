/**
 * Runs one input and says what is wrong with the answer: an error that the program does not throw
 * on purpose, too much processor time, too much memory, or members added to all objects. The clock
 * only raises a suspicion; a slow input is run again and measured by the processor time of its thread.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { objectsAreClean, type Target } from './target.ts'

/** What one input may take. */
export interface Limits {
  readonly milliseconds: number
  readonly microsecondsPerByte: number
  readonly heapBytes: number
}

export const LIMITS: Limits = { milliseconds: 50, microsecondsPerByte: 1, heapBytes: 64 * 1024 * 1024 }

export type FindKind = 'error' | 'time' | 'memory' | 'pollution'

/** What is wrong with one input. */
export interface Find {
  readonly kind: FindKind
  /** Equal for inputs with one cause, as far as that can be told: the error and the place that threw it. */
  readonly key: string
  readonly text: string
}

/** Runs of a suspect; the fastest counts, because other programs disturb the rest. */
const RUNS = 3
/** An input below this time is not asked for memory. */
const MEMORY_FROM_MS = 4

let collect: (() => void) | undefined

/** Frees what nothing refers to any more, so that what an input needs can be told from what others left. */
function collectGarbage(): void {
  if (collect === undefined) {
    setFlagsFromString('--expose-gc')
    collect = runInNewContext('gc') as () => void // V8's own function
  }
  collect()
}

function memoryNow(): number {
  const { heapTotal, external } = process.memoryUsage()
  return heapTotal + external
}

/** The error and the first place of this repository in its stack. */
export function findOf(error: unknown): Find {
  const known = error instanceof Error ? error : new Error(String(error))
  const code = 'code' in known ? ` ${String(known.code)}` : ''
  const lines = (known.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line))
  const ours =
    lines.find((line) => /\/(?:src|native)\//.test(line)) ?? lines.find((line) => /\/targets\//.test(line)) ?? ''
  const [, place = ''] = /\/((?:src|native|dev)\/[^):]+:\d+)/.exec(ours) ?? []
  const rule = known.name === 'RuleBroken' ? ` ${known.message.slice(0, 60)}` : ''
  return {
    kind: 'error',
    key: `${known.name}${code} at ${place}${rule}`,
    text: `${known.name}${code}: ${known.message.slice(0, 300)} at ${place}`,
  }
}

async function runOnce({ run }: Target, input: Uint8Array): Promise<Find | undefined> {
  try {
    const pending = run(input)
    if (pending !== undefined) await pending
    return undefined
  } catch (error) {
    return findOf(error)
  }
}

/** Processor time of this thread, in milliseconds. */
function threadTime(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

/** The processor time of the fastest of some runs. */
async function fastest(target: Target, input: Uint8Array, allowed: number): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let count = 0; count < RUNS && least > allowed; count++) {
    const before = threadTime()
    await runOnce(target, input)
    least = Math.min(least, threadTime() - before)
  }
  return least
}

async function slowness(target: Target, input: Uint8Array, allowed: number): Promise<Find | undefined> {
  const least = await fastest(target, input, allowed)
  if (least <= allowed) return undefined
  const text = `${least.toFixed(0)} ms of processor time for ${input.length} bytes, allowed are ${allowed.toFixed(0)}`
  return { kind: 'time', key: 'time', text }
}

async function greed(target: Target, input: Uint8Array, limits: Limits): Promise<Find | undefined> {
  let least = Number.POSITIVE_INFINITY
  for (let count = 0; count < 2 && least > limits.heapBytes; count++) {
    collectGarbage()
    const before = memoryNow()
    await runOnce(target, input)
    least = Math.min(least, memoryNow() - before)
  }
  if (least <= limits.heapBytes) return undefined
  return {
    kind: 'memory',
    key: 'memory',
    text: `${(least / 2 ** 20).toFixed(0)} MiB of heap for ${input.length} bytes`,
  }
}

/** Judges one input. Never rejects. */
export async function judge(target: Target, input: Uint8Array, limits = LIMITS): Promise<Find | undefined> {
  const start = performance.now()
  const found = await runOnce(target, input)
  const took = performance.now() - start
  if (found !== undefined) return found
  if (!objectsAreClean()) {
    for (const name in Object.prototype) Reflect.deleteProperty(Object.prototype, name)
    return { kind: 'pollution', key: 'pollution', text: 'all objects have new members' }
  }
  const { microsecondsPerByte = limits.microsecondsPerByte } = target
  const allowed = limits.milliseconds + (microsecondsPerByte * input.length) / 1000
  if (took > allowed) return (await slowness(target, input, allowed)) ?? greed(target, input, limits)
  return took > MEMORY_FROM_MS ? greed(target, input, limits) : undefined
}
