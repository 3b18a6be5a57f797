/**
 * Reads the counters of real servers for outlier detection, and says what was decided. IPVS cannot
 * be asked what has changed, so only virtual servers with new connections are read often, and all
 * reads together stay below a share of one core.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { CountedDestination } from '../../ipvs/codec-destinations.ts'
import { CONNECTIONS } from '../../ipvs/codec-traffic.ts'
import type { IpvsConnection } from '../../ipvs/connection.ts'
import { countersOf } from '../../ipvs/outlier-counters.ts'
import { LONGEST_COPY_MS } from '../../ipvs/outlier-evidence.ts'
import type { OutlierDecision } from '../../ipvs/outlier-states.ts'
import type { Outliers } from '../../ipvs/outliers.ts'
import type { VirtualServerKey } from '../../ipvs/types.ts'
import { isSysctlOn } from '../../node/sysctl.ts'
import { parseFrontendKey } from '../../service/frontends.ts'
import type { ProblemLog } from '../../serve/problem-log.ts'
import { AuditShare } from '../../sync/audit.ts'
import type { Budget } from '../../values/budget.ts'
import type { Clock } from '../../values/clock.ts'
import { newAuditBudget } from '../../values/event-loop.ts'
import type { Log } from '../../values/log.ts'

/**
 * Share of one core for all reads, and the part of it that the lists may have. A list takes as long
 * as hundreds of reads: the time until the next one pays for it, and reads go on meanwhile with what
 * is left of the share.
 */
const [SHARE, MOST_FOR_LISTS] = [0.003, 0.0015]
/** Between two reads of a virtual server with new connections, and of one that had none while two copies were made. */
const [READ_MS, CALM_READ_MS] = [250, 1000]
const MOVED_MS = 2 * LONGEST_COPY_MS
/** To read clocks costs more than smaller reads; their time is looked at after so many of them. */
const [LARGE, SMALL_READS] = [64, 8]
/** A virtual server is read so often for this long after its last new connection. */
const BUSY_MS = 15_000
/** So few virtual servers are all read, the others this often; more of them are listed instead. */
const [FEW, OTHERS_MS] = [32, 2000]
/** Between two lists of all virtual servers: for each of them, and at least. */
const [LIST_MS_FOR_EACH, SHORTEST_LIST_MS] = [1.5, 1000]
/** Between two looks at the setting of the kernel. */
const SETTING_MS = 10_000
/** Until reads begin again after the counters stood still. */
const STALLED_MS = 300_000
const RETRY_MS = 5000
const SETTING = 'net/ipv4/vs/run_estimation'

export interface OutlierWatchOptions {
  readonly ipvs: Pick<IpvsConnection, 'listCountedDestinations' | 'visitTraffic'>
  readonly outliers: Outliers
  /** A virtual server is to be rendered again. */
  readonly rejudged: (key: VirtualServerKey) => void
  /** A pass is to apply what was decided, which may be nothing. */
  readonly onJudged: (decisions: readonly OutlierDecision[]) => void
  /** Virtual servers that the kernel has. */
  readonly serverCount: () => number
  readonly problems: Pick<ProblemLog, 'report'>
  readonly log: Log
  readonly now: Clock
  /** Rejects when aborted; tests replace it. */
  readonly sleep?: (ms: number, signal: AbortSignal) => Promise<void>
  /** Tests replace it. */
  readonly newBudget?: () => Budget
  /** Whether the kernel's estimator runs, as far as its setting says. */
  readonly estimates?: () => boolean
}

/** What the last read of a virtual server showed. */
interface Read {
  readonly connections: number
  /** Exact, in contrast to the connections so far. */
  readonly active: number
  /** When one of them was another one than before. */
  readonly movedMs: number
  readonly nextMs: number
}

export class OutlierWatch {
  /** Real servers that were read since the start. */
  serversRead = 0
  readonly #options: OutlierWatchOptions
  readonly #sleep: NonNullable<OutlierWatchOptions['sleep']>
  readonly #share: AuditShare
  /** One for all rounds: some kernels show processor time only after several of them. */
  readonly #budget: Budget
  readonly #listBudget: Budget
  /** Until when virtual servers are read often. */
  readonly #busyUntilMs = new Map<VirtualServerKey, number>()
  /** Connections so far as the list and as the reads of real servers count them. */
  readonly #listed = new Map<VirtualServerKey, number>()
  readonly #read = new Map<VirtualServerKey, Read>()
  #nextOthersMs = 0
  #nextSettingMs = 0
  #isOff = false

  constructor(options: OutlierWatchOptions) {
    this.#options = options
    this.#sleep = options.sleep ?? ((ms, signal) => sleep(ms, undefined, { signal }))
    const { newBudget = newAuditBudget } = options
    this.#budget = newBudget()
    this.#listBudget = newBudget()
    this.#share = new AuditShare({ share: SHARE, now: options.now, sleep: this.#sleep })
  }

  /** Resolves when aborted; never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { now, log, outliers } = this.#options
    while (!signal.aborted) {
      const startedMs = now()
      let waitMs = READ_MS
      try {
        if (outliers.size === 0) await this.#untilWatched(signal)
        else if (this.#isEstimating()) {
          await this.#round(signal)
          waitMs = this.#waitMs(startedMs)
        }
      } catch (error) {
        if (signal.aborted) return
        log.warn('Cannot read the counters of real servers', { error })
        waitMs = RETRY_MS
      }
      await this.#sleep(Math.max(0, startedMs + waitMs - now()), signal).catch(() => undefined)
    }
  }

  /** No timer runs where no Service wants it. */
  async #untilWatched(signal: AbortSignal): Promise<void> {
    if (this.#isOff) this.#report(true, false)
    this.#isOff = false
    this.#nextSettingMs = 0
    const { promise, resolve } = Promise.withResolvers<void>()
    const end = (): void => resolve()
    this.#options.outliers.onFirst = end
    signal.addEventListener('abort', end, { once: true })
    await promise
    signal.removeEventListener('abort', end)
  }

  /** From the begin of a round to that of the next: until there is something to read. */
  #waitMs(startedMs: number): number {
    let nextMs = Math.min(this.#nextOthersMs, startedMs + SETTING_MS)
    for (const keys of [this.#options.outliers.troubled, this.#busyUntilMs.keys()])
      for (const key of keys) nextMs = Math.min(nextMs, this.#read.get(key)?.nextMs ?? 0)
    return Math.max(READ_MS, nextMs - startedMs)
  }

  /** Reads what is to be read now, once. */
  async #round(signal: AbortSignal): Promise<void> {
    const { ipvs, outliers } = this.#options
    const budget = this.#budget
    budget.begin()
    const keys = new Set(outliers.troubled)
    if (this.#options.now() >= this.#nextOthersMs) await this.#findBusy(keys, signal)
    const nowMs = this.#options.now()
    for (const [key, untilMs] of this.#busyUntilMs) {
      if (untilMs > nowMs && outliers.isWatched(key)) keys.add(key)
      else this.#calm(key)
    }
    let isChanged = false
    let reads = 0
    try {
      for (const key of keys) {
        if (nowMs < (this.#read.get(key)?.nextMs ?? 0)) continue
        const destinations = await ipvs.listCountedDestinations(parseFrontendKey(key), { signal, budget })
        const take = (): boolean => this.#take(key, destinations)
        const isLarge = destinations.length >= LARGE
        if (isLarge ? budget.whole(take) : take()) isChanged = true
        if ((!isLarge && ++reads % SMALL_READS !== 0) || !budget.spent()) continue
        this.#tell(isChanged)
        isChanged = false
        await this.#share.rest(budget, signal)
      }
    } finally {
      // What was decided before a failure is wanted already.
      this.#tell(isChanged)
    }
    await this.#share.rest(budget, signal)
  }

  /** Adds to `keys` what is not busy and is to be read all the same; many virtual servers are listed instead. */
  async #findBusy(keys: Set<VirtualServerKey>, signal: AbortSignal): Promise<void> {
    const { ipvs, outliers, serverCount, now } = this.#options
    for (const counted of [this.#listed, this.#read])
      for (const key of counted.keys()) if (!outliers.isWatched(key)) counted.delete(key)
    if (outliers.size <= FEW) {
      this.#nextOthersMs = now() + OTHERS_MS
      this.#share.share = SHARE
      this.#listed.clear()
      for (const key of outliers.keys()) keys.add(key)
      return
    }
    const beganMs = now()
    const untilMs = beganMs + BUSY_MS
    const budget = this.#listBudget
    const visit = (key: VirtualServerKey, traffic: Float64Array): void => {
      if (!outliers.isWatched(key)) return
      const connections = traffic[CONNECTIONS] ?? 0
      const before = this.#listed.get(key)
      if (before === connections) return
      this.#listed.set(key, connections)
      if (before !== undefined) this.#busyUntilMs.set(key, untilMs)
    }
    budget.begin()
    await ipvs.visitTraffic(visit, { signal, budget })
    const workMs = budget.takeWorkMs()
    const pauseMs = Math.max(SHORTEST_LIST_MS, serverCount() * LIST_MS_FOR_EACH, workMs / MOST_FOR_LISTS)
    this.#nextOthersMs = beganMs + pauseMs
    this.#share.share = SHARE - workMs / pauseMs
  }

  #calm(key: VirtualServerKey): void {
    this.#busyUntilMs.delete(key)
    this.#read.delete(key)
    this.#options.outliers.rest(key)
  }

  /** Returns whether the virtual server is to be rendered again. */
  #take(key: VirtualServerKey, destinations: readonly CountedDestination[]): boolean {
    const { outliers, rejudged, now } = this.#options
    const nowMs = now()
    this.serversRead += destinations.length
    const isChanged = outliers.observe(key, countersOf(destinations), nowMs)
    const connections = destinations.reduce((sum, { traffic }) => sum + (traffic[CONNECTIONS] ?? 0), 0)
    const active = destinations.reduce((sum, { activeConnections }) => sum + activeConnections, 0)
    const before = this.#read.get(key)
    // One with new connections is busy.
    if (before !== undefined && before.connections !== connections) this.#busyUntilMs.set(key, nowMs + BUSY_MS)
    const hasMoved = before === undefined || before.connections !== connections || before.active !== active
    const movedMs = hasMoved ? nowMs : before.movedMs
    // Rounds begin every READ_MS, and some of them a little too soon.
    const nextMs = nowMs - movedMs < MOVED_MS ? nowMs : nowMs + CALM_READ_MS - READ_MS / 2
    this.#read.set(key, { connections, active, movedMs, nextMs })
    if (isChanged) rejudged(key)
    return isChanged
  }

  /** Logs decisions, and asks for a pass. */
  #tell(isChanged: boolean): void {
    const { outliers, onJudged, log } = this.#options
    const decisions = outliers.takeDecisions()
    for (const decision of decisions) logDecision(decision, log)
    if (isChanged || decisions.length > 0) onJudged(decisions)
  }

  /** Whether the kernel counts. Where it does not, all real servers are released. */
  #isEstimating(): boolean {
    const { outliers, rejudged, now, estimates = estimatorRuns } = this.#options
    const isStalled = outliers.copies.isStalled(now())
    if (!isStalled && now() < this.#nextSettingMs) return !this.#isOff
    const isRunning = estimates()
    this.#nextSettingMs = now() + (isRunning && isStalled ? STALLED_MS : SETTING_MS)
    this.#isOff = !isRunning || isStalled
    this.#report(isRunning, isStalled)
    if (!this.#isOff) return true
    for (const key of outliers.release()) rejudged(key)
    outliers.copies.restart()
    this.#tell(true)
    return false
  }

  #report(isRunning: boolean, isStalled: boolean): void {
    const message = !isRunning
      ? 'the kernel does not count, so endpoints that do not answer are not found: set it to 1'
      : 'the counters of the kernel stand still while connections come and go, so endpoints that do not answer are not found'
    const problem = {
      code: 'estimation-off',
      about: 'setting',
      subject: 'net.ipv4.vs.run_estimation',
      message,
    } as const
    this.#options.problems.report('outliers', problem.subject, isRunning && !isStalled ? [] : [problem])
  }
}

/** Kernels before 5.15 have no such setting, and always count. */
const estimatorRuns = (): boolean => isSysctlOn(SETTING) ?? true

function logDecision({ kind, owner, virtualServer, realServer, connections, waitMs }: OutlierDecision, log: Log): void {
  const about = { service: owner, realServer, virtualServer }
  switch (kind) {
    case 'suspected':
      return log.warn('An endpoint does not answer and gets no new connections', {
        ...about,
        connections,
        nextTrial: `${(waitMs ?? 0) / 1000}s`,
      })
    case 'tried':
      return log.verbose(2, 'An endpoint that did not answer gets one connection', about)
    case 'answered':
      return log.info('An endpoint answers again and gets new connections', about)
    case 'released':
      return log.info('An endpoint that did not answer gets new connections without a trial', about)
  }
}
