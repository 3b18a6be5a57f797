/** Rules of chains, each taken apart once. `matches.ts` and `targets.ts` judge the parts. */
import { partsOf, type RuleParts } from '../iptables/rule-parts.ts'
import type { WholeChain } from '../iptables/whole-tables.ts'

export interface ParsedRule extends RuleParts {
  /** `-A CHAIN …` */
  readonly text: string
}

const parsed = new WeakMap<WholeChain, readonly ParsedRule[]>()

/** The rules of a chain, each taken apart once. */
export function rulesOf(chain: WholeChain): readonly ParsedRule[] {
  let rules = parsed.get(chain)
  if (rules === undefined) parsed.set(chain, (rules = chain.rules.map((rule) => parseRule(chain.name, rule))))
  return rules
}

export const parseRule = (chain: string, rule: string): ParsedRule => ({
  text: `-A ${chain} ${rule}`,
  ...partsOf(rule),
})
