/**
 * Takes a packet through the chains of one table at one hook: every rule in order, jumps and
 * returns, the policy at the end. A rule that matches with a chance, or that cannot be judged,
 * makes two ways; all of them are followed.
 */
import type { RuleMatch } from '../iptables/rule-parts.ts'
import type { WholeChain } from '../iptables/whole-tables.ts'
import { FALSE, type Judgement, TRUE, unknown } from './judgement.ts'
import { JUDGES } from './matches.ts'
import { type ParsedRule, rulesOf } from './rules.ts'
import { assumed, type Ended, type PacketState, type Prediction, times, withCondition, withStep } from './state.ts'
import { applyTarget } from './targets.ts'
import type { Hook, PathStep, StepEffect } from './types.ts'

/** More jumps inside one another than any ruleset has; the kernel refuses loops. */
const MAX_DEPTH = 200

const PASSES: RuleJudgement = { judgement: FALSE, sets: [] }

/** What became of a packet in a table. */
export interface TableResult {
  /** Ways on which it passed. */
  readonly passed: readonly PacketState[]
  /** Ways that ended here. */
  readonly ended: readonly Ended[]
}

/** The packet at a built-in chain; it passes a table that has no such chain. */
export function passTable(prediction: Prediction, table: string, hook: Hook, state: PacketState): TableResult {
  const chains = prediction.picture.rules[state.family]?.get(table)
  const chain = chains?.get(hook)
  if (chains === undefined || chain === undefined) return { passed: [state], ended: [] }
  const walk = new TableWalk(prediction, table, hook, chains)
  const returned = walk.chain(chain, state, 0)
  const policy = chain.policy ?? 'ACCEPT'
  if (policy === 'ACCEPT') return { passed: [...walk.done, ...returned], ended: walk.ended }
  const dropped = returned.map((one): Ended => {
    const effect: StepEffect = { kind: 'policy', policy }
    return { state: withStep(one, { hook, table, chain: hook, rule: '', sets: [], effect }), end: { kind: 'dropped' } }
  })
  return { passed: walk.done, ended: [...walk.ended, ...dropped] }
}

class TableWalk {
  /** Packets that the table accepted. */
  readonly done: PacketState[] = []
  readonly ended: Ended[] = []
  readonly #prediction: Prediction
  readonly #table: string
  readonly #hook: Hook
  readonly #chains: ReadonlyMap<string, WholeChain>

  constructor(prediction: Prediction, table: string, hook: Hook, chains: ReadonlyMap<string, WholeChain>) {
    this.#prediction = prediction
    this.#table = table
    this.#hook = hook
    this.#chains = chains
  }

  /** The packets that return from the chain. */
  chain(chain: WholeChain, state: PacketState, depth: number): readonly PacketState[] {
    const returned: PacketState[] = []
    let live: readonly PacketState[] = [state]
    for (const rule of rulesOf(chain)) {
      let next: PacketState[] | undefined
      for (const [index, one] of live.entries()) {
        const found = this.#prediction.mayJudge() ? judgeRule(rule, one, this.#prediction) : PASSES
        if (found.judgement.kind === 'no') {
          next?.push(one)
          continue
        }
        this.#prediction.matched()
        next ??= live.slice(0, index)
        next.push(...this.#matched(chain, rule, one, found, returned, depth))
      }
      if (next !== undefined) live = next
      if (live.length === 0) break
    }
    return returned.length === 0 ? live : [...live, ...returned]
  }

  /** The packets for which the chain goes on after a rule that matches, or may match. */
  #matched(
    chain: WholeChain,
    rule: ParsedRule,
    state: PacketState,
    { judgement, sets }: RuleJudgement,
    returned: PacketState[],
    depth: number,
  ): readonly PacketState[] {
    const step = (effect: StepEffect, chance?: number): PathStep => {
      const common = { hook: this.#hook, table: this.#table, chain: chain.name, rule: rule.text, sets, effect }
      return chance === undefined ? common : { ...common, chance }
    }
    switch (judgement.kind) {
      case 'no':
        return [state]
      case 'yes':
        return this.#hit(rule, state, step, returned, depth)
      case 'chance': {
        if (!this.#prediction.mayTakeChance()) return [state]
        const { chance } = judgement
        const hit = { ...state, share: times(state.share, chance) }
        const onward = this.#hit(rule, hit, (effect) => step(effect, chance), returned, depth)
        this.#prediction.choice ??= 'random'
        return [{ ...state, share: times(state.share, 1 - chance) }, ...onward]
      }
      case 'unknown': {
        const result = applyTarget(rule.target, state, (name) => this.#chains.has(name), this.#prediction)
        if (result.kind === 'continue' && result.state === state) return [state]
        // A packet that comes to a rule again, by another jump, finds that it matches as it did before.
        const before = assumed(state, { hook: this.#hook, table: this.#table, rule: rule.text })
        if (before === false) return [state]
        if (before === true) return this.#hit(rule, state, step, returned, depth)
        const ends = result.kind === 'end'
        if (!this.#prediction.mayFork(state, ends)) return [state]
        const { because } = judgement
        const forked = ends ? state : { ...state, doublings: state.doublings + 1 }
        const [hit, miss] = [true, false].map((matches) => {
          const condition = { hook: this.#hook, table: this.#table, rule: rule.text, matches, because }
          return withCondition(withStep(forked, step({ kind: 'unjudged', matches, because })), condition)
        }) as [PacketState, PacketState] // one for each element
        return [miss, ...this.#hit(rule, hit, step, returned, depth)]
      }
    }
  }

  #hit(
    rule: ParsedRule,
    state: PacketState,
    step: (effect: StepEffect) => PathStep,
    returned: PacketState[],
    depth: number,
  ): readonly PacketState[] {
    const result = applyTarget(rule.target, state, (name) => this.#chains.has(name), this.#prediction)
    switch (result.kind) {
      case 'continue':
        return [result.effect === undefined ? result.state : withStep(result.state, step(result.effect))]
      case 'done':
        this.done.push(withStep(result.state, step(result.effect)))
        return []
      case 'return':
        returned.push(withStep(state, step({ kind: 'return' })))
        return []
      case 'end': {
        const last = withStep(state, step(result.effect))
        const end = result.effect.kind === 'refuse' ? ({ kind: 'refused', by: result.effect.by } as const) : undefined
        this.ended.push({ state: last, end: end ?? { kind: 'dropped' } })
        return []
      }
      case 'jump': {
        const chain = this.#chains.get(result.chain)
        if (chain === undefined || depth >= MAX_DEPTH) return [state]
        const jumped = withStep(state, step({ kind: 'jump', chain: result.chain }))
        // A jump after which nothing happened is left out.
        const back = this.chain(chain, jumped, depth + 1).map((one) =>
          one.steps === jumped.steps ? { ...one, steps: state.steps } : one,
        )
        if (!result.isGoto) return back
        returned.push(...back)
        return []
      }
      case 'unknown': {
        const { because } = result
        const condition = { hook: this.#hook, table: this.#table, rule: rule.text, matches: true, because }
        return [withCondition(withStep(state, step({ kind: 'unjudged', matches: true, because })), condition)]
      }
    }
  }
}

interface RuleJudgement {
  readonly judgement: Judgement
  readonly sets: readonly { readonly name: string; readonly entry: string | undefined }[]
}

const NO_SETS: RuleJudgement['sets'] = []

/** Whether a packet matches a rule: a match that does not outweighs those that cannot be judged. */
function judgeRule(rule: ParsedRule, state: PacketState, prediction: Prediction): RuleJudgement {
  let all: Judgement = TRUE
  let sets = NO_SETS
  for (const match of rule.matches) {
    const judgement = judgeMatch(match, state, prediction)
    if (judgement.kind === 'no') return { judgement, sets: NO_SETS }
    if (judgement.kind === 'yes') {
      if (judgement.sets !== undefined) sets = [...sets, ...judgement.sets]
    } else if (judgement.kind === 'chance') {
      if (all.kind === 'chance') all = { kind: 'chance', chance: all.chance * judgement.chance }
      else if (all.kind === 'yes') all = judgement
    } else if (all.kind !== 'unknown') all = judgement
  }
  return { judgement: all, sets }
}

function judgeMatch(match: RuleMatch, state: PacketState, prediction: Prediction): Judgement {
  const judge = JUDGES.get(match.name)
  return judge === undefined ? unknown(`the match ${match.name}`) : judge(match, state, prediction)
}
