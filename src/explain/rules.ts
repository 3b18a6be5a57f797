/** Chains with their policies and rules, each rule taken apart once. `matches.ts` and `targets.ts` judge the parts. */
import { partsOf, type RuleParts } from '../iptables/rule-parts.ts'
import { parsePolicies, parseSave } from '../iptables/save-text.ts'

/** All tables of one family: table, then chain. */
export type RuleTables = ReadonlyMap<string, ReadonlyMap<string, RuleChain>>

export interface RuleChain {
  readonly name: string
  /** ACCEPT or DROP of a built-in chain; undefined for all others. */
  readonly policy: string | undefined
  /** In order, without `-A CHAIN`. */
  readonly rules: readonly string[]
}

export interface ParsedRule extends RuleParts {
  /** `-A CHAIN …` */
  readonly text: string
}

/** Chains that were read from the kernel. */
export function ruleTables(
  read: ReadonlyMap<string, ReadonlyMap<string, Pick<RuleChain, 'policy' | 'rules'>>>,
): RuleTables {
  return new Map(
    Array.from(read, ([table, chains]) => [
      table,
      new Map(Array.from(chains, ([name, { policy, rules }]) => [name, { name, policy, rules }])),
    ]),
  )
}

/** Reads what iptables-save printed. Throws CodedError as parseSave does. */
export function parseTables(text: string): RuleTables {
  const policies = parsePolicies(text)
  const tables = new Map<string, ReadonlyMap<string, RuleChain>>()
  for (const [table, chains] of parseSave(text))
    tables.set(
      table,
      new Map(Array.from(chains, ([name, rules]) => [name, { name, policy: policies.get(`${table} ${name}`), rules }])),
    )
  return tables
}

const parsed = new WeakMap<RuleChain, readonly ParsedRule[]>()

/** The rules of a chain, each taken apart once. */
export function rulesOf(chain: RuleChain): readonly ParsedRule[] {
  let rules = parsed.get(chain)
  if (rules === undefined) parsed.set(chain, (rules = chain.rules.map((rule) => parseRule(chain.name, rule))))
  return rules
}

export const parseRule = (chain: string, rule: string): ParsedRule => ({
  text: `-A ${chain} ${rule}`,
  ...partsOf(rule),
})
