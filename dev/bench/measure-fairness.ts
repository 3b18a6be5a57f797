/**
 * The phase of `--burst-with-probe` in a guest: single changes, one after the other, beside nothing, a burst, the removal of a namespace and
 * an audit. A change ends when the kernel has the new endpoint, as in the phase of single changes.
 */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Arrivals, arrivalsFile } from '../../src/modes/bench-probe.ts'
import {
  type Disturbance,
  DISTURBANCES,
  disturb,
  type Fairness,
  fairnessOf,
  probedServices,
  REMOVED_NAMESPACE,
  sliceKeyOf,
  type TimedChange,
} from './fairness.ts'
import type { ApiServerProcess } from './api-server-process.ts'
import type { MeasuredProgram } from './measured-program.ts'
import { monotonicMs, type TableView } from './table-view.ts'

export interface FairnessOptions {
  readonly services: number
  readonly api: ApiServerProcess
  readonly table: TableView
  /** Until drains have ended. */
  readonly settleMs: number
  readonly say: (text: string) => void
}

/** The limit of one change, and of the work. */
const CHANGE_MS = 60_000
const WORK_MS = 120_000
/** The pause between two changes beside work that ends, and beside work that takes long or none. */
const SHORT_PAUSE_MS = 1
const LONG_PAUSE_MS = 100
/** Work is repeated until so many changes were timed beside it, but not more often than this. */
const ENOUGH = 100
const MOST_TIMES = 6
/** Audits begin 30 s after each other (syncPeriod), so one of each kind begins in this time. */
const AUDIT_MS = 32_000
const QUIET_MS = 5_000

/** Rejects when the program has no probe, or a change does not reach the kernel. */
export async function measureFairness(options: FairnessOptions, program: MeasuredProgram): Promise<Fairness[]> {
  const all: Fairness[] = []
  for (const beside of DISTURBANCES) {
    const fairness = await measureBeside(options, program, beside)
    const { changes, arrivalP50Ms, arrivalP99Ms, eventLoopOwnMaxMs } = fairness
    options.say(
      `${changes} changes beside ${beside}: p50 ${arrivalP50Ms?.toFixed(2)} ms, p99 ${arrivalP99Ms?.toFixed(1)} ms from their arrival, event loop held for ${eventLoopOwnMaxMs?.toFixed(1)} ms`,
    )
    all.push(fairness)
  }
  return all
}

async function measureBeside(
  options: FairnessOptions,
  program: MeasuredProgram,
  beside: Disturbance,
): Promise<Fairness> {
  const { api, table, services } = options
  const probed = probedServices(services)
  const timed: TimedChange[] = []
  const arrivals: Arrivals[number][] = []
  const worksMs: number[] = []
  const loop = { eventLoopMaxMs: 0, eventLoopOwnMaxMs: 0 }

  const change = async (): Promise<void> => {
    const service = probed.next().value
    const written = await api.change(service)
    const doneMs = await table.whenAdded(written, written.atMs + CHANGE_MS)
    if (doneMs === undefined) throw new Error(`a change did not reach the kernel in ${CHANGE_MS / 1000} s`)
    timed.push({ key: sliceKeyOf(service), writtenMs: written.atMs, doneMs })
  }
  const changesFor = async (milliseconds: number): Promise<void> => {
    for (const endMs = monotonicMs() + milliseconds; monotonicMs() < endMs; await sleep(LONG_PAUSE_MS)) await change()
  }
  const changesBeside = async (what: 'burst' | 'namespace'): Promise<void> => {
    const { atMs, expected } = await disturb(api, what)
    let isOver = false
    const over = (
      what === 'burst'
        ? table.whenComplete(expected, atMs + WORK_MS, () => program.isAlive)
        : table.whenGone(expected, atMs + WORK_MS)
    ).finally(() => {
      isOver = true
    })
    while (!isOver) {
      await change()
      await sleep(SHORT_PAUSE_MS)
    }
    const doneMs = await over
    if (doneMs !== undefined) worksMs.push(doneMs - atMs)
  }

  for (let time = 0; time < MOST_TIMES && timed.length < ENOUGH; time++) {
    if ((await program.probe()) === undefined)
      throw new Error('the program has no probe, which --burst-with-probe needs')
    if (beside === 'nothing') await changesFor(QUIET_MS)
    else if (beside === 'audit') await changesFor(AUDIT_MS)
    else await changesBeside(beside)
    const reading = await program.probe()
    loop.eventLoopMaxMs = Math.max(loop.eventLoopMaxMs, reading?.eventLoopMaxMs ?? 0)
    loop.eventLoopOwnMaxMs = Math.max(loop.eventLoopOwnMaxMs, reading?.eventLoopOwnMaxMs ?? 0)
    arrivals.push(...(JSON.parse(readFileSync(arrivalsFile(program.probeFile), 'utf8')) as Arrivals)) // written by bench-probe.ts
    if (beside === 'namespace') await api.restoreNamespace(REMOVED_NAMESPACE)
    // Drains end.
    await sleep(options.settleMs)
    if (beside === 'nothing' || beside === 'audit') break
  }
  return fairnessOf(beside, timed, arrivals, loop, worksMs)
}
