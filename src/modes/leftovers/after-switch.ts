/**
 * Removes in iptables mode what ipvs mode left, once the new rules are written: the virtual servers
 * and addresses that no connection uses, and after the last one the refusals of other ports at
 * virtual IPs, the sets and the device. A connection that was made through a virtual server ends
 * with it, and needs its address; until then the real servers have weight 0, so that IPVS takes no
 * new connection.
 */
import type { IpvsConnection } from '../../ipvs/connection.ts'
import { MAX_BATCH_MESSAGES } from '../../netlink/batch.ts'
import { virtualServerKey, type VirtualServerKey } from '../../ipvs/types.ts'
import type { HostIptables } from '../../node/iptables-programs.ts'
import type { PassReport } from '../../sync/pass.ts'
import type { Reconciled } from '../../sync/reconciled.ts'
import { Reconciler } from '../../sync/reconciler.ts'
import type { Cidr } from '../../values/cidr.ts'
import type { Clock } from '../../values/clock.ts'
import type { Log } from '../../values/log.ts'
import type { IpFamily } from '../../values/protocol.ts'
import { chainTables, removalOfChains } from '../ipvs/iptables-firewall/tables.ts'
import { CHAINS } from '../ipvs/nftables-firewall/layout.ts'
import { removalOf } from '../ipvs/tables.ts'
import { type Look, withLook } from '../look/look.ts'
import { allVirtualServers, realServersOf } from '../look/virtual-servers.ts'
import { IpvsLeftovers } from './ipvs-leftovers.ts'
import { REFUSAL_LAYOUT } from './layouts.ts'
import { withdrawPrivateTables } from './nft-leftovers.ts'
import { retryUntilDone } from '../../values/retry.ts'

export interface AfterSwitchOptions {
  readonly iptables: HostIptables
  readonly families: readonly IpFamily[]
  /** Virtual servers with an address in one of these stay. */
  readonly excluded: readonly Cidr[]
  /** How long connections may keep what is left, in milliseconds; undefined = without limit. */
  readonly drainDeadlineMs: number | undefined
  readonly now: Clock
  readonly log: Log
  readonly signal: AbortSignal
}

const GONE: ReadonlySet<string> = new Set(['ESRCH', 'ENOENT'])

/** Chains of the nftables firewall that refuse what no Service has at a virtual IP. */
const REFUSING: ReadonlySet<string> = new Set([CHAINS.input, CHAINS.refuse])

/** From one count of connections to the next. */
const PERIOD_MS = 10_000

/** Resolves when nothing is left, or when aborted; retries whatever fails. */
export async function removeAfterSwitch(options: AfterSwitchOptions): Promise<void> {
  const { log, now, signal } = options
  const deadlineMs = now() + (options.drainDeadlineMs ?? Number.POSITIVE_INFINITY)
  const attempt = async (round: number): Promise<boolean> => {
    const { isDone, used, report } = await withLook((look) => removeOnce(look, options, now() >= deadlineMs))
    for (const { command, error } of report.failures)
      log.warn('Cannot remove what ipvs mode left; retrying', { command, error: error.message })
    if (isDone) log.info('Removed what ipvs mode left')
    else if (used > 0 && round === 0)
      log.info('Connections still use virtual servers that ipvs mode left', { virtualServers: used })
    return isDone
  }
  await retryUntilDone(attempt, {
    onError: (error) => log.warn('Cannot remove what ipvs mode left; retrying', { error }),
    pauseMs: () => (deadlineMs > now() ? Math.min(PERIOD_MS, deadlineMs - now()) : PERIOD_MS),
    signal,
  })
}

interface Removal {
  readonly isDone: boolean
  /** Virtual servers that connections use. */
  readonly used: number
  readonly report: PassReport
}

async function removeOnce(
  look: Look,
  { iptables, families, excluded, now, signal }: AfterSwitchOptions,
  isLate: boolean,
): Promise<Removal> {
  // An address that it keeps for virtual servers would keep new connections from iptables mode.
  await withdrawPrivateTables(REFUSING, signal)
  // A kernel whose ip_vs or whose part of the firewall was unloaded has the rest all the same.
  const [ipvs, firewall] = [await look.ipvs(signal), await look.firewall(signal)]
  const refusals = removalOfChains(chainTables(families, iptables, REFUSAL_LAYOUT))
  const common = { rtnetlink: look.rtnetlink, families, excluded }
  const pass = async (tables: readonly Reconciled[], used: number): Promise<Removal> => {
    const report = await new Reconciler(tables).pass({ signal, now, mayRemove: true })
    const isDone = used === 0 && report.failures.length === 0 && report.unreadable.length === 0
    return { isDone, used, report }
  }
  if (ipvs === undefined || firewall === undefined)
    return pass(removalOf({ ...common, ipvs: undefined }, [...(firewall?.removal() ?? []), ...refusals]), 0)
  const leftovers = await IpvsLeftovers.find({ ...common, ipvs, firewall }, signal)
  const { servers, addresses, used } = isLate ? NONE_USED : await drain(ipvs, leftovers, signal)
  return pass(used > 0 ? leftovers.removalBut(servers, addresses) : leftovers.removal(refusals), used)
}

/** What connections keep. */
interface Kept {
  readonly servers: ReadonlySet<VirtualServerKey>
  readonly addresses: ReadonlySet<string>
  /** Virtual servers that connections use. */
  readonly used: number
}

const NONE_USED: Kept = { servers: new Set(), addresses: new Set(), used: 0 }

/**
 * Sets the weight of the real servers of every virtual server that stays to 0. Those at a virtual IP
 * stay together: while it is local, a port without one would lead to programs of the node.
 */
async function drain(ipvs: IpvsConnection, leftovers: IpvsLeftovers, signal: AbortSignal): Promise<Kept> {
  const all = await allVirtualServers(ipvs, signal)
  const owned = all.filter((id) => leftovers.isOwned(virtualServerKey(id)))
  const used = new Set<VirtualServerKey>()
  // Those of others keep their addresses, too.
  const addresses = new Set(all.flatMap((id) => (leftovers.isOwned(virtualServerKey(id)) ? [] : id.address)))
  for await (const { id, destinations } of realServersOf(ipvs, owned, signal)) {
    if (!destinations.some((it) => it.activeConnections + it.inactiveConnections > 0)) continue
    used.add(virtualServerKey(id))
    addresses.add(id.address)
  }
  if (used.size === 0) return NONE_USED
  const isVirtual = (address: string): boolean => addresses.has(address) && !leftovers.nodeAddresses.has(address)
  const kept = owned.filter((id) => used.has(virtualServerKey(id)) || isVirtual(id.address))
  for await (const { id, destinations } of realServersOf(ipvs, kept, signal)) {
    const weighted = destinations.filter(({ realServer }) => realServer.weight > 0)
    for (let first = 0; first < weighted.length; first += MAX_BATCH_MESSAGES) {
      const batch = ipvs.batch()
      for (const { realServer } of weighted.slice(first, first + MAX_BATCH_MESSAGES))
        batch.editDestination(id, { ...realServer, weight: 0 })
      // Another program may remove a real server at the same time.
      const failed = (await batch.commit({ signal })).find((it) => it !== undefined && !GONE.has(it.code))
      if (failed !== undefined) throw failed
    }
  }
  return { servers: new Set(kept.map(virtualServerKey)), addresses, used: used.size }
}
