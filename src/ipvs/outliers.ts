/**
 * Which real servers get no new connections for a while because they do not answer: the states, and
 * the virtual servers that follow. A virtual server is judged by its own packets. The state is only
 * in memory, so a process that starts has forgotten all of it.
 */
import { backoffMs } from '../values/backoff.ts'
import { Copies } from './outlier-copies.ts'
import { type Counters, ENOUGH, exactly } from './outlier-evidence.ts'
import {
  type CurrentOutlier,
  enter,
  isLimitedInVain,
  isOut,
  type Lets,
  limitOf,
  newestAnswers,
  newlyTracked,
  type OutlierDecision,
  stopLater,
  type Tracked,
  TRIED,
  withState,
} from './outlier-states.ts'
import { realServerKey, type RealServerKey, type VirtualServer, type VirtualServerKey } from './types.ts'

/** Waits until the next trial. */
const TRIALS = { firstMs: 5000, maxMs: 160_000 }
/** After so long without a suspicion the waits begin with the first one again. */
const GOOD_MS = 60_000
/** After a limit that was wrong there is none for this time, and for twice as long after each further one. */
const LIMITS = { firstMs: 60_000, maxMs: 3_600_000 }
/** A connection of a trial without an answer for this long ends it: TCP has repeated its first packet twice. */
const TRIAL_MS = 3300

interface Watched {
  base: VirtualServer
  owner: string
  readonly servers: Map<RealServerKey, Tracked>
}

export class Outliers {
  /** Decisions since the start by their kind, and limits. */
  readonly counts = { suspected: 0, tried: 0, answered: 0, released: 0, limited: 0 }
  readonly copies = new Copies()
  /** Called when the first virtual server is watched. */
  onFirst: () => void = () => undefined
  readonly #watched = new Map<VirtualServerKey, Watched>()
  /** Virtual servers with a real server that is not healthy. */
  readonly #troubled = new Set<VirtualServerKey>()
  #decisions: OutlierDecision[] = []
  #changes = 0

  /** The virtual servers that are watched. */
  keys(): IterableIterator<VirtualServerKey> {
    return this.#watched.keys()
  }

  get size(): number {
    return this.#watched.size
  }

  isWatched(key: VirtualServerKey): boolean {
    return this.#watched.has(key)
  }

  /** Virtual servers with a real server that is not healthy: they are to be read. */
  get troubled(): ReadonlySet<VirtualServerKey> {
    return this.#troubled
  }

  /** Decisions since the last call. */
  takeDecisions(): readonly OutlierDecision[] {
    return this.#decisions.splice(0)
  }

  /**
   * The virtual server as it should be now. It may be called with the same `base` again.
   * @param base with the weight of each real server as the API and slow starts want it
   * @param owner the Service; undefined: its real servers are not judged
   */
  render(key: VirtualServerKey, base: VirtualServer, owner: string | undefined): VirtualServer {
    if (owner === undefined) {
      this.forget(key)
      return base
    }
    const watched = this.#watched.get(key)
    if (watched === undefined) {
      this.#watched.set(key, { base, owner, servers: new Map() })
      if (this.#watched.size === 1) this.onFirst()
      return base
    }
    const isSame = watched.base.realServers === base.realServers
    watched.base = base
    watched.owner = owner
    if (!isSame && watched.servers.size > 0) this.#keepPresent(key, watched)
    return this.rendered(key) ?? base
  }

  /** As `render`, for a step of a slow start. */
  withBase(key: VirtualServerKey, base: VirtualServer): VirtualServer {
    return this.render(key, base, this.#watched.get(key)?.owner)
  }

  /** Call it when a virtual server is gone. */
  forget(key: VirtualServerKey): void {
    this.#watched.delete(key)
    this.#troubled.delete(key)
  }

  /** The last virtual server of `render` with the states of this moment; undefined: it is not watched. */
  rendered(key: VirtualServerKey): VirtualServer | undefined {
    const watched = this.#watched.get(key)
    if (watched === undefined || !this.#troubled.has(key)) return watched?.base
    const { base, servers } = watched
    return {
      ...base,
      realServers: base.realServers.map((server) => withState(server, servers.get(realServerKey(server)))),
    }
  }

  /**
   * Takes what was read of a virtual server.
   * @returns whether it is to be rendered again
   */
  observe(key: VirtualServerKey, read: ReadonlyMap<RealServerKey, Counters>, nowMs: number): boolean {
    const watched = this.#watched.get(key)
    if (watched === undefined) return false
    const before = this.#changes
    for (const server of watched.base.realServers) {
      const name = realServerKey(server)
      const counters = read.get(name)
      if (counters !== undefined) this.#take(key, watched, name, exactly(counters, watched.base.protocol), nowMs)
    }
    this.#judge(key, watched, nowMs)
    this.#note(key, watched)
    return this.#changes !== before
  }

  /** Frees what is known of a virtual server without new connections, unless a real server of it is not healthy. */
  rest(key: VirtualServerKey): void {
    const watched = this.#watched.get(key)
    if (watched === undefined || this.#troubled.has(key)) return
    for (const [name, tracked] of watched.servers) if (tracked.failures === 0) watched.servers.delete(name)
  }

  /** Makes every real server healthy. Returns the virtual servers that are to be rendered again. */
  release(): readonly VirtualServerKey[] {
    const keys = [...this.#troubled]
    for (const key of keys) {
      const watched = this.#watched.get(key)
      if (watched === undefined) continue
      for (const [name, tracked] of watched.servers)
        if (isOut(tracked)) this.#heal(key, watched, name, tracked, 'released')
      watched.servers.clear()
    }
    this.#troubled.clear()
    return keys
  }

  /** Those that are not healthy. It follows changes while it is read. */
  *current(nowMs: number): Generator<CurrentOutlier, void, void> {
    for (const virtualServer of this.#troubled)
      for (const [realServer, { state, sinceMs, nextTrialMs }] of this.#watched.get(virtualServer)?.servers ?? [])
        if (state !== 'healthy')
          yield {
            virtualServer,
            realServer,
            state,
            ageMs: nowMs - sinceMs,
            ...(state === 'suspect' ? { nextTrialMs: Math.max(0, nextTrialMs - nowMs) } : {}),
          }
  }

  /** How many real servers are suspects or on trial. */
  get count(): number {
    let count = 0
    for (const key of this.#troubled)
      for (const { state } of this.#watched.get(key)?.servers.values() ?? [])
        if (state === 'suspect' || state === 'on-trial') count++
    return count
  }

  #take(key: VirtualServerKey, watched: Watched, name: RealServerKey, counters: Counters, nowMs: number): void {
    let tracked = watched.servers.get(name)
    if (tracked === undefined) watched.servers.set(name, (tracked = newlyTracked()))
    const { active } = tracked.evidence.exact
    const isCopied = tracked.evidence.observe(counters, nowMs, watched.base.protocol)
    this.copies.read(nowMs, isCopied, active !== counters.active)
    const hasAnswered = tracked.evidence.answerMs === nowMs
    if (isOut(tracked) && hasAnswered) this.#answered(key, watched, name, tracked, nowMs)
    if (tracked.state === 'healthy' && tracked.failures > 0 && nowMs - tracked.sinceMs >= GOOD_MS) tracked.failures = 0
  }

  #answered(key: VirtualServerKey, watched: Watched, name: RealServerKey, tracked: Tracked, nowMs: number): void {
    const wasLimited = tracked.state === 'limited'
    if (wasLimited) tracked.noLimitUntilMs = nowMs + backoffMs(LIMITS, ++tracked.limits)
    this.#heal(key, watched, name, tracked, wasLimited ? undefined : 'answered')
    tracked.sinceMs = nowMs
  }

  /** Trials, suspicions and limits, in this order. */
  #judge(key: VirtualServerKey, watched: Watched, nowMs: number): void {
    const { protocol, realServers } = watched.base
    for (const [name, tracked] of watched.servers) {
      const { state, nextTrialMs, evidence } = tracked
      if ((state === 'limited' || state === 'on-trial') && stopLater(tracked, nowMs)) this.#changes++
      if (state === 'suspect' && nowMs >= nextTrialMs) this.#try(key, watched, name, tracked, nowMs)
      else if (state === 'on-trial' && evidence.silenceMs(nowMs) >= TRIAL_MS)
        this.#suspect(key, watched, name, tracked, nowMs)
      else if (isLimitedInVain(tracked, nowMs)) this.#answered(key, watched, name, tracked, nowMs)
    }
    const usable = realServers.filter(({ weight }) => weight > 0).length
    let room = Math.floor(usable / 2)
    for (const tracked of watched.servers.values()) if (isOut(tracked)) room--
    const silent = Array.from(watched.servers)
      .filter(([, one]) => one.state === 'healthy' || one.state === 'limited')
      .filter(([, { evidence }]) => evidence.points(protocol, nowMs) >= ENOUGH)
      .sort(([, a], [, b]) => (a.evidence.silentSinceMs ?? 0) - (b.evidence.silentSinceMs ?? 0))
    const others = new Set(silent.map(([, tracked]) => tracked))
    const answers = newestAnswers(watched.servers.values(), others, nowMs)
    if (answers === undefined) return
    for (const [name, tracked] of silent) {
      if (answers.certainMs < tracked.evidence.mayBeSilentSinceMs) continue
      if (tracked.state === 'healthy' && room-- <= 0) return
      this.#suspect(key, watched, name, tracked, nowMs)
    }
    for (const tracked of watched.servers.values()) {
      if (room <= 0) return
      const lets = limitOf(tracked, protocol, answers.shownMs, nowMs)
      if (lets === undefined) continue
      room--
      this.counts.limited++
      this.#enter(tracked, 'limited', nowMs, lets)
    }
  }

  #suspect(key: VirtualServerKey, watched: Watched, realServer: RealServerKey, tracked: Tracked, nowMs: number): void {
    const waitMs = backoffMs(TRIALS, ++tracked.failures)
    this.#enter(tracked, 'suspect', nowMs)
    tracked.nextTrialMs = nowMs + waitMs
    this.#decide({ kind: 'suspected', ...named(key, watched, realServer, tracked), waitMs })
  }

  #try(key: VirtualServerKey, watched: Watched, realServer: RealServerKey, tracked: Tracked, nowMs: number): void {
    this.#decide({ kind: 'tried', ...named(key, watched, realServer, tracked) })
    tracked.evidence.forgive()
    this.#enter(tracked, 'on-trial', nowMs, TRIED)
  }

  #heal(
    key: VirtualServerKey,
    watched: Watched,
    realServer: RealServerKey,
    tracked: Tracked,
    kind: 'answered' | 'released' | undefined,
  ): void {
    if (kind !== undefined && tracked.state !== 'limited')
      this.#decide({ kind, ...named(key, watched, realServer, tracked) })
    tracked.evidence.forgive()
    this.#enter(tracked, 'healthy', tracked.sinceMs)
  }

  #enter(tracked: Tracked, ...change: readonly [state: Tracked['state'], nowMs: number, lets?: Lets]): void {
    enter(tracked, ...change)
    this.#changes++
  }

  #decide(decision: OutlierDecision): void {
    this.counts[decision.kind]++
    this.#decisions.push(decision)
  }

  /** Forgets real servers that the API has removed, and releases those that are more than half now. */
  #keepPresent(key: VirtualServerKey, watched: Watched): void {
    const { base, servers } = watched
    const present = new Set(base.realServers.map(realServerKey))
    for (const name of servers.keys()) if (!present.has(name)) servers.delete(name)
    let room = Math.floor(base.realServers.filter(({ weight }) => weight > 0).length / 2)
    const out = Array.from(servers).filter(([, tracked]) => isOut(tracked))
    for (const [name, tracked] of out.sort(([, a], [, b]) => a.sinceMs - b.sinceMs))
      if (room-- <= 0) this.#heal(key, watched, name, tracked, 'released')
    this.#note(key, watched)
  }

  #note(key: VirtualServerKey, { servers }: Watched): void {
    for (const tracked of servers.values()) if (isOut(tracked)) return void this.#troubled.add(key)
    this.#troubled.delete(key)
  }
}

function named(
  virtualServer: VirtualServerKey,
  { owner }: Watched,
  realServer: RealServerKey,
  { evidence }: Tracked,
): Pick<OutlierDecision, 'owner' | 'virtualServer' | 'realServer' | 'connections'> {
  return { owner, virtualServer, realServer, connections: evidence.unanswered }
}
