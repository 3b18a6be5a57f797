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
import { IPVS_CONNTRACK } from '../../node/kernel-settings.ts'
import { refusalOf } from '../../node/sysctl.ts'
import { CodedError } from '../../values/errors.ts'
import type { Log } from '../../values/log.ts'
import type { ChosenFirewall } from '../chosen-firewall.ts'
import { CONNTRACK_REMEDY, type FallbackReason, isFallbackReason } from '../fallback.ts'
import { LateConntrack } from '../flow-removal.ts'
import { droppingText } from './dropping-chains.ts'
import type { FirewallKind, OpenedFirewall } from './firewall.ts'
import { type ChoiceOptions, chooseFirewall, KeptFromNftables } from './firewalls.ts'

/** The fields that decide which firewall is opened. */
export type FirewallSettings = ChoiceOptions<unknown>['settings']

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
  /** Which one that is. */
  readonly chosen: ChosenFirewall
  /** The families that are served, and why the others are not. */
  readonly support: FamilySupport
  /** All but the firewall. */
  close(): void
}

/**
 * Changes nothing. Rejects with `ipvs-missing` or `ipvs-conntrack-off`, or as the firewall does
 * (`ipset-missing`, `set-match-missing`, `iptables-missing`, `nftables-missing`), with what to load
 * or install; also when no family can be served. Rejects with `capability-missing` when this process lacks a right.
 */
export async function openKernel(settings: FirewallSettings, log: Log): Promise<Kernel> {
  requireNetAdmin()
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
    requireConntrack()
    const auditIpvs = open(await openIpvs(signal))
    const rtnetlink = open(openRtnetlink())
    const auditRtnetlink = open(openRtnetlink())
    const conntrack = open(new LateConntrack())
    const attempt: ChoiceOptions<OpenedFirewall>['attempt'] = (kind) => kind.open(kernelFamilies(), signal)
    const onUnread = (error: unknown): void =>
      log.warn('Cannot ask the kernel for chains of other firewalls', { error })
    const { chosen, result: firewall } = await chooseFirewall({ settings, attempt, onUnread, signal })
    const { support } = firewall
    return { ipvs, auditIpvs, rtnetlink, auditRtnetlink, conntrack, firewall, chosen, support, close }
  } catch (error) {
    close()
    if (error instanceof KeptFromNftables)
      log.warn('Other firewalls keep the nftables firewall from being used', {
        error,
        chains: droppingText(error.dropping),
      })
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

/**
 * Throws `ipvs-conntrack-off` where IPVS would masquerade nothing, as kube-proxy's start ends. Call
 * it after `openIpvs`, because the setting exists only where the module is loaded.
 */
function requireConntrack(): void {
  const cause = refusalOf(IPVS_CONNTRACK)
  if (cause === undefined) return
  const message = `cannot set net.ipv4.vs.conntrack to 1, without which IPVS masquerades nothing (${cause.message}): ${CONNTRACK_REMEDY}`
  throw new CodedError('ipvs-conntrack-off', message, { cause })
}

/** Names the module to load when the generic netlink family is not there; any other error stays as it is. */
export function explainMissingIpvs(cause: unknown): unknown {
  if (!(cause instanceof CodedError && cause.code === 'genl-family-missing')) return cause
  return new CodedError('ipvs-missing', 'the kernel has no IPVS: load the module "ip_vs" (modprobe ip_vs)', { cause })
}

/**
 * Asks the kernel for what ipvs mode cannot do without, which loads the modules when it can, and
 * makes and changes nothing. Resolves to what is missing, or to the firewall that a start would choose. Rejects
 * when the kernel cannot be asked.
 */
export async function findLack(settings: FirewallSettings, signal: AbortSignal): Promise<FoundLack> {
  try {
    const ipvs = await openIpvs(signal)
    ipvs.close()
    // Without this right an answer would be about this process, and not about the node.
    requireNetAdmin()
    requireConntrack()
    return { lack: undefined, chosen: await findFirewall(settings, signal, { mayLoadModules: false }) }
  } catch (error) {
    if (error instanceof CodedError && isFallbackReason(error.code)) return { lack: error.code }
    throw error
  }
}

/** The firewall that a start would choose. Rejects as `openKernel` does. */
export async function findFirewall(
  settings: FirewallSettings,
  signal: AbortSignal,
  options: { readonly mayLoadModules: boolean },
): Promise<ChosenFirewall> {
  const attempt = (kind: FirewallKind): Promise<void> => kind.ask(kernelFamilies(), signal, options)
  return (await chooseFirewall({ settings, attempt, signal })).chosen
}

export type FoundLack =
  | { readonly lack: FallbackReason }
  | { readonly lack: undefined; readonly chosen: ChosenFirewall }
