/**
 * Reads every table of a family for commands that explain it. iptables prints some rules that nft
 * made without what it cannot translate (`ip saddr @set drop` as `-j DROP`): these are found over
 * nfnetlink and stand in the result as rules that nobody can judge, as does what iptables does not
 * print at all. Nothing is changed.
 * @impure
 */
import { CodedError } from '../values/errors.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { NftRule } from '../nftables/rule.ts'
import { textOf } from './read-rules.ts'
import { parsePrinted, parseShown, type SavedTable } from './save-text.ts'
import type { IptablesPrograms, NftAccess } from './types.ts'
import { type WholeChain, type WholeTable, type WholeTables, wholeTables } from './whole-tables.ts'

export interface AllRules {
  readonly tables: WholeTables
  /** Tables that iptables-save does not print. */
  readonly unprinted: readonly string[]
  /** Rules that iptables does not print, or not as they are; a few at most. */
  readonly foreign: readonly NftRule[]
}

/** The tables that iptables-nft has. */
export const IPTABLES_TABLES = ['raw', 'mangle', 'nat', 'filter', 'security'] as const

/** A table changed while it was read: so often is it read again. */
const ATTEMPTS = 3
/** Rules of nft that are kept one by one. */
const MAX_FOREIGN = 100

/** Rejects with a CodedError when nothing can be read, or when aborted. @param nft absent: the back end is legacy */
export async function readAllRules(
  family: IpFamily,
  programs: Pick<IptablesPrograms, 'save'>,
  nft: NftAccess | undefined,
  signal: AbortSignal,
): Promise<AllRules> {
  if (nft === undefined) return { tables: wholeTables(await programs.save(family, signal)), unprinted: [], foreign: [] }
  const tables = new Map<string, WholeTable>()
  const unprinted: string[] = []
  const foreign: NftRule[] = []
  const whole = await attempt(() => programs.save(family, signal), signal)
  const printed = whole === undefined ? undefined : wholeTables(whole)
  const hidden: readonly string[] = whole === undefined ? IPTABLES_TABLES : parsePrinted(whole).unprinted
  for (const name of IPTABLES_TABLES) {
    if (printed?.has(name) !== true && !hidden.includes(name)) continue
    const print = async (): Promise<WholeTable | undefined> =>
      attempt(async () => wholeTables(await nft.saveTable(family, name, signal)).get(name), signal)
    // A table that the program names as one that it cannot print is not printed alone either.
    const first = printed?.get(name) ?? (printed === undefined ? await print() : undefined)
    const { table, inexact } = await readTable({ family, name, nft, first, print }, signal)
    foreign.push(...inexact.slice(0, MAX_FOREIGN - foreign.length))
    if (table !== undefined) tables.set(name, table)
    else {
      const chains = await readUnprinted({ family, name, nft, inexact }, signal)
      if (chains.size === 0) continue
      tables.set(name, chains)
      unprinted.push(name)
    }
  }
  return { tables, unprinted, foreign }
}

/** undefined: the program could not do it. */
async function attempt<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  try {
    return await work()
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof CodedError) return undefined
    throw error
  }
}

interface TableSource {
  readonly family: IpFamily
  readonly name: string
  readonly nft: NftAccess
  /** What was printed already. */
  readonly first: WholeTable | undefined
  readonly print: () => Promise<WholeTable | undefined>
}

/** A rule and its place in its chain. */
interface PlacedRule extends NftRule {
  readonly index: number
}

/**
 * A table with the rules that iptables does not print as they are replaced; `table` undefined: it
 * cannot be printed.
 */
async function readTable(
  { family, name, nft, first, print }: TableSource,
  signal: AbortSignal,
): Promise<{ readonly table: WholeTable | undefined; readonly inexact: readonly PlacedRule[] }> {
  let table = first
  for (let left = ATTEMPTS; ; left--) {
    const counts = new Map<string, number>()
    let inexact: PlacedRule[] = []
    await nft.visitRules(
      { family, table: name },
      (rule) => {
        const index = counts.get(rule.chain) ?? 0
        counts.set(rule.chain, index + 1)
        if (!rule.isExact) inexact.push({ ...rule, index })
      },
      () => {
        counts.clear()
        inexact = []
      },
      signal,
    )
    if (table === undefined || inexact.length === 0) return { table, inexact }
    const isSame = inexact.every(({ chain }) => table?.get(chain)?.rules.length === counts.get(chain))
    if (isSame || left === 0) return { table: withForeign(table, inexact), inexact }
    table = await print()
  }
}

function withForeign(table: WholeTable, inexact: readonly PlacedRule[]): WholeTable {
  const chains = new Map(table)
  for (const rule of inexact) {
    const chain = chains.get(rule.chain)
    if (chain === undefined || rule.index >= chain.rules.length) continue
    chains.set(rule.chain, { ...chain, rules: chain.rules.with(rule.index, textOf(rule)) })
  }
  return chains
}

/** The chains without such rules as `-S` prints them, all others from nf_tables. */
async function readUnprinted(
  { family, name, nft, inexact }: Pick<TableSource, 'family' | 'name' | 'nft'> & { inexact: readonly PlacedRule[] },
  signal: AbortSignal,
): Promise<WholeTable> {
  const all = await nft.chains(family, name, signal)
  const unknown = new Set(inexact.map(({ chain }) => chain))
  const printable = all.flatMap((chain) => (unknown.has(chain.name) ? [] : chain.name))
  const shown: SavedTable =
    printable.length === 0
      ? new Map()
      : ((await attempt(async () => parseShown(await nft.showChains(family, name, printable, signal)), signal)) ??
        new Map())
  const chains = new Map<string, WholeChain>()
  for (const { name: chain, isBase, policy } of all) {
    const rules = shown.get(chain) ?? (await nft.rules({ family, table: name, chain }, signal)).map(textOf)
    chains.set(chain, { name: chain, rules, policy: isBase ? policy.toUpperCase() : undefined })
  }
  return chains
}
