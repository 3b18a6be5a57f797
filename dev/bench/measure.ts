/**
 * One boot of the bench: a cold start, and then the phases that the task names, in its order. Each
 * begins with a settled table, after the drains of the one before. A program that ends, and a cold
 * start or a burst that reaches its limit, are failures.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ApiServerProcess } from './api-server-process.ts'
import type { MeasuredProgram } from './measured-program.ts'
import { METRICS_URL, metricsPage, sumOf } from './metrics-page.ts'
import { processesBetween, processNumber, type ProgramCost } from './program-cost.ts'
import type { Measured } from './result.ts'
import { percentile } from './statistics.ts'
import { monotonicMs } from './table-view.ts'
import type { MeasureOptions, Outcome, Phase } from './task.ts'
import { trafficPhase } from './traffic.ts'

const BURST_PERCENT = 10
/** Until drains have ended and nothing changes. */
const SETTLE_MS = 4_000
/** Changes whose messages are counted, at most. */
const COUNTED_CHANGES = 50
/** A failure with the end of the program's log is cut to this length. */
const MAX_FAILURE = 1_000

const PHASES: Readonly<Record<Phase, (options: MeasureOptions, program: MeasuredProgram) => Promise<Measured>>> = {
  traffic: trafficPhase,
  changes: changePhase,
  burst: burstPhase,
  rest: restPhase,
  inside: insidePhase,
}

export async function measure(options: MeasureOptions): Promise<Outcome> {
  const before = await readOutside(options.api)
  const program = options.start()
  try {
    let measured = await coldStart(options, program, before)
    for (const phase of options.phases) {
      await sleep(SETTLE_MS)
      measured = { ...measured, ...(await PHASES[phase](options, program)) }
    }
    if (!program.isAlive) throw new Error(`the program ended:\n${program.logTail}`)
    return { measured }
  } catch (error) {
    const failure = (error instanceof Error ? error.message : String(error)).slice(0, MAX_FAILURE)
    options.say(failure)
    return { failure }
  } finally {
    await program.stop()
  }
}

async function coldStart(options: MeasureOptions, program: MeasuredProgram, before: Outside): Promise<Measured> {
  const { services, endpoints, api, table, limits, say } = options
  const deadlineMs = program.startedMs + limits.coldStartSeconds * 1000
  const completeMs = await table.whenComplete(api.expected(), deadlineMs, () => program.isAlive)
  if (!program.isAlive) throw new Error(`the program ended:\n${program.logTail}`)
  if (completeMs === undefined) throw new Error(`no complete table after ${limits.coldStartSeconds} s`)
  const after = { own: program.cost(), ...(await readOutside(api)) }
  const coldStartMs = completeMs - program.startedMs
  say(`cold start ${coldStartMs.toFixed(0)} ms, ${after.own.cpuMs} ms of processor time`)
  return {
    services,
    endpoints,
    coldStartMs,
    coldStartCpuMs: after.own.cpuMs,
    coldStartApiCpuMs: after.apiCpuMs - before.apiCpuMs,
    coldStartMinorFaults: after.own.minorFaults,
    coldStartApiBytes: after.apiBytes - before.apiBytes,
    coldStartProcesses: processesBetween(before.processNumber, after.processNumber),
  }
}

/** What is read before and after a phase. */
interface Outside {
  readonly processNumber: number
  readonly apiBytes: number
  readonly apiCpuMs: number
}
interface Reading extends Outside {
  readonly own: ProgramCost
}

async function readOutside(api: ApiServerProcess): Promise<Outside> {
  return { processNumber: processNumber(), apiBytes: await api.bytesSent(), apiCpuMs: api.cpuMs() }
}

/** Runs `work`, waits until its drains have ended, and returns the readings before and after. */
async function reading<T>(
  { api }: MeasureOptions,
  program: MeasuredProgram,
  work: () => Promise<T>,
): Promise<[T, Reading, Reading]> {
  const read = async (): Promise<Reading> => ({ own: program.cost(), ...(await readOutside(api)) })
  const before = await read()
  const result = await work()
  await sleep(SETTLE_MS)
  return [result, before, await read()]
}

/**
 * Makes single changes one after the other. Resolves to the time of each from its write in the API
 * server until the kernel has the endpoint; one that reaches the limit is infinite, and ends the
 * series.
 */
async function timeChanges({ api, table, changes, limits }: MeasureOptions): Promise<number[]> {
  const timesMs: number[] = []
  const endMs = monotonicMs() + limits.changesSeconds * 1000
  while (timesMs.length < changes && monotonicMs() < endMs) {
    const change = await api.change()
    const doneMs = await table.whenAdded(change, change.atMs + limits.changeSeconds * 1000)
    timesMs.push((doneMs ?? Infinity) - change.atMs)
    if (doneMs === undefined) break
    await sleep(limits.betweenChangesMs)
  }
  return timesMs
}

/** Times single changes, and counts what they cost. */
async function changePhase(options: MeasureOptions, program: MeasuredProgram): Promise<Measured> {
  const [timesMs, before, after] = await reading(options, program, () => timeChanges(options))
  const changes = timesMs.filter(Number.isFinite).length
  if (changes < timesMs.length) options.say(`a change took more than ${options.limits.changeSeconds} s`)
  const [changeP50Ms, changeP99Ms] = [percentile(timesMs, 0.5), percentile(timesMs, 0.99)]
  options.say(`${changes} changes, p50 ${changeP50Ms?.toFixed(2)} ms, p99 ${changeP99Ms?.toFixed(2)} ms`)
  const each = (amount: number): number | null => (changes === 0 ? null : amount / changes)
  return {
    changes,
    changeP50Ms,
    changeP99Ms,
    processesPerChange: each(processesBetween(before.processNumber, after.processNumber)),
    cpuMsPerChange: each(after.own.cpuMs - before.own.cpuMs),
    apiBytesPerChange: each(after.apiBytes - before.apiBytes),
  }
}

/** Replaces every endpoint of some Services at once; resolves to the time until the kernel has all of them. */
async function burst({ api, table, limits }: MeasureOptions, program: MeasuredProgram): Promise<number> {
  const { atMs, expected } = await api.burst(BURST_PERCENT)
  const doneMs = await table.whenComplete(expected, atMs + limits.changeSeconds * 1000, () => program.isAlive)
  if (doneMs === undefined) throw new Error(`a burst is not complete after ${limits.changeSeconds} s`)
  return doneMs - atMs
}

async function burstPhase(options: MeasureOptions, program: MeasuredProgram): Promise<Measured> {
  const [burstMs, before, after] = await reading(options, program, () => burst(options, program))
  options.say(`burst ${burstMs.toFixed(0)} ms`)
  return {
    burstMs,
    burstProcesses: processesBetween(before.processNumber, after.processNumber),
    burstCpuMs: after.own.cpuMs - before.own.cpuMs,
  }
}

/** Processor time, wake-ups and memory of a program that has nothing to do. */
async function restPhase({ limits, say }: MeasureOptions, program: MeasuredProgram): Promise<Measured> {
  const { idleSeconds } = limits
  const [from, processes, startedMs] = [program.cost(), processNumber(), monotonicMs()]
  await sleep(idleSeconds * 1000)
  const [to, elapsedMs] = [program.cost(), monotonicMs() - startedMs]
  const idleCpuPercent = ((to.cpuMs - from.cpuMs) / elapsedMs) * 100
  const idleWakeUpsPerSecond = ((to.waits - from.waits) / elapsedMs) * 1000
  const memory = program.memory()
  say(
    `idle ${idleCpuPercent.toFixed(2)} % of a processor, ${idleWakeUpsPerSecond.toFixed(2)} wake-ups a second, ${memory.rssMiB.toFixed(0)} MiB`,
  )
  const idleProcesses = processesBetween(processes, processNumber())
  return { idleCpuPercent, idleWakeUpsPerSecond, idleSeconds, idleProcesses, ...memory }
}

/**
 * The event loop during changes, a burst and the rest after it, in which an audit starts
 * (syncPeriod is 30 s), then the messages of changes. It is the last phase, because reading the
 * metrics costs the program time, and wakes it from then on.
 */
async function insidePhase(options: MeasureOptions, program: MeasuredProgram): Promise<Measured> {
  if (options.program !== 'kube-ipvs') return {}
  const counted = { ...options, changes: Math.min(options.changes, COUNTED_CHANGES) }
  await program.watchEventLoop()
  await timeChanges(counted)
  await burst(options, program)
  await sleep(options.limits.idleSeconds * 1000)
  const eventLoopMaxMs = await program.watchEventLoop()
  options.say(`event loop held for at most ${eventLoopMaxMs?.toFixed(1)} ms`)
  // In iptables mode programs of iptables write, and what they send is not counted.
  if (options.mode !== 'ipvs') return { eventLoopMaxMs }
  const before = await sent()
  const changes = (await timeChanges(counted)).length
  await sleep(SETTLE_MS)
  const after = await sent()
  return {
    eventLoopMaxMs,
    messagesPerChange: (after.messages - before.messages) / changes,
    datagramsPerChange: (after.datagrams - before.datagrams) / changes,
  }
}

/** What the program has sent to change the kernel, without its audits. */
async function sent() {
  const page = await metricsPage(METRICS_URL)
  const changing = /^connection="(?!\w+-audit")[^,]*(?:,direction="out")?$/
  return {
    messages: sumOf(page, 'kubeipvs_netlink_messages_total', changing),
    datagrams: sumOf(page, 'kubeipvs_netlink_datagrams_total', changing),
  }
}
