/**
 * Finds rules of other programs that stand in front of one of our jumps and may take packets of
 * Services: a hostPort, for which the CNI plugin portmap inserts its jump at the top, takes its
 * port of every address of the node. A rule that leads nowhere but back, such as the chains of most
 * network plug-ins, takes nothing.
 */
import { ruleOptions, type RuleOption, TARGETS_WITHOUT_EFFECT } from './rule-parts.ts'
import type { SavedTable } from './save-text.ts'
import type { RivalRule } from './types.ts'

export interface RivalSearch {
  /** The first one; undefined: there is none. */
  readonly rival: RivalRule | undefined
  /** Chains of others that rules in front of our jump lead to: a rule that is added there may take packets. */
  readonly watched: ReadonlySet<string>
}

/** Targets after which the next rule is read. */
const CONTINUES: ReadonlySet<string> = new Set([...TARGETS_WITHOUT_EFFECT, 'CONNMARK', 'CT', 'MARK', 'NOTRACK'])
/** Work of one search. A ruleset with more in front of our jump counts as one that takes packets. */
const MAX_RULES = 10_000
const MAX_TAKERS = 20
/** Jumps one behind the other. Chains that lead further count as ones that take packets. */
const MAX_DEPTH = 200

/**
 * @param index of our jump in its chain
 * @param owns whether a chain is ours
 * @param serves whether an address is one of a Service; a rule for a single other address takes
 * nothing
 */
export function findRival(
  table: SavedTable,
  chain: string,
  index: number,
  owns: (chain: string) => boolean,
  serves: (address: string) => boolean,
): RivalSearch {
  const search = new Search(table, owns, serves)
  for (const rule of (table.get(chain) ?? []).slice(0, index)) {
    const takes = search.takersOf(rule, chain)
    if (takes.length > 0) return { rival: { rule, takes }, watched: search.visited }
  }
  return { rival: undefined, watched: search.visited }
}

class Search {
  readonly visited = new Set<string>()
  readonly #table: SavedTable
  readonly #owns: (chain: string) => boolean
  readonly #serves: (address: string) => boolean
  #left = MAX_RULES

  constructor(table: SavedTable, owns: (chain: string) => boolean, serves: (address: string) => boolean) {
    this.#table = table
    this.#owns = owns
    this.#serves = serves
  }

  takersOf(rule: string, chain: string): readonly string[] {
    const found: string[] = []
    // What a chain does is the same wherever it is jumped to, but for the first jump a return is the end, too.
    this.#follow(rule, chain, 0, found, new Set())
    return found
  }

  /** @param depth number of jumps that led here */
  #follow(rule: string, chain: string, depth: number, found: string[], seen: Set<string>): void {
    if (found.length >= MAX_TAKERS) return
    const text = `-A ${chain} ${rule}`
    if (this.#left-- <= 0 || depth > MAX_DEPTH) return void found.push(text)
    const isBase = depth === 0
    const options = ruleOptions(rule)
    if (this.#isForOthers(options)) return
    const jump = options.find(({ name }) => name === '-j' || name === '-g')
    const target = jump?.values[0]
    if (target === undefined || CONTINUES.has(target) || this.#owns(target)) return
    if (target === 'RETURN') {
      if (isBase) found.push(text)
      return
    }
    const rules = this.#table.get(target)
    if (rules === undefined) return void found.push(text)
    // After -g the packet does not come back to the rules behind.
    if (isBase && jump?.name === '-g') return void found.push(text)
    this.visited.add(target)
    if (seen.has(target)) return
    seen.add(target)
    for (const next of rules) this.#follow(next, target, depth + 1, found, seen)
  }

  /** Whether the rule is only for one address that no Service has. */
  #isForOthers(options: readonly RuleOption[]): boolean {
    const option = options.find(({ name }) => name === '-d')
    const [address = '', length] = option?.values[0]?.split('/') ?? []
    if (option === undefined || option.negated || address === '') return false
    const isOne =
      length === undefined || length === (address.includes(':') ? '128' : '32') || length === '255.255.255.255'
    return isOne && !this.#serves(address)
  }
}

/** The ports that these rules are for, as `443/tcp`; `any port` for a rule that names none. */
export function portsTaken(rules: readonly string[]): readonly string[] {
  const ports = new Set<string>()
  for (const rule of rules) {
    const options = ruleOptions(rule)
    const valueOf = (name: string): string | undefined => options.find((one) => one.name === name)?.values[0]
    const port = valueOf('--dport') ?? valueOf('--dports')
    ports.add(port === undefined ? 'any port' : `${port}/${valueOf('-p') ?? 'any protocol'}`)
  }
  return Array.from(ports).sort()
}
