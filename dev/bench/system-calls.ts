/**
 * Counts the system calls of a running program and its children with strace. Tracing slows a program down many times over, so
 * a boot that counts is never timed.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

const ATTACH_MS = 30_000
const LOOK_MS = 20

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
export async function startCounting(pid: number, file: string): Promise<() => Promise<number | null>> {
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
