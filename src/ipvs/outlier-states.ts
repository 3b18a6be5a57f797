/**
 * The states of real servers that do not answer, what each means for a virtual server, and what is
 * decided and told about them.
 */
import type { Protocol } from '../values/protocol.ts'
import { Evidence, LONGEST_COPY_MS } from './outlier-evidence.ts'
import {
  type RealServer,
  realServerKey,
  type RealServerKey,
  type VirtualServer,
  type VirtualServerKey,
} from './types.ts'

/**
 * `limited`: it gets only a few more connections until a copy of its counters shows an answer.
 * `suspect`: its weight is 0. `on-trial`: it has its weight again, and gets one connection.
 */
export type OutlierState = 'limited' | 'suspect' | 'on-trial'

/** What was decided about a real server. */
export interface OutlierDecision {
  readonly kind: 'suspected' | 'tried' | 'answered' | 'released'
  /** `namespace/name` of the Service. */
  readonly owner: string
  readonly virtualServer: VirtualServerKey
  readonly realServer: RealServerKey
  /** Connections without an answer. */
  readonly connections: number
  /** Until it may be tried again, in milliseconds; only of one that is suspected. */
  readonly waitMs?: number
}

/** A real server that gets no new connections, or only a few, at one moment. */
export interface CurrentOutlier {
  readonly virtualServer: VirtualServerKey
  readonly realServer: RealServerKey
  readonly state: OutlierState
  /** Since it is in this state, in milliseconds. */
  readonly ageMs: number
  /** Until a suspect is tried again, in milliseconds; undefined in the other states. */
  readonly nextTrialMs?: number
}

/** Another real server must have answered so long after the first connection that has no answer. */
const ANSWER_MS = 800
/** And in this time. */
const OTHERS_MS = 6000

/** What is known of a real server. */
export interface Tracked {
  readonly evidence: Evidence
  state: OutlierState | 'healthy'
  sinceMs: number
  /**
   * Its IPVS_DEST_ATTR_U_THRESH; 0: no limit. One that has as many connections or more, closing ones
   * too, gets no further one before it has less than three quarters of them.
   */
  limit: number
  /** Connections that it still gets, until when it gets them, and active ones when that began. */
  lets: number
  letsUntilMs: number
  activeBefore: number
  /** Suspicions in a row. */
  failures: number
  nextTrialMs: number
  limits: number
  noLimitUntilMs: number
}

/** One that nothing is known of. */
export function newlyTracked(): Tracked {
  const none = {
    state: 'healthy',
    sinceMs: 0,
    limit: 0,
    lets: 0,
    letsUntilMs: 0,
    activeBefore: 0,
    failures: 0,
    nextTrialMs: 0,
    limits: 0,
    noLimitUntilMs: 0,
  } as const
  return { evidence: new Evidence(), ...none }
}

/** Whether it gets no new connections, or a limited number. */
export function isOut({ state }: Tracked): boolean {
  return state !== 'healthy'
}

/** Connections that a real server still gets, and for how long. */
export interface Lets {
  readonly lets: number
  readonly ms: number
}

/** Connections that a limited real server still gets, enough to be judged by, and for how long. */
const LIMITED = { lets: 5, ms: 1000 }
/** It gets none: enough of them wait already. */
const STOPPED = { lets: 0, ms: 0 }
/** One connection, whenever it comes. */
export const TRIED = { lets: 1, ms: Number.POSITIVE_INFINITY }
/** With this connection limit IPVS gives a real server no connection while it has one. */
const NONE = 1

/** @param lets absent: as many connections as it may have anyway, or none with the weight 0 */
export function enter(tracked: Tracked, state: Tracked['state'], nowMs: number, some?: Lets): void {
  const { active, open } = tracked.evidence.exact
  const { lets, ms } = some ?? { lets: 0, ms: 0 }
  const limit = some === undefined ? 0 : lets === 0 ? NONE : open + lets
  Object.assign(tracked, { state, sinceMs: nowMs, limit, lets, letsUntilMs: nowMs + ms, activeBefore: active })
}

/**
 * Ends the connections of a limited real server or of a trial; returns whether it is to end now. The
 * limit counts those that are closing, and as many of them may end as new ones come, so the exact
 * number of active ones decides.
 */
export function stopLater(tracked: Tracked, nowMs: number): boolean {
  const { active } = tracked.evidence.exact
  if (tracked.limit === NONE || (nowMs < tracked.letsUntilMs && active < tracked.activeBefore + tracked.lets))
    return false
  tracked.limit = NONE
  return true
}

/**
 * Whether a limited real server had two copies in which a connection without an answer would be seen,
 * and there is none: its connections are idle ones, and without new ones no answer comes. Or those
 * without an answer have become no suspicion: their clients have given up.
 */
export function isLimitedInVain({ state, sinceMs, evidence }: Tracked, nowMs: number): boolean {
  if (state !== 'limited') return false
  if (evidence.silentSinceMs === undefined) return nowMs - sinceMs >= 2 * LONGEST_COPY_MS
  return nowMs - Math.max(sinceMs, evidence.askedMs) >= 4 * LONGEST_COPY_MS
}

/**
 * What a healthy real server still gets; undefined: there is no reason for a limit. Only TCP: the
 * answers of a UDP service may differ in number.
 * @param shownMs when a copy showed answers of another one
 */
export function limitOf(
  { state, evidence, noLimitUntilMs }: Tracked,
  protocol: Protocol,
  shownMs: number,
  nowMs: number,
): Lets | undefined {
  if (protocol !== 'tcp' || state !== 'healthy') return undefined
  const wasWrong = nowMs < noLimitUntilMs
  const othersAnswer = shownMs - (evidence.silentSinceMs ?? shownMs) >= ANSWER_MS
  if (othersAnswer && evidence.isDoubtful(protocol, nowMs, wasWrong)) return STOPPED
  return evidence.isShort && !wasWrong ? LIMITED : undefined
}

/** Answers of real servers. */
export interface Answers {
  /** One has certainly answered until then. */
  readonly certainMs: number
  /** A copy that was read then had answers of one, which it may have given up to two seconds before. */
  readonly shownMs: number
}

/**
 * The newest answers of these real servers; undefined: none answers now, and it may be this node that
 * is cut off.
 * @param silent those that are about to be suspects, so their answers do not count
 */
export function newestAnswers(
  all: Iterable<Tracked>,
  silent: ReadonlySet<Tracked>,
  nowMs: number,
): Answers | undefined {
  let [certainMs, shownMs] = [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY]
  for (const tracked of all) {
    const { answerMs = Number.NEGATIVE_INFINITY, answeredUntilMs, isShort } = tracked.evidence
    if (isOut(tracked) || isShort || silent.has(tracked) || nowMs - answerMs > OTHERS_MS) continue
    certainMs = Math.max(certainMs, answeredUntilMs)
    shownMs = Math.max(shownMs, answerMs)
  }
  return shownMs === Number.NEGATIVE_INFINITY ? undefined : { certainMs, shownMs }
}

/** A real server as it should be in its state. */
export function withState(server: RealServer, tracked: Tracked | undefined): RealServer {
  if (tracked === undefined || !isOut(tracked)) return server
  if (tracked.state === 'suspect') return { ...server, weight: 0 }
  const { upperThreshold } = server
  return { ...server, upperThreshold: upperThreshold === 0 ? tracked.limit : Math.min(upperThreshold, tracked.limit) }
}

/**
 * The wanted virtual server for a process that does not know which real servers answer: a live
 * weight of 0, and a live limit below the wanted one, are what the running daemon may want now.
 */
export function acceptOutliers(wanted: VirtualServer, live: VirtualServer | undefined): VirtualServer {
  const there = new Map(live?.realServers.map((server) => [realServerKey(server), server]))
  const realServers = wanted.realServers.map((server) => {
    const { weight, upperThreshold } = there.get(realServerKey(server)) ?? server
    const isLimited = upperThreshold > 0 && (server.upperThreshold === 0 || upperThreshold < server.upperThreshold)
    return weight > 0 && !isLimited
      ? server
      : { ...server, ...(weight === 0 ? { weight } : {}), ...(isLimited ? { upperThreshold } : {}) }
  })
  return { ...wanted, realServers }
}
