/**
 * The kernel tables of ipvs mode beside those of its firewall, listed once: how each is opened, in
 * which order a cleanup removes them, and when one is faulty. Opening, metrics, health, the removal
 * of leftovers and cleanup read these lists.
 */
import { orderOfNode } from '../../ipvs/addition-order.ts'
import { ADDRESSES, DEVICE } from '../../ipvs/address-diff.ts'
import { AddressTable, type AddressTableOptions } from '../../ipvs/addresses.ts'
import type { IpvsConnection } from '../../ipvs/connection.ts'
import { DeviceTable } from '../../ipvs/device.ts'
import { VIRTUAL_SERVERS, virtualServersInOrder } from '../../ipvs/diff.ts'
import { ROUTES } from '../../ipvs/route-diff.ts'
import { RouteTable } from '../../ipvs/routes.ts'
import type { VirtualServerKey } from '../../ipvs/types.ts'
import { VirtualServerTable } from '../../ipvs/table.ts'
import type { RtnetlinkConnection } from '../../netlink/rtnetlink.ts'
import { ipv6Lack, switchOnIpv6 } from '../../node/device-ipv6.ts'
import type { SettingListener } from '../../node/sysctl.ts'
import { type Reconciled, reconciled } from '../../sync/reconciled.ts'
import type { TableIo, TableKind } from '../../sync/table.ts'
import { TableSync } from '../../sync/table-sync.ts'
import type { Cidr } from '../../values/cidr.ts'
import type { IpFamily } from '../../values/protocol.ts'
import { SERVICE_DEVICE } from '../../values/well-known.ts'
import { hasFailing, type ListedTable, tableOfServices } from '../table-health.ts'

export const IPVS_KINDS = { virtualServers: VIRTUAL_SERVERS, device: DEVICE, addresses: ADDRESSES, routes: ROUTES }

type Kinds = typeof IPVS_KINDS

/** The tables as a dataplane needs them, on any io. */
export type IpvsTables = {
  readonly [Name in keyof Kinds]: Kinds[Name] extends TableKind<infer Item, infer Op> ? TableIo<Item, Op> : never
}

/** The tables of the kernel. */
export interface OpenedTables extends IpvsTables {
  readonly virtualServers: VirtualServerTable
  readonly addresses: AddressTable
}

export interface TableOptions {
  readonly ipvs: IpvsConnection
  readonly rtnetlink: RtnetlinkConnection
  /** Decides in which order real servers are added. */
  readonly nodeName: string
  /** Families of the routes. */
  readonly families: readonly IpFamily[]
  /** Virtual servers with an address in one of these are left alone. */
  readonly excluded: readonly Cidr[]
  /** Which virtual servers that nothing wants may be removed; default all. */
  readonly mayRemove?: (key: VirtualServerKey) => boolean
  /** Called for each setting of the kernel that a table had to change. */
  readonly onSetting: SettingListener
  /** Called with the virtual IPs whose addresses were just removed. */
  readonly onUnbound: NonNullable<AddressTableOptions['onUnbound']>
}

export function openTables(options: TableOptions): OpenedTables {
  const { ipvs, rtnetlink, nodeName, families, excluded, mayRemove, onSetting, onUnbound } = options
  const kind = virtualServersInOrder(orderOfNode(nodeName))
  return {
    virtualServers: new VirtualServerTable(ipvs, excluded, mayRemove, kind),
    device: new DeviceTable(rtnetlink),
    addresses: new AddressTable(rtnetlink, { switchOnIpv6: () => switchOnIpv6(SERVICE_DEVICE, onSetting), onUnbound }),
    routes: new RouteTable(rtnetlink, families, () => ipv6Lack('lo')),
  }
}

/** `ipvs` undefined: the kernel has no IPVS. */
export type RemovalOptions = Pick<TableOptions, 'rtnetlink' | 'families' | 'excluded' | 'mayRemove'> & {
  readonly ipvs: IpvsConnection | undefined
}

/**
 * The tables with nothing wanted in any, around those of the firewall: a pass removes what is ours,
 * from the last table to the first. The device is removed last, because it shows that something is
 * left.
 */
export function removalOf(options: RemovalOptions, firewall: readonly Reconciled[]): Reconciled[] {
  return [unwanted(new DeviceTable(options.rtnetlink)), ...firewall, ...removalOfVirtualServers(options)]
}

/** Virtual servers and virtual IPs alone. `mayUnbind`: which virtual IPs may be removed; default all. */
export function removalOfVirtualServers(
  { ipvs, rtnetlink, families, excluded, mayRemove }: RemovalOptions,
  mayUnbind: (address: string) => boolean = () => true,
): Reconciled[] {
  return [
    ...(ipvs === undefined ? [] : [unwanted(new VirtualServerTable(ipvs, excluded, mayRemove))]),
    unwanted(new AddressTable(rtnetlink), mayUnbind),
    unwanted(new RouteTable(rtnetlink, families), mayUnbind),
  ]
}

function unwanted<Item, Op>(table: TableIo<Item, Op>, mayRemove: (key: string) => boolean = () => true): Reconciled {
  return reconciled(new TableSync(table, { mayRemove }))
}

/** What is wanted of each table, and what is in the kernel. */
export type IpvsStates = {
  readonly [Name in keyof Kinds]: Kinds[Name] extends TableKind<infer Item, infer Op> ? TableSync<Item, Op> : never
}

/**
 * All tables of the running mode but those of its firewall. All Services need the device, so it is
 * faulty when it fails.
 */
export function listTables(states: IpvsStates, families: readonly IpFamily[]): readonly ListedTable[] {
  const { virtualServers, device, addresses, routes } = states
  return [
    tableOfServices(virtualServers, families),
    { counted: device, health: () => [{ what: 'device', families, wrong: hasFailing(device) }] },
    tableOfServices(addresses, families),
    tableOfServices(routes, families),
  ]
}
