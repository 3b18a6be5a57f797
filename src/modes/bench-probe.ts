/**
 * What a measurement must ask the program itself: netlink counters, the longest time the event loop was blocked, and when changes of
 * EndpointSlices arrived. Loaded only when KUBE_IPVS_BENCH_FILE names a file; each SIGUSR2 then appends one line of JSON to it. Watching the
 * event loop wakes the process 1,000 times a second, so it runs only between an odd and an even signal.
 */
import { appendFileSync, writeFileSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { CountedConnection } from '../metrics/sources.ts'
import type { ObjectSink } from '../watch/source.ts'

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
  /**
   * The part of such a time that the thread of the event loop had a processor, the longest one: what the program itself caused, and
   * not other work on the machine. At most 2 ms too long, and wrong by up to a tick of a kernel that counts processor time in ticks; null when
   * it was not watched.
   */
  readonly eventLoopOwnMaxMs: number | null
  readonly heapUsedMiB: number
  readonly externalMiB: number
}

/** Changes of EndpointSlices that arrived while the event loop was watched: the key, and CLOCK_MONOTONIC in milliseconds. */
export type Arrivals = readonly (readonly [key: string, atMs: number])[]

/** The file of the arrivals, which each even signal replaces before it appends its line. */
export const arrivalsFile = (file: string): string => `${file}.arrivals`

const RESOLUTION_MS = 2
const MIB = 1024 * 1024
/** Arrivals in memory. */
const MAX_ARRIVALS = 200_000

const monotonicMs = (): number => Number(process.hrtime.bigint()) / 1e6

/** Watches the event loop from its construction to `end`. */
class LoopWatch {
  readonly #delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
  readonly #timer: NodeJS.Timeout
  #atMs = performance.now()
  #ownMs = ownMs()
  #ownMaxMs = 0

  constructor() {
    this.#delay.enable()
    this.#timer = setInterval(() => {
      const atMs = performance.now()
      const spentMs = ownMs()
      // A kernel that counts processor time in ticks adds a whole tick to the turn in which the tick ends.
      this.#ownMaxMs = Math.max(this.#ownMaxMs, Math.min(spentMs - this.#ownMs, atMs - this.#atMs))
      this.#atMs = atMs
      this.#ownMs = spentMs
    }, RESOLUTION_MS).unref()
  }

  end(): Pick<ProbeReading, 'eventLoopMaxMs' | 'eventLoopOwnMaxMs'> {
    clearInterval(this.#timer)
    this.#delay.disable()
    return { eventLoopMaxMs: this.#delay.max / 1e6, eventLoopOwnMaxMs: this.#ownMaxMs }
  }
}

/** Processor time of the thread of the event loop, in milliseconds. */
function ownMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

export class BenchProbe {
  readonly #file: string
  #watch: LoopWatch | undefined
  #arrivals: (readonly [string, number])[] = []

  constructor(file: string) {
    this.#file = file
  }

  /** The sink of a source, with the times of what it gets. */
  timed(sink: ObjectSink): ObjectSink {
    return {
      apply: (changes) => {
        if (this.#watch !== undefined && this.#arrivals.length < MAX_ARRIVALS) {
          const atMs = monotonicMs()
          for (const { kind, key } of changes) if (kind === 'endpointslices') this.#arrivals.push([key, atMs])
        }
        sink.apply(changes)
      },
      listed: (kind) => sink.listed(kind),
      problems: (subject, problems) => sink.problems(subject, problems),
    }
  }

  /** Answers SIGUSR2 until the process ends. The first line is written at once. */
  start(connections: () => readonly CountedConnection[]): void {
    const write = (loop: Pick<ProbeReading, 'eventLoopMaxMs' | 'eventLoopOwnMaxMs'>): void =>
      appendFileSync(this.#file, `${JSON.stringify({ ...readingOf(connections()), ...loop } satisfies ProbeReading)}\n`)
    const unwatched = { eventLoopMaxMs: null, eventLoopOwnMaxMs: null }
    process.on('SIGUSR2', () => {
      if (this.#watch === undefined) {
        write(unwatched)
        this.#arrivals = []
        this.#watch = new LoopWatch()
        return
      }
      const loop = this.#watch.end()
      this.#watch = undefined
      writeFileSync(arrivalsFile(this.#file), JSON.stringify(this.#arrivals satisfies Arrivals))
      write(loop)
    })
    write(unwatched)
  }
}

/** Connections of audits are named so. */
const isAudit = ({ name }: CountedConnection): boolean => name.endsWith('-audit')

function readingOf(
  connections: readonly CountedConnection[],
): Omit<ProbeReading, 'eventLoopMaxMs' | 'eventLoopOwnMaxMs'> {
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
