/**
 * What a measurement must ask the program itself: netlink counters, and the longest time the event loop was blocked. Loaded
 * only when KUBE_IPVS_BENCH_FILE names a file; each SIGUSR2 then appends one line of JSON to it. Watching the event loop wakes
 * the process 500 times a second, so it runs only between an odd and an even signal.
 */
import { appendFileSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { CountedConnection } from '../metrics/sources.ts'

/** One line of the file. Counters count from the start of the process. */
export interface ProbeReading {
  /** Connections that change the kernel. */
  readonly messages: number
  readonly datagrams: number
  /** The audits' own connections. */
  readonly auditMessages: number
  readonly auditDatagrams: number
  /** Longest time between two turns of the event loop since the signal before, in ms, at most 2 too long; null when it was not watched. */
  readonly eventLoopMaxMs: number | null
  readonly heapUsedMiB: number
  readonly externalMiB: number
}

const RESOLUTION_MS = 2
const MIB = 1024 * 1024

/** Answers SIGUSR2 until the process ends. The first line is written at once. */
export function startBenchProbe(file: string, connections: () => readonly CountedConnection[]): void {
  let watched: ReturnType<typeof monitorEventLoopDelay> | undefined
  const write = (eventLoopMaxMs: number | null): void => {
    appendFileSync(file, `${JSON.stringify({ ...readingOf(connections()), eventLoopMaxMs } satisfies ProbeReading)}\n`)
  }
  process.on('SIGUSR2', () => {
    if (watched === undefined) {
      write(null)
      watched = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
      watched.enable()
      return
    }
    watched.disable()
    const maxMs = watched.max / 1e6
    watched = undefined
    write(maxMs)
  })
  write(null)
}

/** Connections of audits are named so. */
const isAudit = ({ name }: CountedConnection): boolean => name.endsWith('-audit')

function readingOf(connections: readonly CountedConnection[]): Omit<ProbeReading, 'eventLoopMaxMs'> {
  const { heapUsed, external } = process.memoryUsage()
  const audits = connections.filter(isAudit)
  const changes = connections.filter((connection) => !isAudit(connection))
  const sum = (of: readonly CountedConnection[], counter: 'messagesSent' | 'datagramsSent'): number =>
    of.reduce((total, connection) => total + connection[counter], 0)
  return {
    messages: sum(changes, 'messagesSent'),
    datagrams: sum(changes, 'datagramsSent'),
    auditMessages: sum(audits, 'messagesSent'),
    auditDatagrams: sum(audits, 'datagramsSent'),
    heapUsedMiB: heapUsed / MIB,
    externalMiB: external / MIB,
  }
}
