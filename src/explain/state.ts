/**
 * A packet on its way: what rules can see of it, and what has happened to it. States are immutable,
 * because one packet may have several ways on; their steps are linked lists that share what they
 * have in common.
 */
import type { Answers, KernelPicture, Questions, RouteAnswer, RouteQuestion } from './picture.ts'
import { routeKey } from './picture.ts'
import type { Choice, Condition, End, Hook, PacketProtocol, PathStep } from './types.ts'
import type { RealServer, VirtualServerKey } from '../ipvs/types.ts'
import type { IpFamily } from '../values/protocol.ts'

export interface Linked<T> {
  readonly value: T
  readonly before: Linked<T> | undefined
}

export interface PacketState {
  readonly family: IpFamily
  readonly protocol: PacketProtocol
  readonly source: string
  readonly destination: string
  /** undefined: a client's, one of many that no rule names. */
  readonly sourcePort: number | undefined
  readonly port: number | undefined
  /** '' where there is none. */
  readonly inInterface: string
  readonly outInterface: string
  /** It came over a bridge, and rules see that. */
  readonly isBridged: boolean
  /** Unsigned 32 bits, like connectionMark. */
  readonly mark: number
  readonly connectionMark: number
  readonly connection: 'NEW' | 'ESTABLISHED'
  /** False after NOTRACK, and after IPVS that does not track connections. */
  readonly isTracked: boolean
  /** How the destination was translated. */
  readonly translated: 'ipvs' | 'dnat' | undefined
  /** Whether rules of nat have had their say: before the routing, and after it. */
  readonly natDone: { readonly destination: boolean; readonly source: boolean }
  /** Its source is no longer the client's. */
  readonly masquerade: { readonly address: string | undefined } | undefined
  /** The virtual server through which IPVS sent it. */
  readonly virtualServer: { readonly address: string; readonly port: number } | undefined
  readonly share: number | null
  readonly conditions: Linked<Condition> | undefined
  /** How often a rule that cannot be judged has doubled the ways before this one. */
  readonly doublings: number
  readonly steps: Linked<PathStep> | undefined
}

export interface Ended {
  readonly state: PacketState
  readonly end: End
}

/** Unjudged rules after which the packet's ways are no longer followed separately. */
const MAX_CONDITIONS = 8
/** Ways of a packet to its ends: each real server of a virtual server makes as many as there are before it. */
const MAX_WAYS = 16_384
/** Unjudged rules at which a prediction forks, all ways together. */
const MAX_FORKS = 2000
/**
 * Work of one prediction, all ways together: one for each rule that a packet is compared with, and
 * MATCH_WORK for one that matches, since that makes steps. Chains may jump to others so that their
 * ways double at each jump. 256 ways through 10,000 rules fit.
 */
const MAX_WORK = 4_000_000
const MATCH_WORK = 20

const LONGER =
  'the ways through the rules are longer than can be followed: the rules that follow are taken not to match'

/** One prediction: what it knows, what it lacks, and what it has found. */
export class Prediction {
  readonly picture: KernelPicture
  readonly #answers: Answers
  readonly #routes = new Map<string, RouteQuestion>()
  readonly #realServers = new Set<VirtualServerKey>()
  readonly #limits: Set<string>
  #forks = 0
  #chances = 0
  #work = 0
  #mostDoublings = MAX_CONDITIONS
  choice: Choice | undefined
  affinitySeconds = 0

  constructor(picture: KernelPicture, answers: Answers) {
    this.picture = picture
    this.#answers = answers
    this.#limits = new Set(picture.limits)
  }

  get questions(): Questions {
    return { routes: this.#routes, realServers: this.#realServers }
  }

  get limits(): readonly string[] {
    return Array.from(this.#limits)
  }

  /** Notes what is not considered, once. */
  limit(text: string): void {
    this.#limits.add(text)
  }

  /** The kernel's answer; undefined when it has to be asked first. */
  route(question: RouteQuestion): RouteAnswer | undefined {
    const key = routeKey(question)
    const answer = this.#answers.routes.get(key)
    if (answer === undefined) this.#routes.set(key, question)
    return answer
  }

  realServers(key: VirtualServerKey): readonly RealServer[] | undefined {
    const answer = this.#answers.realServers.get(key)
    if (answer === undefined) this.#realServers.add(key)
    return answer
  }

  /**
   * The packet goes to this virtual server: the more real servers it has, the fewer rules may
   * double the ways to each of them.
   */
  expectServers(key: VirtualServerKey): void {
    const servers = this.#answers.realServers.get(key)?.length ?? 0
    const ways = Math.max(1, MAX_WAYS / Math.max(1, servers))
    this.#mostDoublings = Math.floor(Math.log2(ways))
  }

  /** Whether this node answers for an address; undefined when the kernel has to be asked first. */
  isLocal(address: string): boolean | undefined {
    const answer = this.route({ destination: address, source: undefined, arrivesAt: undefined, mark: 0 })
    return answer && answer.decision.kind === 'local'
  }

  /**
   * Whether another rule that cannot be judged may make two ways of this packet. @param ends one of
   * them ends at once
   */
  mayFork(state: PacketState, ends: boolean): boolean {
    let conditions = 0
    for (let at = state.conditions; at !== undefined; at = at.before) conditions++
    const fits = conditions < MAX_CONDITIONS && (ends || state.doublings < this.#mostDoublings)
    if (fits && this.#forks++ < MAX_FORKS) return true
    this.limit('there are more rules that cannot be judged than can be followed: the others are taken not to match')
    return false
  }

  /** Whether a rule that matches with a chance may make another way. */
  mayTakeChance(): boolean {
    if (this.#chances++ < MAX_WAYS) return true
    this.limit(LONGER)
    return false
  }

  /** Whether a packet may be compared with another rule; it passes all that follow when not. */
  mayJudge(work = 1): boolean {
    this.#work += work
    if (this.#work <= MAX_WORK) return true
    this.limit(LONGER)
    return false
  }

  matched(): void {
    this.#work += MATCH_WORK
  }
}

export function withStep(state: PacketState, step: PathStep): PacketState {
  return { ...state, steps: { value: step, before: state.steps } }
}

export function withCondition(state: PacketState, condition: Condition): PacketState {
  return { ...state, conditions: { value: condition, before: state.conditions } }
}

/** Whether this way of the packet takes a rule that cannot be judged to match; undefined: it has not met that rule. */
export function assumed(
  state: PacketState,
  { hook, table, rule }: Pick<Condition, 'hook' | 'table' | 'rule'>,
): boolean | undefined {
  for (let at = state.conditions; at !== undefined; at = at.before)
    if (at.value.rule === rule && at.value.hook === hook && at.value.table === table) return at.value.matches
  return undefined
}

/** A step of the routing or of IPVS. */
export function plainStep(hook: Hook, table: string, effect: PathStep['effect']): PathStep {
  return { hook, table, chain: '', rule: '', sets: [], effect }
}

/** In the order in which they were added. */
export function listOf<T>(linked: Linked<T> | undefined): T[] {
  const values: T[] = []
  for (let at = linked; at !== undefined; at = at.before) values.push(at.value)
  return values.toReversed()
}

/** A share with a further chance. */
export function times(share: number | null, chance: number | null): number | null {
  return share === null || chance === null ? null : share * chance
}
