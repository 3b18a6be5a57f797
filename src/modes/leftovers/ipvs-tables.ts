/**
 * What ipvs mode left, removed in iptables mode once the new rules are in: virtual servers that no connection uses any more,
 * and after the last of them the sets, the addresses and the device.
 * What could break: connections that were made through a virtual server end with it, and they need its address; so nothing
 * goes that one of them still needs. The device goes last: while it is there, the work is not done.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { EntryTable, SetTable } from '../../ipset/tables.ts'
import { AddressTable } from '../../ipvs/addresses.ts'
import type { IpvsConnection } from '../../ipvs/connection.ts'
import { DeviceTable } from '../../ipvs/device.ts'
import { VirtualServerTable } from '../../ipvs/table.ts'
import { virtualServerKey, type VirtualServerKey } from '../../ipvs/types.ts'
import type { RtnetlinkConnection } from '../../netlink/rtnetlink.ts'
import { type PassReport, reconciled, Reconciler } from '../../sync/reconciler.ts'
import { TableSync } from '../../sync/table-sync.ts'
import type { Cidr } from '../../values/cidr.ts'
import type { Clock } from '../../values/clock.ts'
import type { Log } from '../../values/log.ts'
import type { IpFamily } from '../../values/protocol.ts'
import { SERVICE_DEVICE } from '../../values/well-known.ts'
import { openIpset } from '../ipvs/guard-kernel.ts'
import { openIpvsKernel } from '../ipvs/ipvs-kernel.ts'
import { readOwned } from './owned-virtual-servers.ts'

export interface IpvsLeftoversOptions {
  readonly families: readonly IpFamily[]
  /** Virtual servers with an address in one of these stay. */
  readonly excluded: readonly Cidr[]
  /** How long connections may keep what is left, in milliseconds; undefined = for ever. */
  readonly drainDeadlineMs: number | undefined
  readonly now: Clock
  readonly log: Log
  readonly signal: AbortSignal
}

/** From one look at connections to the next. */
const LOOK_MS = 10_000

/** Whether ipvs mode has left anything on this node. Asks for no module. */
export async function hasIpvsLeftovers(rtnetlink: RtnetlinkConnection, signal: AbortSignal): Promise<boolean> {
  return (await rtnetlink.getLink(SERVICE_DEVICE, { signal })) !== undefined
}

/** Resolves when nothing is left, or when aborted; whatever fails is tried again. */
export async function removeIpvsLeftovers(options: IpvsLeftoversOptions): Promise<void> {
  const { log, now, signal } = options
  const deadlineMs = now() + (options.drainDeadlineMs ?? Number.POSITIVE_INFINITY)
  for (let round = 0; !signal.aborted; round++) {
    try {
      const { isDone, used, report } = await removeOnce(options, now() >= deadlineMs)
      for (const { command, error } of report.failures)
        log.warn('Cannot remove what ipvs mode left; trying again', { command, error: error.message })
      if (isDone) return log.info('Removed what ipvs mode left')
      if (used > 0 && round === 0)
        log.info('Connections still use virtual servers that ipvs mode left', { virtualServers: used })
    } catch (error) {
      if (signal.aborted) return
      log.warn('Cannot remove what ipvs mode left; trying again', { error })
    }
    await sleep(LOOK_MS, undefined, { signal }).catch(() => undefined)
  }
}

interface Removal {
  readonly isDone: boolean
  /** Virtual servers that connections use. */
  readonly used: number
  readonly report: PassReport
}

async function removeOnce(
  { families, excluded, now, signal }: IpvsLeftoversOptions,
  isLate: boolean,
): Promise<Removal> {
  const kernel = await openIpvsKernel(excluded, signal)
  const ipset = await openIpset(signal)
  try {
    const entries = new EntryTable(ipset, { families, onSetLost: () => undefined, onGrown: () => undefined })
    const isOwned = await readOwned(kernel.rtnetlink, entries, signal)
    const used = isLate ? new Set<VirtualServerKey>() : await usedServers(kernel.ipvs, isOwned, signal)
    const mayGo = (key: VirtualServerKey): boolean => isOwned(key) && !used.has(key)
    const virtualServers = reconciled(new TableSync(new VirtualServerTable(kernel.ipvs, excluded, mayGo)))
    const rest = [
      reconciled(new TableSync(new DeviceTable(kernel.rtnetlink))),
      reconciled(new TableSync(new SetTable(ipset, families))),
      reconciled(new TableSync(entries)),
    ]
    const addresses = reconciled(new TableSync(new AddressTable(kernel.rtnetlink)))
    const tables = used.size > 0 ? [virtualServers] : [...rest, virtualServers, addresses]
    const report = await new Reconciler(tables).pass({ signal, now, mayRemove: true })
    const isDone = used.size === 0 && report.failures.length === 0 && report.unreadable.length === 0
    return { isDone, used: used.size, report }
  } finally {
    ipset.close()
    kernel.close()
  }
}

async function usedServers(
  ipvs: IpvsConnection,
  isOwned: (key: VirtualServerKey) => boolean,
  signal: AbortSignal,
): Promise<ReadonlySet<VirtualServerKey>> {
  const used = new Set<VirtualServerKey>()
  for (const service of await ipvs.listServices({ signal })) {
    if (service.kind !== 'address') continue
    const key = virtualServerKey(service.fields)
    if (!isOwned(key)) continue
    const destinations = await ipvs.listDestinations(service.fields, { signal })
    if (destinations.some((it) => it.activeConnections + it.inactiveConnections > 0)) used.add(key)
  }
  return used
}
