/** The netlink connections and iptables programs through which ipvs mode reads and writes the kernel, opened together. */
import { findNetfilter, openNetlinkConnection, openRtnetlink } from '../../../native/open.ts'
import { askXtables } from '../../../native/xtables-query.ts'
import { IpsetConnection } from '../../ipset/connection.ts'
import { ipsetError } from '../../ipset/errors.ts'
import { hasExtension, hasNftCompat } from '../../iptables/nft-support.ts'
import { IpvsConnection } from '../../ipvs/connection.ts'
import type { NetlinkConnection } from '../../netlink/connection.ts'
import { NETLINK_GENERIC } from '../../netlink/constants.ts'
import type { RtnetlinkConnection } from '../../netlink/rtnetlink.ts'
import { requireNetAdmin, requireSetLookup } from '../../node/capabilities.ts'
import { familiesWithIptables, type FamilySupport, kernelFamilies } from '../../node/families.ts'
import type { IptablesBackEnd } from '../../node/installed-iptables.ts'
import { HostIptables } from '../../node/iptables-programs.ts'
import { deadlineSignal } from '../../node/deadline.ts'
import { CodedError } from '../../values/errors.ts'
import type { IpFamily } from '../../values/protocol.ts'
import { type FallbackReason, isFallbackReason } from '../fallback.ts'
import { LateConntrack } from '../flow-removal.ts'
import { chooseBackEnd } from '../iptables-back-end.ts'

/** Deadline of opening, which loads modules and starts programs: on a slow or busy node this takes many seconds. */
const OPEN_MS = 60_000

/** Audits use separate connections, so that a change never waits until an audit has listed a table. */
export interface Kernel {
  readonly ipvs: IpvsConnection
  readonly auditIpvs: IpvsConnection
  readonly rtnetlink: RtnetlinkConnection
  readonly auditRtnetlink: RtnetlinkConnection
  readonly ipset: IpsetConnection
  readonly auditIpset: IpsetConnection
  readonly conntrack: LateConntrack
  readonly iptables: HostIptables
  /** The families that are served, and why the others are not. */
  readonly support: FamilySupport
  close(): void
}

/**
 * Changes nothing. Rejects with `ipvs-missing`, `ipset-missing`, `set-match-missing` or `iptables-missing`, which say what to load
 * or install; the last one also when the rules of no family can be written. Rejects with `capability-missing` when this process lacks
 * a right.
 */
export async function openKernel(): Promise<Kernel> {
  requireNetAdmin()
  requireSetLookup()
  const signal = deadlineSignal(OPEN_MS, 'opening the kernel')
  const opened: { close(): void }[] = []
  const open = <T extends { close(): void }>(connection: T): T => {
    opened.push(connection)
    return connection
  }
  const close = (): void => {
    for (const connection of opened) connection.close()
  }
  try {
    const ipvs = open(await openIpvs(signal))
    const auditIpvs = open(await openIpvs(signal))
    const rtnetlink = open(openRtnetlink())
    const auditRtnetlink = open(openRtnetlink())
    const conntrack = open(new LateConntrack())
    const families = kernelFamilies()
    const iptables = new HostIptables(await chooseBackEnd(families.families, signal))
    const support = familiesWithIptables(families, iptables.choice.unusable)
    const ipset = open(await openIpset(signal))
    const auditIpset = open(await openIpset(signal))
    await requireSetMatch(iptables.choice.mode, support.families, signal)
    return { ipvs, auditIpvs, rtnetlink, auditRtnetlink, ipset, auditIpset, conntrack, iptables, support, close }
  } catch (error) {
    close()
    throw error
  }
}

/** A connection to IPVS. Rejects with `ipvs-missing`, which names the module. */
export async function openIpvs(signal: AbortSignal): Promise<IpvsConnection> {
  try {
    return await IpvsConnection.open(openNetlinkConnection(NETLINK_GENERIC), { signal })
  } catch (cause) {
    throw explainMissingIpvs(cause)
  }
}

/** Names the module to load when the generic netlink family is not there; any other error stays as it is. */
export function explainMissingIpvs(cause: unknown): unknown {
  if (!(cause instanceof CodedError && cause.code === 'genl-family-missing')) return cause
  return new CodedError('ipvs-missing', 'the kernel has no IPVS: load the module "ip_vs" (modprobe ip_vs)', { cause })
}

/** A connection to ipset. Rejects with `ipset-missing`, which names the module. */
export async function openIpset(signal: AbortSignal): Promise<IpsetConnection> {
  const netlink = findNetfilter()
  if (netlink === undefined) {
    const message = 'the kernel has no nfnetlink and so no ipset: load the module "ip_set" (modprobe ip_set)'
    throw ipsetError('ipset-missing', message)
  }
  return IpsetConnection.open(netlink, { signal })
}

/** Rejects with `set-match-missing` when rules of a family cannot name sets. */
async function requireSetMatch(
  backEnd: IptablesBackEnd,
  families: readonly IpFamily[],
  signal: AbortSignal,
): Promise<void> {
  const netlink = backEnd === 'nft' ? findNetfilter() : undefined
  try {
    for (const family of families)
      if (await lacksSetMatch(netlink, family, signal))
        throw new CodedError(
          'set-match-missing',
          `the kernel has no match "set" for ${family}: load the module "xt_set" (modprobe xt_set)`,
        )
  } finally {
    netlink?.close()
  }
}

/**
 * Unknown is not missing: while ip_tables is not loaded, without nft_compat (no mode can write rules then), and when the kernel
 * refuses the question. The start check reports these.
 * @param netlink absent: the back end is legacy
 */
async function lacksSetMatch(
  netlink: NetlinkConnection | undefined,
  family: IpFamily,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    if (netlink === undefined) return askXtables('match', 'set', family) === 'missing'
    const isThere = await hasExtension(netlink, { kind: 'match', name: 'set' }, family, { signal })
    return !isThere && (await hasNftCompat(netlink, { signal }))
  } catch {
    signal.throwIfAborted()
    return false
  }
}

/**
 * Asks the kernel for what ipvs mode cannot do without, which loads the modules when it can, and makes nothing. Resolves to
 * undefined when nothing is missing, and rejects when the kernel cannot be asked.
 */
export async function findLack(signal: AbortSignal): Promise<FallbackReason | undefined> {
  try {
    const ipvs = await openIpvs(signal)
    ipvs.close()
    const ipset = await openIpset(signal)
    ipset.close()
    const { families } = kernelFamilies()
    const { mode, unusable } = await chooseBackEnd(families, signal, { mayLoadModules: false })
    const served = families.filter((family) => unusable[family] === undefined)
    await requireSetMatch(mode, served, signal)
    return undefined
  } catch (error) {
    if (error instanceof CodedError && isFallbackReason(error.code)) return error.code
    throw error
  }
}

/** What `open` resolves to; undefined when it rejects with this code, because the kernel or the node does not have it. */
export async function unlessMissing<T>(code: string, open: () => Promise<T>): Promise<T | undefined> {
  try {
    return await open()
  } catch (error) {
    if (error instanceof CodedError && error.code === code) return undefined
    throw error
  }
}
