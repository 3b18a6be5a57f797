/**
 * The kernel tables of ipvs mode, listed once: how each is opened, in which order a cleanup removes them, and when one is
 * faulty. Opening, metrics, health, the removal of leftovers and cleanup read these lists.
 */
import { CATALOGUE } from '../../ipset/catalogue.ts'
import type { IpsetConnection } from '../../ipset/connection.ts'
import { EntryTable, SetTable } from '../../ipset/tables.ts'
import type { EntryRunOptions } from '../../ipset/entry-run.ts'
import type { SetEntry, SetEntryOperation, SetOperation, SetParameters } from '../../ipset/types.ts'
import type { ChainLayout } from '../../iptables/layout.ts'
import { IptablesTable, type IptablesTableOptions } from '../../iptables/table.ts'
import type { IptablesItem, IptablesOperation } from '../../iptables/types.ts'
import type { AddressOperation, BoundAddress, Device, DeviceOperation } from '../../ipvs/address-diff.ts'
import { AddressTable, type AddressTableOptions } from '../../ipvs/addresses.ts'
import type { IpvsConnection } from '../../ipvs/connection.ts'
import { DeviceTable } from '../../ipvs/device.ts'
import type { LocalRoute, RouteOperation } from '../../ipvs/route-diff.ts'
import { RouteTable } from '../../ipvs/routes.ts'
import type { VirtualServer, VirtualServerKey, VirtualServerOperation } from '../../ipvs/types.ts'
import { VirtualServerTable } from '../../ipvs/table.ts'
import type { CountedTable } from '../../metrics/sources.ts'
import type { RtnetlinkConnection } from '../../netlink/rtnetlink.ts'
import { ipv6Lack, switchOnIpv6 } from '../../node/device-ipv6.ts'
import type { HostIptables } from '../../node/iptables-programs.ts'
import type { SettingListener } from '../../node/sysctl.ts'
import { type Reconciled, reconciled } from '../../sync/reconciler.ts'
import type { TableIo } from '../../sync/table.ts'
import { TableSync } from '../../sync/table-sync.ts'
import type { Cidr } from '../../values/cidr.ts'
import type { IpFamily } from '../../values/protocol.ts'
import { SERVICE_DEVICE } from '../../values/well-known.ts'
import { nftAccessOf } from '../nft-access.ts'
import { isTableFaulty, type TableHealth } from '../table-health.ts'

/** The tables as a dataplane needs them, on any io. */
export interface IpvsTables {
  readonly sets: TableIo<SetParameters, SetOperation>
  readonly entries: TableIo<SetEntry, SetEntryOperation>
  /** One for each family whose rules can be written. */
  readonly chains: readonly IptablesTable[]
  readonly virtualServers: TableIo<VirtualServer, VirtualServerOperation>
  readonly device: TableIo<Device, DeviceOperation>
  readonly addresses: TableIo<BoundAddress, AddressOperation>
  readonly routes: TableIo<LocalRoute, RouteOperation>
}

/** The tables of the kernel. */
export interface OpenedTables extends IpvsTables {
  readonly virtualServers: VirtualServerTable
  readonly addresses: AddressTable
}

export interface TableOptions {
  readonly ipvs: IpvsConnection
  readonly ipset: IpsetConnection
  readonly rtnetlink: RtnetlinkConnection
  /** undefined: no rules can be written. */
  readonly iptables: HostIptables | undefined
  readonly layout: ChainLayout
  /** Families of the sets and routes. */
  readonly families: readonly IpFamily[]
  /** Virtual servers with an address in one of these are left alone. */
  readonly excluded: readonly Cidr[]
  /** Which virtual servers that nothing wants may be removed; default all. */
  readonly mayRemove?: (key: VirtualServerKey) => boolean
  readonly hooks?: EntryRunOptions
  /** Called for each setting of the kernel that a table had to change. */
  readonly onSetting?: SettingListener
  /** Called with the virtual IPs whose addresses were just removed. */
  readonly onUnbound?: NonNullable<AddressTableOptions['onUnbound']>
  /** How rules are read and compared, beside what the back end decides. */
  readonly rules?: Omit<IptablesTableOptions, 'suffix' | 'nft'>
}

const NO_HOOKS: EntryRunOptions = { onSetLost: () => undefined, onGrown: () => undefined }

export function openTables(options: TableOptions): OpenedTables {
  const { onSetting = () => undefined, onUnbound = () => undefined } = options
  const { ipvs, ipset, rtnetlink, iptables, layout, families, excluded, mayRemove, hooks = NO_HOOKS } = options
  return {
    sets: new SetTable(ipset, families),
    entries: new EntryTable(ipset, { families, ...hooks }),
    chains: chainTables(families, iptables, layout, options.rules),
    virtualServers: new VirtualServerTable(ipvs, excluded, mayRemove),
    device: new DeviceTable(rtnetlink),
    addresses: new AddressTable(rtnetlink, { switchOnIpv6: () => switchOnIpv6(SERVICE_DEVICE, onSetting), onUnbound }),
    routes: new RouteTable(rtnetlink, families, () => ipv6Lack('lo')),
  }
}

/** The rules of the families that have programs; those of other families cannot be reached. */
export function chainTables(
  families: readonly IpFamily[],
  iptables: HostIptables | undefined,
  layout: ChainLayout,
  rules: TableOptions['rules'] = {},
): readonly IptablesTable[] {
  if (iptables === undefined) return []
  const { programs, suffix } = iptables.choice
  const options = { ...rules, suffix, nft: nftAccessOf(iptables) }
  return families
    .filter((family) => programs[family] !== undefined)
    .map((family) => new IptablesTable(family, iptables, layout, options))
}

/** Connections to what the kernel has; undefined: it has no IPVS, or no ipset. */
export type RemovalOptions = Omit<TableOptions, 'ipvs' | 'ipset'> & {
  readonly ipvs: IpvsConnection | undefined
  readonly ipset: IpsetConnection | undefined
}

/**
 * The tables with nothing wanted in any: a pass removes what is ours, from the last table to the first. The device is removed last,
 * because it shows that something is left.
 */
export function removalOf(options: RemovalOptions): Reconciled[] {
  const { ipvs, ipset, rtnetlink, iptables, layout, families, excluded, mayRemove } = options
  return [
    unwanted(new DeviceTable(rtnetlink)),
    ...(ipset === undefined
      ? []
      : [unwanted(new SetTable(ipset, families)), unwanted(new EntryTable(ipset, { families, ...NO_HOOKS }))]),
    ...removalOfChains(chainTables(families, iptables, layout)),
    ...(ipvs === undefined ? [] : [unwanted(new VirtualServerTable(ipvs, excluded, mayRemove))]),
    unwanted(new AddressTable(rtnetlink)),
    unwanted(new RouteTable(rtnetlink, families)),
  ]
}

/** The chains of a removal. Each family is one restore, because chains jump to each other. */
export function removalOfChains(chains: readonly IptablesTable[]): Reconciled[] {
  return chains.map((table) => reconciled(new TableSync(table), { atOnce: true }))
}

function unwanted<Item, Op>(table: TableIo<Item, Op>): Reconciled {
  return reconciled(new TableSync(table))
}

/** What is wanted of each table, and what is in the kernel. */
export interface IpvsStates {
  readonly sets: TableSync<SetParameters, SetOperation>
  readonly entries: TableSync<SetEntry, SetEntryOperation>
  readonly chains: readonly { readonly family: IpFamily; readonly sync: TableSync<IptablesItem, IptablesOperation> }[]
  readonly virtualServers: TableSync<VirtualServer, VirtualServerOperation>
  readonly device: TableSync<Device, DeviceOperation>
  readonly addresses: TableSync<BoundAddress, AddressOperation>
  readonly routes: TableSync<LocalRoute, RouteOperation>
}

/** A table of the running mode, for metrics and health. */
export interface ListedTable {
  readonly counted: CountedTable
  health(): readonly TableHealth[]
}

/**
 * All tables of the running mode. A table that all Services need is faulty with one item that fails; one of Services'
 * items only when `isTableFaulty` says so. The cost does not depend on the number of items or failures.
 */
export function listTables(states: IpvsStates, families: readonly IpFamily[]): readonly ListedTable[] {
  const ofServices = <Item, Op>(sync: TableSync<Item, Op>): ListedTable => ({
    counted: sync,
    health: () => [{ what: sync.kind.name, families, wrong: isTableFaulty(sync) }],
  })
  const { sets, entries, chains, virtualServers, device, addresses, routes } = states
  return [
    { counted: sets, health: () => families.map((family) => setHealth(sets, family)) },
    ofServices(entries),
    ...chains.map(({ family, sync }) => ({
      counted: sync,
      health: () => [{ what: sync.kind.name, families: [family], wrong: hasFailing(sync) }],
    })),
    ofServices(virtualServers),
    { counted: device, health: () => [{ what: 'device', families, wrong: hasFailing(device) }] },
    ofServices(addresses),
    ofServices(routes),
  ]
}

function setHealth(sets: IpvsStates['sets'], family: IpFamily): TableHealth {
  const failing = new Set(Array.from(sets.failing(), ([name]) => name))
  const wrong = CATALOGUE.some((set) => set.family === family && failing.has(set.name))
  return { what: `sets ${family}`, families: [family], wrong }
}

function hasFailing<Item, Op>(sync: TableSync<Item, Op>): boolean {
  for (const _ of sync.failing()) return true
  return false
}
