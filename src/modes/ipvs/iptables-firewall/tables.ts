/**
 * The tables of ipsets and iptables: how each is opened, in which order a cleanup removes them, and
 * when one is faulty.
 */
import { CATALOGUE, type SetName } from '../../../ipset/catalogue.ts'
import type { IpsetConnection } from '../../../ipset/connection.ts'
import { EntryTable, SetTable } from '../../../ipset/tables.ts'
import type { EntryRunOptions } from '../../../ipset/entry-run.ts'
import type { SetEntry, SetEntryOperation, SetOperation, SetParameters } from '../../../ipset/types.ts'
import type { ChainLayout } from '../../../iptables/layout.ts'
import { IptablesTable, type IptablesTableOptions } from '../../../iptables/table.ts'
import type { IptablesItem, IptablesOperation } from '../../../iptables/types.ts'
import type { SetSize } from '../../../metrics/sources.ts'
import type { HostIptables } from '../../../node/iptables-programs.ts'
import { type Reconciled, reconciled } from '../../../sync/reconciled.ts'
import type { TableIo } from '../../../sync/table.ts'
import { TableSync } from '../../../sync/table-sync.ts'
import type { IpFamily } from '../../../values/protocol.ts'
import { nftAccessOf } from '../../nft-access.ts'
import type { RuleLoop } from '../../rule-loops.ts'
import { hasFailing, type ListedTable, tableOfServices, type TableHealth } from '../../table-health.ts'

/** The tables, on any io. */
export interface FirewallTables {
  readonly sets: TableIo<SetParameters, SetOperation>
  readonly entries: TableIo<SetEntry, SetEntryOperation>
  /** One for each family whose rules can be written. */
  readonly chains: readonly IptablesTable[]
}

export interface FirewallTablesOptions {
  readonly ipset: IpsetConnection
  /** undefined: no rules can be written. */
  readonly iptables: HostIptables | undefined
  readonly layout: ChainLayout
  /** Families of the sets. */
  readonly families: readonly IpFamily[]
  readonly hooks: EntryRunOptions
  /** How rules are read and compared, beside what the back end decides. */
  readonly rules: Omit<IptablesTableOptions, 'suffix' | 'nft'>
}

/** The tables of the kernel. */
export function openTables({ ipset, iptables, layout, families, hooks, rules }: FirewallTablesOptions): FirewallTables {
  return {
    sets: new SetTable(ipset, families),
    entries: new EntryTable(ipset, { families, ...hooks }),
    chains: chainTables(families, iptables, layout, rules),
  }
}

/** The rules of the families that have programs; those of other families cannot be reached. */
export function chainTables(
  families: readonly IpFamily[],
  iptables: HostIptables | undefined,
  layout: ChainLayout,
  rules: Partial<FirewallTablesOptions['rules']> = {},
): readonly IptablesTable[] {
  if (iptables === undefined) return []
  const { programs, suffix } = iptables.choice
  const options = { ...rules, suffix, nft: nftAccessOf(iptables) }
  return families
    .filter((family) => programs[family] !== undefined)
    .map((family) => new IptablesTable(family, iptables, layout, options))
}

/** The chains of a removal. Each family is one restore, because chains jump to each other. */
export function removalOfChains(chains: readonly IptablesTable[]): Reconciled[] {
  return chains.map((table) => reconciled(new TableSync(table), { atOnce: true }))
}

/** Sets and chains are needed by all Services, so each is faulty with one item that fails. */
export function listTables(
  sets: TableSync<SetParameters, SetOperation>,
  entries: TableSync<SetEntry, SetEntryOperation>,
  chains: readonly Pick<RuleLoop<IptablesItem, IptablesOperation>, 'family' | 'sync'>[],
  families: readonly IpFamily[],
): readonly ListedTable[] {
  return [
    { counted: sets, health: () => families.map((family) => setHealth(sets, family)) },
    tableOfServices(entries, families),
    ...chains.map(({ family, sync }) => ({
      counted: sync,
      health: () => [{ what: sync.kind.name, families: [family], wrong: hasFailing(sync) }],
    })),
  ]
}

function setHealth(sets: TableSync<SetParameters, SetOperation>, family: IpFamily): TableHealth {
  const failing = new Set(Array.from(sets.failing(), ([name]) => name))
  const wrong = CATALOGUE.some((set) => set.family === family && failing.has(set.name))
  return { what: `sets ${family}`, families: [family], wrong }
}

/** How full the sets are. */
export function sizesOf(
  sets: Pick<TableSync<SetParameters, SetOperation>, 'live'>,
  counts: Iterable<readonly [set: SetName, entries: number]>,
): readonly SetSize[] {
  return Array.from(counts, ([name, entries]) => {
    const parameters = sets.live(name)
    const ports = (parameters?.lastPort ?? 0) - (parameters?.firstPort ?? 0) + 1
    return { name, entries, maxEntries: parameters?.maxElements || ports }
  })
}
