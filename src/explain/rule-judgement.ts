/** Whether a packet matches a rule: the judgements of all its matches together. */
import { type Judgement, TRUE, unknown } from './judgement.ts'
import { JUDGES } from './matches.ts'
import type { RuleMatch } from '../iptables/rule-parts.ts'
import type { ParsedRule } from './rules.ts'
import type { PacketState, Prediction } from './state.ts'

export interface RuleJudgement {
  readonly judgement: Judgement
  readonly sets: readonly { readonly name: string; readonly entry: string | undefined }[]
}

const NO_SETS: RuleJudgement['sets'] = []

/** One that does not match outweighs those that cannot be judged. */
export function judgeRule(rule: ParsedRule, state: PacketState, prediction: Prediction): RuleJudgement {
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
