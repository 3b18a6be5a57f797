/**
 * What iptables mode uses of the kernel: the iptables programs, netlink connections, counters,
 * settings and announcements of addresses. An announcement only says what to read again.
 */
import { openNetfilter, openRtnetlink } from '../../../native/open.ts'
import { ensureCounter, readCounters } from './counters.ts'
import { INVALID_COUNTER } from './chains/fixed-render.ts'
import { LOOPBACK_COUNTER } from './chains/service-port-render.ts'
import type { CountedPackets } from '../../metrics/rule-counts.ts'
import type { RtnetlinkConnection } from '../../netlink/rtnetlink.ts'
import { requireNetAdmin } from '../../node/capabilities.ts'
import { familiesWithIptables, type FamilySupport, kernelFamilies } from '../../node/families.ts'
import { HostIptables } from '../../node/iptables-programs.ts'
import { iptablesSysctls } from '../../node/kernel-settings.ts'
import { deadlineSignal } from '../../node/deadline.ts'
import { runProgram } from '../../node/programs.ts'
import { nodePortRangesOf } from '../../service/node-addresses.ts'
import { isLinkLocal, isLoopback } from '../../values/address.ts'
import type { IpFamily } from '../../values/protocol.ts'
import { watchLinks } from '../announcements.ts'
import { chooseBackEnd } from '../iptables-back-end.ts'
import { lacksMatch } from '../missing-match.ts'
import { LateConntrack } from '../flow-removal.ts'
import { setConntrack, setSysctls, type SettingsOptions } from '../node-settings.ts'

export interface IptablesKernel {
  readonly iptables: HostIptables
  readonly rtnetlink: RtnetlinkConnection
  readonly conntrack: LateConntrack
  /** Families that are served. */
  readonly families: readonly IpFamily[]
  readonly support: FamilySupport
  close(): void
}

/** Deadline of opening, which loads modules and starts programs: on a slow or busy node this takes many seconds. */
const OPEN_MS = 60_000
/** Deadline of one save or restore of the rules of all Services. */
const PROCESS_MS = 60_000

/**
 * Changes nothing. Rejects with `iptables-missing`, which says what to install, when the rules of
 * no family can be written, or `capability-missing`.
 */
export async function openIptablesKernel(): Promise<IptablesKernel> {
  requireNetAdmin()
  const kernel = kernelFamilies()
  const choice = await chooseBackEnd(kernel.families, deadlineSignal(OPEN_MS, 'opening the kernel'))
  const support = familiesWithIptables(kernel, choice.unusable)
  const iptables = new HostIptables(choice, runProgram, PROCESS_MS)
  const rtnetlink = openRtnetlink()
  const conntrack = new LateConntrack()
  return {
    iptables,
    rtnetlink,
    conntrack,
    families: support.families,
    support,
    close() {
      rtnetlink.close()
      conntrack.close()
    },
  }
}

/**
 * Creates the counters that rules of iptables mode add to. Resolves to whether rules may name them:
 * false when the kernel has no counters or no match for them, or refuses to create them.
 */
export async function makeCounters({ iptables, families }: IptablesKernel, signal: AbortSignal): Promise<boolean> {
  const netlink = openNetfilter()
  try {
    for (const name of [INVALID_COUNTER, LOOPBACK_COUNTER])
      if (!(await ensureCounter(netlink, name, { signal }))) return false
    const asked = iptables.choice.mode === 'legacy' ? undefined : netlink
    // While the answer is unknown, the first restore fails without the match.
    for (const family of families) if (await lacksMatch(asked, 'nfacct', family, signal)) return false
    return true
  } finally {
    netlink.close()
  }
}

/** Packets that rules of iptables mode have counted since the counters were made. */
export async function countedPackets(): Promise<CountedPackets> {
  const netlink = openNetfilter()
  try {
    const packets = await readCounters(netlink)
    return {
      invalidDropped: packets.get(INVALID_COUNTER) ?? 0,
      loopbackAccepted: packets.get(LOOPBACK_COUNTER) ?? 0,
    }
  } finally {
    netlink.close()
  }
}

/** Calls `onChange` when addresses of the node may have changed, until closed. */
export function watchAddresses(onChange: () => void, onError: (error: unknown) => void): { close(): void } {
  return watchLinks({
    onLink: ({ change }) => {
      if (change === 'deleted') onChange()
    },
    onAddress: ({ address: { address } }) => {
      // Each new pod has a link-local address; such an address never counts for the node.
      if (!isLoopback(address) && !(address.includes(':') && isLinkLocal(address))) onChange()
    },
    onLost: onChange,
    onError,
  })
}

/** Writes the settings of the kernel, before anything is read. Returns what `routeLocalnet` returns. */
export function initializeIptablesNode(options: LocalnetOptions): (() => void) | undefined {
  setConntrack(options)
  return routeLocalnet(options)
}

export interface LocalnetOptions extends SettingsOptions {
  /** Whether node ports may answer at 127.0.0.0/8. */
  readonly localhostNodePorts: boolean
}

const LOCALNET =
  'Setting route_localnet=1 to allow node-ports on localhost; to change this either disable iptables.localhostNodePorts (--iptables-localhost-nodeports) or set nodePortAddresses (--nodeport-addresses) to filter loopback addresses'

/**
 * Returns a function that lets node ports answer at 127.0.0.0/8; undefined when the configuration
 * turns it off. The caller runs it after the rule that guards these addresses was written: without
 * the rule, hosts in the node's network could reach programs that listen there (CVE-2020-8558). The
 * setting is never reverted.
 */
export function routeLocalnet(options: LocalnetOptions): (() => void) | undefined {
  const { configuration, localhostNodePorts, log } = options
  const { includesLoopback } = nodePortRangesOf(configuration.nodePortAddresses, [], {})
  if (!localhostNodePorts || !includesLoopback) return undefined
  log.info(LOCALNET, { ipFamily: 'IPv4' })
  return () => setSysctls(iptablesSysctls(true), options)
}
