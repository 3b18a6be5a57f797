/**
 * Counts system calls and netlink messages of a cold start and of single changes: the first by strace, which slows a program down many
 * times over, so a boot that counts is never timed; the second by the metrics of our program, whose page is not read where anything is timed.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type MeasureOptions, SETTLE_MS, tableComplete } from './task.ts'
import type { MeasuredProgram } from './measured-program.ts'
import { METRICS_URL, metricsPage, sumOf } from './metrics-page.ts'
import type { Measured } from './result.ts'
import { monotonicMs } from './table-view.ts'

const ATTACH_MS = 30_000
const LOOK_MS = 20
/** Changes while system calls are counted. */
const MAX_CHANGES = 50

/** @param program started, but stopped before its first instruction */
export async function countSystemCalls(options: MeasureOptions, program: MeasuredProgram): Promise<Measured> {
  const { api, table, limits, say } = options
  const file = join(options.folder, 'system-calls')
  const stopCold = await startCounting(program.pid, file)
  program.go()
  if ((await tableComplete(options, program)) === undefined) throw new Error('no complete table in time under strace')
  const coldStartSystemCalls = await stopCold()
  await sleep(SETTLE_MS)
  const before = await sentBy(options)
  const stopChanges = await startCounting(program.pid, file)
  const most = Math.min(options.changes, MAX_CHANGES)
  let changes = 0
  for (const endMs = monotonicMs() + limits.changesSeconds * 1000; changes < most && monotonicMs() < endMs; changes++)
    if ((await table.whenAdded(await api.change(), monotonicMs() + limits.changeSeconds * 1000)) === undefined) break
  await sleep(SETTLE_MS)
  const changeCalls = await stopChanges()
  const after = await sentBy(options)
  say(`${coldStartSystemCalls ?? 'no'} system calls at the start, ${changeCalls ?? 'none'} for ${changes} changes`)
  const each = (amount: number | null): number | null => (amount === null || changes === 0 ? null : amount / changes)
  return {
    coldStartSystemCalls,
    systemCallsPerChange: each(changeCalls),
    coldStartMessages: before?.messages ?? null,
    coldStartDatagrams: before?.datagrams ?? null,
    messagesPerChange: each(before && after ? after.messages - before.messages : null),
    datagramsPerChange: each(before && after ? after.datagrams - before.datagrams : null),
  }
}

/** What the program has sent to change the kernel, without its audits; undefined where it does not say. */
async function sentBy({ program, mode }: MeasureOptions) {
  // In iptables mode programs of iptables write, and what they send is not counted.
  if (program !== 'kube-ipvs' || mode !== 'ipvs') return undefined
  const page = await metricsPage(METRICS_URL)
  const changing = /^connection="(?!\w+-audit")[^,]*(?:,direction="out")?$/
  return {
    messages: sumOf(page, 'kubeipvs_netlink_messages_total', changing),
    datagrams: sumOf(page, 'kubeipvs_netlink_datagrams_total', changing),
  }
}

/** Sum of the calls in the table that `strace -c` writes. */
export function parseCallCount(table: string): number {
  let calls = 0
  for (const line of table.split('\n')) {
    // % time, seconds, usecs/call, calls, errors (may be empty), name
    const match = /^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)\s*$/.exec(line)
    if (match !== null && match[2] !== 'total') calls += Number(match[1])
  }
  return calls
}

/** Starts to count; the returned function stops and resolves to the number, or to null when strace does not work. */
async function startCounting(pid: number, file: string): Promise<() => Promise<number | null>> {
  const tracer = spawn('strace', ['-c', '-f', '-q', '-o', file, '-p', String(pid)], { stdio: 'ignore' })
  const ended = once(tracer, 'exit').catch(() => undefined)
  const endMs = Date.now() + ATTACH_MS
  while (!isTraced(pid) && tracer.exitCode === null && Date.now() < endMs) await sleep(LOOK_MS)
  const works = isTraced(pid)
  return async () => {
    tracer.kill('SIGINT')
    await ended
    return works ? parseCallCount(readFileSync(file, 'utf8')) : null
  }
}

/** Whether every thread of it has a tracer. */
function isTraced(pid: number): boolean {
  try {
    return readdirSync(`/proc/${pid}/task`).every(
      (thread) => !/^TracerPid:\s+0$/m.test(readFileSync(`/proc/${pid}/task/${thread}/status`, 'latin1')),
    )
  } catch {
    return false // it has ended
  }
}
