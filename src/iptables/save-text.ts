/**
 * What iptables-save and `-S` of both back ends print, as chains with their rules, and which of
 * these are ours. A table that the program could not print must never look like an empty one, or
 * every jump would be inserted again after each reading.
 */
import { CodedError } from '../values/errors.ts'
import { chainKey, type ChainLayout, jumpKey, type LayoutJump, jumpRule, ownChains } from './layout.ts'
import { canonicalRule, isOneLine, targetOf } from './rule-text.ts'
import { saveLines } from './save-lines.ts'
import type { IptablesItem, RivalRule, TableId } from './types.ts'

/** Chain to its rules in order, without `-A CHAIN `. */
export type SavedTable = ReadonlyMap<string, readonly string[]>

/** All tables of one family by name, also those that we never write. */
export type SavedTables = ReadonlyMap<string, SavedTable>

const INCOMPATIBLE = /^# Table [`']?([\w-]+)'? is incompatible/

/**
 * What iptables-save printed, and the names of tables that it could not print: iptables-nft names
 * them in a comment.
 */
export interface PrintedTables {
  readonly tables: SavedTables
  readonly unprinted: readonly string[]
}

/** Reads the whole text. Throws CodedError when a table is cut off, or when one that we write could not be printed. */
export function parseSave(text: string): SavedTables {
  const { tables, unprinted } = parsePrinted(text)
  const hidden = unprinted.find((table) => table === 'nat' || table === 'filter')
  if (hidden === undefined) return tables
  const advice = 'nft list ruleset shows the rules that were made without iptables'
  throw new CodedError('iptables-table-incompatible', `iptables cannot print the table ${hidden}: ${advice}`)
}

/** Reads the whole text. Throws CodedError when a table is cut off. */
export function parsePrinted(text: string): PrintedTables {
  const reader = new SaveReader()
  for (const line of saveLines(text)) reader.take(line)
  return reader.end()
}

/** Takes the lines of a text one by one. */
export class SaveReader {
  readonly #tables = new Map<string, Map<string, string[]>>()
  readonly #unprinted: string[] = []
  readonly #layout: ChainLayout | undefined
  #table: Map<string, string[]> | undefined
  #name = ''

  /**
   * @param layout of what is read on: of chains of others only rules that may lead to ours are
   * kept, unless the place of one of our jumps in that table matters. Absent: everything is kept.
   */
  constructor(layout?: ChainLayout) {
    this.#layout = layout
  }

  take(line: string): void {
    if (line.startsWith('*')) {
      this.#name = line.slice(1).trim()
      this.#tables.set(this.#name, (this.#table = new Map()))
    } else if (line.startsWith('COMMIT')) this.#table = undefined
    else if (line.startsWith(':')) this.#table?.set(line.slice(1).split(' ')[0] ?? '', [])
    else if (line.startsWith('#')) this.#unprinted.push(...(INCOMPATIBLE.exec(line)?.slice(1) ?? []))
    else if (this.#table !== undefined) this.#takeRule(this.#table, line)
  }

  #takeRule(table: Map<string, string[]>, line: string): void {
    const [chain, rule] = ruleOf(line) ?? []
    if (chain === undefined || rule === undefined) return
    if (this.#layout === undefined || matters(this.#layout, this.#name, chain, rule)) table.get(chain)?.push(rule)
  }

  /** Throws CodedError when a table is cut off. */
  end(): PrintedTables {
    if (this.#table === undefined) return { tables: this.#tables, unprinted: this.#unprinted }
    throw new CodedError('iptables-save-truncated', `iptables-save ended in the middle of the table ${this.#name}`)
  }
}

/** The chain and the rule of `-A CHAIN RULE`, with or without counters. */
function ruleOf(line: string): readonly [chain: string, rule: string] | undefined {
  const [, chain, rule] = /^(?:\[\d+:\d+\] )?-A (\S+) ?([^]*)$/.exec(line) ?? []
  return chain === undefined || rule === undefined ? undefined : [chain, rule.trimEnd()]
}

function matters(layout: ChainLayout, table: string, chain: string, rule: string): boolean {
  const known = layout.tables.find((one) => one === table)
  if (known === undefined) return false
  return layout.hasPlaces(known) || layout.owns(known, chain) || mayLead(layout, known, rule)
}

/** Takes the lines of what `-S CHAIN` prints, for one chain or several. */
export class ShownReader {
  readonly chains = new Map<string, string[]>()

  take(line: string): void {
    const chain = /^-[NP] (\S+)/.exec(line)?.[1]
    if (chain !== undefined) this.chains.set(chain, [])
    const [of, rule] = ruleOf(line) ?? []
    if (of !== undefined && rule !== undefined) this.chains.get(of)?.push(rule)
  }
}

/** Reads what `-S CHAIN` prints. */
export function parseShown(text: string): SavedTable {
  const reader = new ShownReader()
  for (const line of saveLines(text)) reader.take(line)
  return reader.chains
}

/** Policies of built-in chains, `filter FORWARD` to `DROP`; chains that a program made have none. */
export function parsePolicies(text: string): ReadonlyMap<string, string> {
  const policies = new Map<string, string>()
  let table = ''
  for (const line of saveLines(text)) {
    if (line.startsWith('*')) table = line.slice(1).trim()
    else if (line.startsWith(':')) {
      const [chain = '', policy = '-'] = line.slice(1).split(' ')
      if (policy !== '-') policies.set(`${table} ${chain}`, policy)
    }
  }
  return policies
}

/** A rule of a chain that is not ours, or that jumps of ours are in. */
export interface SavedRule {
  readonly table: TableId
  readonly chain: string
  /** Its place among the rules of its chain that were kept. */
  readonly index: number
  readonly rule: string
}

/** Rules that may lead to our chains, for those who look at all of them: `mayLead` says it of each. */
export function* rulesOfOthers(saved: SavedTables, layout: ChainLayout): Generator<SavedRule, void> {
  for (const table of layout.tables)
    for (const [chain, rules] of saved.get(table) ?? [])
      if (!layout.owns(table, chain) || layout.isOrigin(table, chain))
        for (const [index, rule] of rules.entries()) yield { table, chain, index, rule }
}

const TARGET = /(?:^|\s)-[jg]\s+"?([^\s"]+)/g

/**
 * Whether one of our chains is named as a target, maybe in a comment: a quick look, because a node
 * may have very many rules of others.
 */
export function mayLead(layout: ChainLayout, table: TableId, rule: string): boolean {
  for (const [, chain = ''] of rule.matchAll(TARGET)) if (layout.owns(table, chain)) return true
  return false
}

function leadingRules(saved: SavedTables, layout: ChainLayout): SavedRule[] {
  return Array.from(rulesOfOthers(saved, layout)).filter(({ table, rule }) => mayLead(layout, table, rule))
}

/**
 * Whether some release of kube-proxy inserts this jump. A line of iptables-restore cannot delete
 * one whose comment has line breaks.
 */
function isJump(layout: ChainLayout, { table, chain, rule }: SavedRule): boolean {
  return layout.isJump(table, chain, rule) && isOneLine(rule)
}

/** What stands in front of one of our jumps, if it matters. */
export type FindRival = (place: LayoutJump, table: SavedTable, index: number) => RivalRule | undefined

/** Our chains and jumps in what was saved, by key. @param leading the rules that may lead to our chains */
export function itemsOf(
  saved: SavedTables,
  layout: ChainLayout,
  findRival: FindRival = () => undefined,
  leading: readonly SavedRule[] = leadingRules(saved, layout),
): Map<string, IptablesItem> {
  const items = new Map<string, IptablesItem>()
  for (const table of layout.tables) {
    const there: SavedTable = saved.get(table) ?? new Map()
    for (const chain of ownChains(layout, table, there.keys())) {
      const rules = there.get(chain)
      if (rules !== undefined && !layout.isLeft(chainKey(table, chain)))
        items.set(chainKey(table, chain), { kind: 'chain', table, chain, rules })
    }
  }
  const jumps = jumpsIn(leading, layout)
  for (const place of layout.jumps) {
    const { table, from, to } = place
    const rule = jumpRule(place)
    const text = `${table} ${from} ${canonicalRule(rule)}`
    const copies = jumps.get(text)
    jumps.delete(text)
    const [first] = copies ?? []
    if (copies === undefined || first === undefined || layout.isLeft(chainKey(table, to))) continue
    const there: SavedTable = saved.get(table) ?? new Map()
    const behind = place.isFirst === true ? findRival(place, there, first.index) : undefined
    const jump = { kind: 'jump', table, chain: from, rule, copies: copies.length } as const
    items.set(jumpKey(place), behind === undefined ? jump : { ...jump, behind })
  }
  // Jumps of other releases have their text as their key.
  for (const [text, copies] of jumps) {
    const [first] = copies
    if (first === undefined || layout.isLeft(chainKey(first.table, targetOf(first.rule) ?? ''))) continue
    const { table, chain, rule } = first
    items.set(text, { kind: 'jump', table, chain, rule, copies: copies.length })
  }
  return items
}

/** Jumps of any release by `table chain rule` in their canonical form, with their copies in order. */
function jumpsIn(leading: readonly SavedRule[], layout: ChainLayout): Map<string, readonly SavedRule[]> {
  const jumps = new Map<string, SavedRule[]>()
  for (const one of leading) {
    if (!isJump(layout, one)) continue
    const text = `${one.table} ${one.chain} ${canonicalRule(one.rule)}`
    const copies = jumps.get(text)
    if (copies === undefined) jumps.set(text, [one])
    else copies.push(one)
  }
  return jumps
}

/** Rules of other programs that jump to our chains, by the key of our chain; if there are several, the first. */
export function foreignReferences(
  saved: SavedTables,
  layout: ChainLayout,
  leading: readonly SavedRule[] = leadingRules(saved, layout),
): Map<string, string> {
  const found = new Map<string, string>()
  for (const one of leading) {
    const { table, chain, rule } = one
    const target = targetOf(rule)
    if (target === undefined || layout.owns(table, chain) || !layout.owns(table, target) || isJump(layout, one))
      continue
    const key = chainKey(table, target)
    if (!found.has(key)) found.set(key, `-A ${chain} ${rule}`)
  }
  return found
}
