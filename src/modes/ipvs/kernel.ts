/**
 * The connections through which ipvs mode reads and writes the kernel, opened together: IPVS,
 * rtnetlink and conntrack here, and what its firewall needs there.
 */
import { openNetlinkConnection, openRtnetlink } from '../../../native/open.ts'
import { IpvsConnection } from '../../ipvs/connection.ts'
import { NETLINK_GENERIC } from '../../netlink/constants.ts'
import type { RtnetlinkConnection } from '../../netlink/rtnetlink.ts'
import { requireNetAdmin } from '../../node/capabilities.ts'
import { type FamilySupport, kernelFamilies } from '../../node/families.ts'
import { deadlineSignal } from '../../node/deadline.ts'
import { CodedError } from '../../values/errors.ts'
import { type FallbackReason, isFallbackReason } from '../fallback.ts'
import { LateConntrack } from '../flow-removal.ts'
import type { FirewallKind, OpenedFirewall } from './firewall.ts'
import { IPTABLES_FIREWALL } from './iptables-firewall/kernel.ts'

export const FIREWALL: FirewallKind = IPTABLES_FIREWALL

/** Deadline of opening, which loads modules and starts programs: on a slow or busy node this takes many seconds. */
const OPEN_MS = 60_000

/** Audits use separate connections, so that a change never waits until an audit has listed a table. */
export interface Kernel {
  readonly ipvs: IpvsConnection
  readonly auditIpvs: IpvsConnection
  readonly rtnetlink: RtnetlinkConnection
  readonly auditRtnetlink: RtnetlinkConnection
  readonly conntrack: LateConntrack
  readonly firewall: OpenedFirewall
  /** The families that are served, and why the others are not. */
  readonly support: FamilySupport
  /** All but the firewall. */
  close(): void
}

/**
 * Changes nothing. Rejects with `ipvs-missing`, or as the firewall does (`ipset-missing`,
 * `set-match-missing`, `iptables-missing`), with what to load or install; also when no family can
 * be served. Rejects with `capability-missing` when this process lacks a right.
 */
export async function openKernel(): Promise<Kernel> {
  requireNetAdmin()
  FIREWALL.requireRights()
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
    const firewall = await FIREWALL.open(kernelFamilies(), signal)
    return { ipvs, auditIpvs, rtnetlink, auditRtnetlink, conntrack, firewall, support: firewall.support, close }
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

/**
 * Asks the kernel for what ipvs mode cannot do without, which loads the modules when it can, and
 * makes nothing. Resolves to undefined when nothing is missing, and rejects when the kernel cannot
 * be asked.
 */
export async function findLack(signal: AbortSignal): Promise<FallbackReason | undefined> {
  try {
    const ipvs = await openIpvs(signal)
    ipvs.close()
    await FIREWALL.ask(kernelFamilies(), signal)
    return undefined
  } catch (error) {
    if (error instanceof CodedError && isFallbackReason(error.code)) return error.code
    throw error
  }
}

/**
 * What `open` resolves to; undefined when it rejects with this code, because the kernel or the node
 * does not have it.
 */
export async function unlessMissing<T>(code: string, open: () => Promise<T>): Promise<T | undefined> {
  try {
    return await open()
  } catch (error) {
    if (error instanceof CodedError && error.code === code) return undefined
    throw error
  }
}
