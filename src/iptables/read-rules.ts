/**
 * Reads the rules of a family as far as anything can. One rule that nft made keeps iptables-save
 * from printing its whole table, while the same programs still write it. The chains of such a table
 * are then read one by one, and what even that does not print is read over nfnetlink: which chains
 * there are, and where they are jumped to.
 * @impure
 */
import { CodedError } from '../values/errors.ts'
import type { IpFamily } from '../values/protocol.ts'
import { type ChainLayout, chainKey } from './layout.ts'
import type { NftPlace, NftRule } from '../nftables/rule.ts'
import { canonicalRule, quoteWord, UNREAD_RULE } from './rule-text.ts'
import { inPortions } from './portions.ts'
import { saveLines } from './save-lines.ts'
import {
  mayLead,
  type PrintedTables,
  rulesOfOthers,
  type SavedRule,
  type SavedTable,
  type SavedTables,
  SaveReader,
  ShownReader,
} from './save-text.ts'
import type { IptablesPrograms, NftAccess, TableId } from './types.ts'

/** A table that the program cannot print. */
export interface UnprintableTable {
  readonly family: IpFamily
  readonly table: TableId
  /** Rules that it holds and iptables does not know, a few at most; none when they are not known. */
  readonly rules: readonly NftPlace[]
}

export interface ReadRules {
  /** Without what nobody needs of chains of others (`SaveReader`). */
  readonly saved: SavedTables
  /** The rules of others, and our jumps, that may lead to our chains. */
  readonly leading: readonly SavedRule[]
  readonly unprintable: readonly UnprintableTable[]
  /** Rules of chains that cannot be printed, by `placeKey`: iptables cannot delete them by their text. */
  readonly places: ReadonlyMap<string, readonly NftPlace[]>
}

export interface RuleSource {
  readonly family: IpFamily
  readonly programs: Pick<IptablesPrograms, 'save'>
  /** Absent: the back end is legacy, whose programs read all of a table before they write it. */
  readonly nft: NftAccess | undefined
}

/**
 * Failures after which writing may work: the program printed nothing, was cut off, or took too long
 * over the rules of others.
 */
const PRINTING_FAILED: ReadonlySet<string> = new Set([
  'iptables-save-failed',
  'iptables-save-truncated',
  'program-timeout',
  'program-output',
])

/** `nat OUTPUT` with the rule, in any spelling. */
export function placeKey(table: string, chain: string, rule: string): string {
  return `${chainKey(table as TableId, chain)} ${canonicalRule(rule)}`
}

/** Rejects with a CodedError when the rules cannot be read at all, or when aborted. */
export async function readRules(source: RuleSource, layout: ChainLayout, signal: AbortSignal): Promise<ReadRules> {
  const read = await readSaved(source, layout, signal)
  const leading: SavedRule[] = []
  const look = (one: SavedRule): void => {
    if (mayLead(layout, one.table, one.rule)) leading.push(one)
  }
  await inPortions(rulesOfOthers(read.saved, layout), look, signal)
  return { ...read, leading }
}

async function readSaved(
  { family, programs, nft }: RuleSource,
  layout: ChainLayout,
  signal: AbortSignal,
): Promise<Omit<ReadRules, 'leading'>> {
  const print = (run: () => Promise<string>) => tryPrint(run, { layout, nft }, signal)
  const printed = await print(() => programs.save(family, signal))
  const whole = 'failure' in printed ? undefined : printed
  const hidden = layout.tables.find((table) => whole?.unprinted.includes(table) === true)
  if (whole !== undefined && hidden === undefined) return { saved: whole.tables, unprintable: [], places: new Map() }
  if (nft === undefined)
    throw new CodedError('iptables-table-incompatible', `iptables cannot print the table ${hidden ?? ''}`)
  const saved = new Map(whole?.tables)
  const unprintable: UnprintableTable[] = []
  const places = new Map<string, readonly NftPlace[]>()
  // A program that was killed over the whole would be killed over its parts.
  const mayPrint = 'failure' in printed && printed.failure === 'iptables-save-failed'
  for (const table of layout.tables) {
    if (whole?.tables.has(table) === true || (whole !== undefined && !whole.unprinted.includes(table))) continue
    const alone = mayPrint ? await print(() => nft.saveTable(family, table, signal)) : undefined
    const text = alone === undefined || 'failure' in alone ? undefined : alone
    if (text !== undefined && !text.unprinted.includes(table)) {
      for (const [name, chains] of text.tables) saved.set(name, chains)
      continue
    }
    const read = await readUnprintable({ family, nft }, table, layout, signal)
    saved.set(table, read.chains)
    for (const [key, rules] of read.places) places.set(key, rules)
    unprintable.push({ family, table, rules: read.foreign })
  }
  return { saved, unprintable, places }
}

async function tryPrint(
  run: () => Promise<string>,
  { layout, nft }: { readonly layout: ChainLayout; readonly nft: NftAccess | undefined },
  signal: AbortSignal,
): Promise<PrintedTables | { readonly failure: string }> {
  try {
    const reader = new SaveReader(layout)
    await inPortions(saveLines(await run()), (line) => reader.take(line), signal)
    return reader.end()
  } catch (error) {
    signal.throwIfAborted()
    if (nft === undefined || !(error instanceof CodedError) || !PRINTING_FAILED.has(error.code)) throw error
    return { failure: error.code }
  }
}

interface UnprintableRead {
  readonly chains: SavedTable
  readonly places: ReadonlyMap<string, readonly NftPlace[]>
  /** Rules that the program does not know. */
  readonly foreign: readonly NftPlace[]
}

/** Rules that are named in a report. */
const MAX_NAMED = 5

async function readUnprintable(
  source: { readonly family: IpFamily; readonly nft: NftAccess },
  table: TableId,
  layout: ChainLayout,
  signal: AbortSignal,
): Promise<UnprintableRead> {
  const { family, nft } = source
  const all = await nft.chains(family, table, signal)
  const own = all.flatMap(({ name }) => (layout.owns(table, name) ? name : []))
  const base = new Map<string, readonly NftRule[]>()
  for (const { name, isBase } of all)
    if (isBase) base.set(name, await nft.rules({ family, table, chain: name }, signal))
  const printable = Array.from(base.keys()).filter((chain) => base.get(chain)?.every(({ isExact }) => isExact))
  const inBase = Array.from(base.values(), (rules) => rules.filter(({ isExact }) => !isExact)).flat()
  const { shown, foreign } = await show(source, table, { own, printable }, signal)
  const chains = new Map<string, readonly string[]>()
  const places = new Map<string, NftPlace[]>()
  for (const { name } of all) {
    const listed = base.get(name)
    chains.set(name, shown.get(name) ?? listed?.map(textOf) ?? (own.includes(name) ? [UNREAD_RULE] : []))
    if (shown.has(name)) continue
    for (const rule of listed ?? []) {
      const key = placeKey(table, name, textOf(rule))
      places.set(key, [...(places.get(key) ?? []), { table, chain: name, handle: rule.handle }])
    }
  }
  const named = inBase.length > 0 ? inBase : (foreign ?? (await inexactRules(family, table, nft, signal)))
  return { chains, places, foreign: named.slice(0, MAX_NAMED).map(placeOf) }
}

/** Chains of which one such rule is known, at most. */
const MAX_CHAINS = 1000

/** Rules of a table that iptables does not print as they are, from each chain the first one. */
async function inexactRules(
  family: IpFamily,
  table: TableId,
  nft: NftAccess,
  signal: AbortSignal,
): Promise<readonly NftPlace[]> {
  const found = new Map<string, NftPlace>()
  const visit = ({ isExact, chain, handle }: NftRule): void => {
    if (!isExact && !found.has(chain) && found.size < MAX_CHAINS) found.set(chain, { table, chain, handle })
  }
  await nft.visitRules({ family, table }, visit, () => found.clear(), signal)
  return Array.from(found.values())
}

const placeOf = ({ table, chain, handle }: NftPlace): NftPlace => ({ table, chain, handle })

/** The chains that the program prints: all, else those of ours without a rule that it does not know, else none. */
async function show(
  { family, nft }: { readonly family: IpFamily; readonly nft: NftAccess },
  table: TableId,
  { own, printable }: { readonly own: readonly string[]; readonly printable: readonly string[] },
  signal: AbortSignal,
): Promise<{ readonly shown: SavedTable; readonly foreign?: readonly NftPlace[] }> {
  const attempt = async (chains: readonly string[]): Promise<SavedTable | undefined> => {
    if (chains.length === 0) return new Map()
    try {
      const shown = new ShownReader()
      const text = await nft.showChains(family, table, chains, signal)
      await inPortions(saveLines(text), (line) => shown.take(line), signal)
      return chains.every((chain) => shown.chains.has(chain)) ? shown.chains : undefined
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof CodedError) return undefined
      throw error
    }
  }
  const first = await attempt([...own, ...printable])
  if (first !== undefined) return { shown: first }
  const foreign = await inexactRules(family, table, nft, signal)
  const unknown = new Set(foreign.map(({ chain }) => chain))
  return { shown: (await attempt(own.filter((chain) => !unknown.has(chain)))) ?? new Map(), foreign }
}

/**
 * A rule in the words of iptables as far as they matter: jumps to chains with the comment that
 * tells them apart, and of all others the handle and the verdict. `-j NFT`: what it does has no
 * words there.
 */
export function textOf({ verdict, isPlain, isExact, hasOtherEffect, comment, matches, handle }: NftRule): string {
  const isKnown = !hasOtherEffect && verdict?.kind !== 'other'
  const target = isKnown ? (verdict === undefined ? '' : ` ${targetText(verdict)}`) : ' -j NFT'
  if (!isPlain || !isExact || /\p{Cc}/u.test(comment)) return `-m nft --handle ${handle}${target}`
  const state = matches.includes('conntrack') ? '-m conntrack --ctstate NEW ' : ''
  return `${state}${comment === '' ? '' : `-m comment --comment ${quoteWord(comment)}`}${target}`.trim()
}

function targetText({ kind, chain }: { readonly kind: string; readonly chain: string }): string {
  if (kind === 'jump') return `-j ${chain}`
  return kind === 'goto' ? `-g ${chain}` : `-j ${kind.toUpperCase()}`
}

/** For people: what cannot be printed, and what to do about it. */
export function unprintableText({ family, table, rules }: UnprintableTable): string {
  const program = family === 'IPv4' ? 'iptables-save' : 'ip6tables-save'
  const name = `${family === 'IPv4' ? 'ip' : 'ip6'} ${table}`
  const found = rules.map(({ chain, handle }) => `nft delete rule ${name} ${chain} handle ${handle}`)
  const remedy = found.length === 0 ? `nft -a list table ${name} shows them` : `to delete them: ${found.join('; ')}`
  return `${program} cannot print the table ${table}, because it has rules that were made with nft: Services are served, but other programs that read this table fail; such rules belong into a table of their own (${remedy})`
}
