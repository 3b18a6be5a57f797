/**
 * What iptables-save and `-S` of both back ends print, as chains with their rules, and which of these are ours. A table that the
 * program could not print must never look like an empty one, or every jump would be inserted again after each reading.
 */
import { CodedError } from '../values/errors.ts'
import { chainKey, type ChainLayout, jumpKey, type JumpPlace, jumpRule, ownChains } from './layout.ts'
import type { RivalRule } from './types.ts'
import { canonicalRule, targetOf } from './rule-text.ts'
import type { IptablesItem } from './types.ts'

/** Chain to its rules in order, without `-A CHAIN `. */
export type SavedTable = ReadonlyMap<string, readonly string[]>

/** All tables of one family by name, also those that we never write. */
export type SavedTables = ReadonlyMap<string, SavedTable>

const INCOMPATIBLE = /^# Table [`']?([\w-]+)'? is incompatible/

/** What iptables-save printed, and the names of tables that it could not print: iptables-nft names them in a comment. */
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
  const tables = new Map<string, Map<string, string[]>>()
  const unprinted: string[] = []
  let table: Map<string, string[]> | undefined
  let name = ''
  for (const line of text.split('\n')) {
    if (line.startsWith('*')) {
      name = line.slice(1).trim()
      tables.set(name, (table = new Map()))
    } else if (line.startsWith('COMMIT')) table = undefined
    else if (line.startsWith(':') && table !== undefined) table.set(line.slice(1).split(' ')[0] ?? '', [])
    else if (line.startsWith('#')) unprinted.push(...(INCOMPATIBLE.exec(line)?.slice(1) ?? []))
    else if (table !== undefined) addRule(table, line)
  }
  if (table !== undefined)
    throw new CodedError('iptables-save-truncated', `iptables-save ended in the middle of the table ${name}`)
  return { tables, unprinted }
}

function addRule(table: ReadonlyMap<string, string[]>, line: string): void {
  const rule = /^(?:\[\d+:\d+\] )?-A (\S+) ?(.*)$/.exec(line)
  if (rule !== null) table.get(rule[1] ?? '')?.push(rule[2]?.trimEnd() ?? '')
}

/** Reads what `-S CHAIN` prints, for one chain or several. */
export function parseShown(text: string): SavedTable {
  const chains = new Map<string, string[]>()
  for (const line of text.split('\n')) {
    const chain = /^-[NP] (\S+)/.exec(line)?.[1]
    if (chain === undefined) addRule(chains, line)
    else chains.set(chain, [])
  }
  return chains
}

/** Policies of built-in chains, `filter FORWARD` to `DROP`; chains that a program made have none. */
export function parsePolicies(text: string): ReadonlyMap<string, string> {
  const policies = new Map<string, string>()
  let table = ''
  for (const line of text.split('\n')) {
    if (line.startsWith('*')) table = line.slice(1).trim()
    else if (line.startsWith(':')) {
      const [chain = '', policy = '-'] = line.slice(1).split(' ')
      if (policy !== '-') policies.set(`${table} ${chain}`, policy)
    }
  }
  return policies
}

/** What stands in front of one of our jumps, if it matters. */
export type FindRival = (place: JumpPlace, table: SavedTable, index: number) => RivalRule | undefined

/** Our chains and jumps in what was saved, by key. */
export function itemsOf(
  saved: SavedTables,
  layout: ChainLayout,
  findRival: FindRival = () => undefined,
): Map<string, IptablesItem> {
  const items = new Map<string, IptablesItem>()
  const isKubelets = [...saved.values()].some((table) => layout.sharedUnless.some((chain) => table.has(chain)))
  const isLeft = (key: string): boolean => isKubelets && layout.shared.has(key)
  for (const table of layout.tables) {
    const there: SavedTable = saved.get(table) ?? new Map()
    for (const chain of ownChains(layout, table, there.keys())) {
      const rules = there.get(chain)
      if (rules !== undefined && !isLeft(chainKey(table, chain)))
        items.set(chainKey(table, chain), { kind: 'chain', table, chain, rules })
    }
  }
  for (const place of layout.jumps) {
    const { table, from, to } = place
    if (isLeft(chainKey(table, to))) continue
    const rule = jumpRule(place)
    const wanted = canonicalRule(rule)
    const there: SavedTable = saved.get(table) ?? new Map()
    const all = there.get(from) ?? []
    const copies = all.filter((one) => canonicalRule(one) === wanted).length
    if (copies === 0) continue
    const first = all.findIndex((one) => canonicalRule(one) === wanted)
    const behind = place.isFirst === true ? findRival(place, there, first) : undefined
    const jump = { kind: 'jump', table, chain: from, rule, copies } as const
    items.set(jumpKey(place), behind === undefined ? jump : { ...jump, behind })
  }
  const known = jumpTexts(layout)
  for (const { table, from, rule, text } of jumpsOf(saved, layout)) {
    if (known.has(text) || isLeft(chainKey(table, targetOf(rule) ?? ''))) continue
    const before = items.get(text)
    const copies = before?.kind === 'jump' ? before.copies + 1 : 1
    items.set(text, { kind: 'jump', table, chain: from, rule, copies })
  }
  return items
}

/** Jumps of the layout as `table from rule`. */
function jumpTexts({ jumps }: ChainLayout): ReadonlySet<string> {
  return new Set(jumps.map((place) => `${place.table} ${place.from} ${canonicalRule(jumpRule(place))}`))
}

/** Jumps of any release. `text` is `table from rule`, the key of a jump that the layout does not have. */
function* jumpsOf(saved: SavedTables, layout: ChainLayout) {
  for (const table of layout.tables)
    for (const [from, rules] of saved.get(table) ?? [])
      for (const rule of rules)
        if (layout.isJump(table, from, rule))
          yield { table, from, rule, text: `${table} ${from} ${canonicalRule(rule)}` }
}

/** Rules of other programs that jump to our chains, by the key of our chain; if there are several, the first. */
export function foreignReferences(saved: SavedTables, layout: ChainLayout): Map<string, string> {
  const found = new Map<string, string>()
  for (const table of layout.tables) {
    for (const [chain, rules] of saved.get(table) ?? []) {
      if (layout.owns(table, chain)) continue
      for (const rule of rules) {
        const target = targetOf(rule)
        if (target === undefined || !layout.owns(table, target)) continue
        if (layout.isJump(table, chain, rule)) continue
        const key = chainKey(table, target)
        if (!found.has(key)) found.set(key, `-A ${chain} ${rule}`)
      }
    }
  }
  return found
}
