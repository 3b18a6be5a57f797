/**
 * What only the program itself can tell a measurement: netlink counters, and the longest time the event loop was held.
 * Loaded only when KUBE_IPVS_BENCH_FILE names a file; each SIGUSR2 then appends one line of JSON to it.
 * What could break: watching the event loop wakes the process 500 times a second, so it runs only between an odd and an
 * even signal; an idle measurement must lie outside.
 */
import { appendFileSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { NetlinkCounters } from '../netlink/connection.ts'

/** Who counts messages: the connections of the kernel side. */
export interface ProbedKernel {
  readonly ipvs: { readonly counters: Readonly<NetlinkCounters> }
  readonly auditIpvs: { readonly counters: Readonly<NetlinkCounters> }
  readonly rtnetlink: { readonly counters: Readonly<NetlinkCounters> }
  readonly auditRtnetlink: { readonly counters: Readonly<NetlinkCounters> }
  readonly ipset: { readonly counters: Readonly<NetlinkCounters> }
  readonly auditIpset: { readonly counters: Readonly<NetlinkCounters> }
}

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

/** Listens to SIGUSR2 until the process ends. The first line is written at once. */
export function startBenchProbe(file: string, kernel: ProbedKernel): void {
  let watched: ReturnType<typeof monitorEventLoopDelay> | undefined
  const write = (eventLoopMaxMs: number | null): void => {
    appendFileSync(file, `${JSON.stringify({ ...readingOf(kernel), eventLoopMaxMs } satisfies ProbeReading)}\n`)
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

function readingOf(kernel: ProbedKernel): Omit<ProbeReading, 'eventLoopMaxMs'> {
  const { heapUsed, external } = process.memoryUsage()
  const changes = [kernel.ipvs, kernel.rtnetlink, kernel.ipset]
  const audits = [kernel.auditIpvs, kernel.auditRtnetlink, kernel.auditIpset]
  const sum = (of: typeof changes, counter: 'messagesSent' | 'datagramsSent'): number =>
    of.reduce((total, { counters }) => total + counters[counter], 0)
  return {
    messages: sum(changes, 'messagesSent'),
    datagrams: sum(changes, 'datagramsSent'),
    auditMessages: sum(audits, 'messagesSent'),
    auditDatagrams: sum(audits, 'datagramsSent'),
    heapUsedMiB: heapUsed / MIB,
    externalMiB: external / MIB,
  }
}
