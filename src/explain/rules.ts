/**
 * Rules as iptables-save prints them, taken apart: chains with their policies, and of each rule its matches and its target. Which
 * of them are understood is decided where they are judged (`matches.ts`, `targets.ts`).
 */
import { type RuleOption, ruleOptions } from '../iptables/rule-text.ts'
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

/** A match: the options after `-m NAME`, or those before all of them (`-s`, `-d`, `-i`, `-o`, `-p`), whose name is ''. */
export interface RuleMatch {
  readonly name: string
  readonly options: readonly RuleOption[]
}

export interface RuleTarget {
  /** `MARK`, or a chain. */
  readonly name: string
  /** -g: what follows in this chain is left out when the other chain returns. */
  readonly isGoto: boolean
  readonly options: readonly RuleOption[]
}

export interface ParsedRule {
  /** `-A CHAIN …` */
  readonly text: string
  readonly matches: readonly RuleMatch[]
  /** undefined: the rule only counts. */
  readonly target: RuleTarget | undefined
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

export function parseRule(chain: string, rule: string): ParsedRule {
  const head: RuleOption[] = []
  const matches: { name: string; options: RuleOption[] }[] = [{ name: '', options: head }]
  let target: { name: string; isGoto: boolean; options: RuleOption[] } | undefined
  let group = head
  for (const option of ruleOptions(rule)) {
    const [value = ''] = option.values
    if (option.name === '-m' && target === undefined) matches.push({ name: value, options: (group = []) })
    else if (option.name === '-j' || option.name === '-g')
      target = { name: value, isGoto: option.name === '-g', options: (group = []) }
    else group.push(option)
  }
  return { text: `-A ${chain} ${rule}`, matches: head.length === 0 ? matches.slice(1) : matches, target }
}
