/** Measures one cell in the guest, each part with a limit: what does not finish is part of the result, not an error. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { CellLimits, CellMeasured, CellOutcome, Figure } from './cell.ts'
import { idlePhase, type MeasureOptions, SETTLE_MS, type TimedChanges, timeChanges } from './measure.ts'
import type { MeasuredProgram } from './measured-program.ts'
import { percentile, rounded } from './statistics.ts'

/** A failure with the end of the program's log is cut to this length. */
const MOST_FAILURE = 1_000

const NOTHING: CellMeasured = {
  coldStartMs: null,
  coldStartCpuMs: null,
  changes: 0,
  changeP50Ms: null,
  changeP99Ms: null,
  idleCpuPercent: null,
  rssMiB: null,
  rssAnonMiB: null,
  rssFileMiB: null,
  pssMiB: null,
  peakRssMiB: null,
}

/** The program still runs, unless it ended by itself. */
export async function measureCell(
  options: MeasureOptions,
  limits: CellLimits,
): Promise<{ readonly program: MeasuredProgram; readonly result: CellOutcome }> {
  const program = options.start(false)
  try {
    return { program, result: { measured: await cellOf(options, program, limits) } }
  } catch (error) {
    const failure = (error instanceof Error ? error.message : String(error)).slice(0, MOST_FAILURE)
    options.say(failure)
    return { program, result: { failure } }
  }
}

async function cellOf(options: MeasureOptions, program: MeasuredProgram, limits: CellLimits): Promise<CellMeasured> {
  const { api, table, say } = options
  const limitMs = limits.coldStartSeconds * 1000
  const completeMs = await table.whenComplete(api.expected(), program.startedMs + limitMs, () => program.isAlive)
  if (!program.isAlive) throw new Error(`the program ended:\n${program.logTail}`)
  if (completeMs === undefined) {
    say(`no complete table after ${limits.coldStartSeconds} s`)
    const peakRssMiB = { moreThan: short(program.memory().peakRssMiB, 1) }
    return { ...NOTHING, coldStartMs: { moreThan: limitMs }, peakRssMiB }
  }
  const coldStartMs = short(completeMs - program.startedMs, 0)
  const coldStartCpuMs = program.cost().cpuMs
  say(`cold start ${coldStartMs} ms, ${coldStartCpuMs} ms of processor time`)
  await sleep(SETTLE_MS)
  const { idleCpuPercent } = await idlePhase(options, program)
  const { rssMiB, rssAnonMiB, rssFileMiB, pssMiB, peakRssMiB } = program.memory()
  const timed = await timeChanges(options, {
    phaseMs: limits.changesSeconds * 1000,
    changeMs: limits.changeSeconds * 1000,
    pauseMs: limits.betweenChangesMs,
  })
  if (!program.isAlive) throw new Error(`the program ended:\n${program.logTail}`)
  const [changeP50Ms, changeP99Ms] = [changeFigure(timed, 0.5), changeFigure(timed, 0.99)]
  say(`${timed.timesMs.length} changes, p50 ${textOf(changeP50Ms)}, p99 ${textOf(changeP99Ms)}`)
  return {
    coldStartMs,
    coldStartCpuMs,
    changes: timed.timesMs.length,
    changeP50Ms,
    changeP99Ms,
    idleCpuPercent: rounded(idleCpuPercent ?? null, 3),
    rssMiB: short(rssMiB, 1),
    rssAnonMiB: short(rssAnonMiB, 1),
    rssFileMiB: short(rssFileMiB, 1),
    pssMiB: rounded(pssMiB, 1),
    peakRssMiB: short(peakRssMiB, 1),
  }
}

/** A percentile of changes. One that did not finish is longer than all others. */
export function changeFigure({ timesMs, unfinishedMs }: TimedChanges, share: number): Figure {
  const value = percentile(unfinishedMs === undefined ? timesMs : [...timesMs, Infinity], share)
  return value === Infinity && unfinishedMs !== undefined ? { moreThan: unfinishedMs } : rounded(value, 2)
}

const textOf = (figure: Figure): string =>
  figure === null ? 'unknown' : typeof figure === 'number' ? `${figure} ms` : `more than ${figure.moreThan} ms`

const short = (value: number, digits: number): number => Number(value.toFixed(digits))
