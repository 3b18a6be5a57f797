/**
 * Takes a packet through one base chain of the private table and the chains that it leads to: every
 * rule in order, its statements in order, jumps and returns. A statement that cannot be judged makes
 * two ways, and both are followed.
 */
import type { NftAction, NftChain, NftRule, NftStatement } from '../nftables/types.ts'
import type { TableResult } from './chains.ts'
import { FALSE, type Judgement } from './judgement.ts'
import { judgeStatement, networksText, textOf, workOf } from './private-matches.ts'
import type { BaseChain, PrivateRules } from './private-rules.ts'
import { assumed, type Ended, type PacketState, type Prediction, withCondition, withStep } from './state.ts'
import { masqueraded } from './targets.ts'
import type { Condition, End, Hook, PathStep, StepEffect } from './types.ts'

/** More jumps inside one another than the kernel takes (NFT_JUMP_STACK_SIZE); it refuses loops. */
const MAX_DEPTH = 64

/** The packet at a base chain. One whose translation is decided there has `natDone`. */
export function passPrivateChain(
  prediction: Prediction,
  rules: PrivateRules,
  chain: BaseChain,
  hook: Hook,
  state: PacketState,
): TableResult {
  const walk = new PrivateWalk(prediction, rules, hook)
  // The policy of our base chains is accept.
  const returned = walk.chain(chain, state, 0)
  return { passed: [...walk.done, ...returned], ended: walk.ended }
}

/** A rule where a packet is. */
interface Place {
  readonly chain: NftChain
  readonly rule: NftRule
  readonly index: number
  readonly depth: number
  /** Packets that return from the chain. */
  readonly returned: PacketState[]
}

/** What follows when a statement has done something with a packet. */
type Act =
  | { readonly kind: 'next-statement'; readonly state: PacketState }
  | { readonly kind: 'next-rule'; readonly states: readonly PacketState[] }

const onward = (state: PacketState): Act => ({ kind: 'next-statement', state })
/** No packet comes to the next rule. */
const NO_MORE: Act = { kind: 'next-rule', states: [] }

class PrivateWalk {
  readonly done: PacketState[] = []
  readonly ended: Ended[] = []
  readonly #prediction: Prediction
  readonly #rules: PrivateRules
  readonly #hook: Hook

  constructor(prediction: Prediction, rules: PrivateRules, hook: Hook) {
    this.#prediction = prediction
    this.#rules = rules
    this.#hook = hook
  }

  /** The packets that return from the chain. */
  chain(chain: NftChain, state: PacketState, depth: number): readonly PacketState[] {
    const returned: PacketState[] = []
    let live: readonly PacketState[] = [state]
    for (const [index, rule] of chain.rules.entries()) {
      const place: Place = { chain, rule, index, depth, returned }
      live = live.flatMap((one) => this.#statements(place, 0, one, []))
      if (live.length === 0) break
    }
    return returned.length === 0 ? live : [...live, ...returned]
  }

  /** The packets for which the next rule is read. */
  #statements(place: Place, from: number, state: PacketState, sets: PathStep['sets']): readonly PacketState[] {
    const { statements } = place.rule
    let now = state
    let found = sets
    for (let at = from; at < statements.length; at++) {
      const statement = statements[at]
      if (statement === undefined) break
      const judgement = this.#judge(statement, now)
      if (judgement?.kind === 'no') return [now]
      if (judgement?.kind === 'unknown') return this.#fork(place, at, now, found, judgement.because)
      if (judgement === undefined) {
        this.#prediction.matched()
        const next = this.#act(place, statement, now, found)
        if (next.kind === 'next-rule') return next.states
        now = next.state
      } else if (judgement.kind === 'yes' && judgement.sets !== undefined) found = [...found, ...judgement.sets]
    }
    return [now]
  }

  #judge(statement: NftStatement, state: PacketState): Judgement | undefined {
    return this.#prediction.mayJudge(workOf(statement)) ? judgeStatement(statement, state, this.#rules) : FALSE
  }

  #step({ chain, rule }: Place, effect: StepEffect, sets: PathStep['sets'] = []): PathStep {
    const text = textOf(rule, this.#rules)
    return { hook: this.#hook, table: this.#rules.name, chain: chain.name, rule: text, sets, effect }
  }

  /** A packet of which it cannot be known whether it goes on to the next statement. */
  #fork(place: Place, at: number, state: PacketState, sets: PathStep['sets'], because: string): readonly PacketState[] {
    const { chain, rule, index } = place
    const text = textOf(rule, this.#rules)
    const condition: Omit<Condition, 'matches'> = {
      hook: this.#hook,
      table: this.#rules.name,
      // What is not understood is printed by its name only, so that different rules may look alike.
      rule: `rule ${index + 1} of the chain ${chain.name}: ${text}`,
      because,
    }
    const before = assumed(state, condition)
    if (before === false) return [state]
    if (before === true) return this.#statements(place, at + 1, state, sets)
    const ends = rule.statements.slice(at + 1).some(isFinal)
    if (!this.#prediction.mayFork(state, ends)) return [state]
    const forked = ends ? state : { ...state, doublings: state.doublings + 1 }
    const way = (matches: boolean): PacketState =>
      withCondition(withStep(forked, this.#step(place, { kind: 'unjudged', matches, because }, sets)), {
        ...condition,
        matches,
      })
    return [way(false), ...this.#statements(place, at + 1, way(true), sets)]
  }

  #act(place: Place, statement: NftStatement, state: PacketState, sets: PathStep['sets']): Act {
    switch (statement.kind) {
      case 'set-mark': {
        const { mask, to } = statement
        const mark = (to === 'set' ? state.mark | mask : state.mark ^ mask) >>> 0
        return onward(withStep({ ...state, mark }, this.#step(place, { kind: 'mark', mark }, sets)))
      }
      case 'keep-destination': {
        const kept = { ...state, natDone: { ...state.natDone, destination: true } }
        return this.#finish(kept, this.#step(place, { kind: 'keep-destination' }, sets))
      }
      case 'masquerade': {
        const { state: translated, effect } = masqueraded(state, this.#prediction)
        return this.#finish(translated, this.#step(place, effect, sets))
      }
      case 'reject': {
        const by = state.family === 'IPv4' ? 'icmp-port-unreachable' : 'icmp6-port-unreachable'
        return this.#end(state, this.#step(place, { kind: 'refuse', by }, sets), { kind: 'refused', by })
      }
      case 'verdict':
        return this.#verdict(place, statement.action, state, sets)
      case 'verdict-map': {
        const { map, fields } = statement
        const found = this.#rules.find(map, fields, state)
        if (found.kind !== 'found' || found.action === undefined) return onward(state)
        return this.#verdict(place, found.action, state, [...sets, { name: map, entry: found.value }])
      }
      default:
        return onward(state)
    }
  }

  #verdict(place: Place, action: NftAction, state: PacketState, sets: PathStep['sets']): Act {
    switch (action.kind) {
      case 'accept':
        return this.#finish(state, this.#step(place, { kind: 'accept' }, sets))
      case 'drop': {
        const step = this.#step(place, { kind: 'drop' }, [...sets, ...this.#missed(place)])
        return this.#end(state, step, { kind: 'dropped' })
      }
      case 'return':
        // A base chain has none before it.
        place.returned.push(withStep(state, this.#step(place, { kind: place.depth === 0 ? 'accept' : 'return' }, sets)))
        return NO_MORE
      default: {
        const chain = this.#rules.chain(action.chain)
        if (chain === undefined || place.depth >= MAX_DEPTH) return onward(state)
        const jumped = withStep(state, this.#step(place, { kind: 'jump', chain: action.chain }, sets))
        // A jump after which nothing happened is left out.
        const back = this.chain(chain, jumped, place.depth + 1).map((one) =>
          one.steps === jumped.steps ? { ...one, steps: state.steps } : one,
        )
        if (action.kind === 'jump') return { kind: 'next-rule', states: back }
        place.returned.push(...back)
        return NO_MORE
      }
    }
  }

  /** The source ranges that let packets return before this rule, so that those here are in none of them. */
  #missed({ chain, index }: Place): PathStep['sets'] {
    const [networks, last, ...more] = chain.rules[index - 1]?.statements ?? []
    const isList = networks?.kind === 'networks' || (networks?.kind === 'network' && networks.isNot !== true)
    if (!isList || last?.kind !== 'verdict' || last.action.kind !== 'return') return []
    return more.length > 0 ? [] : [{ name: networksText(networks, this.#rules), entry: undefined }]
  }

  /** The base chain is done with the packet. */
  #finish(state: PacketState, step: PathStep): Act {
    this.done.push(withStep(state, step))
    return NO_MORE
  }

  #end(state: PacketState, step: PathStep, end: End): Act {
    this.ended.push({ state: withStep(state, step), end })
    return NO_MORE
  }
}

/** Whether a packet never comes to the statement behind this one. */
function isFinal(statement: NftStatement): boolean {
  if (statement.kind === 'verdict') return statement.action.kind !== 'jump'
  return statement.kind === 'reject'
}
