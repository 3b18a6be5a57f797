/**
 * What ipvs mode and nftables mode left in the kernel, and rules of the other back end of iptables:
 * iptables mode removes the former once its own rules are there, and warns of the latter. This code
 * is loaded when it does so.
 */
import type { HostIptables } from '../../node/iptables-programs.ts'
import { ipFamilies } from '../../node/host.ts'
import { parseCidrs } from '../../values/cidr.ts'
import { hasIpvsLeftovers } from '../leftovers/ipvs-leftovers.ts'
import { removeNftAfterSwitch } from '../leftovers/nft-leftovers.ts'
import { warnOfOtherBackEnd } from '../leftovers/other-back-end.ts'
import type { ModeOptions } from '../mode.ts'
import type { IptablesKernel } from './kernel.ts'

export async function removeOtherModes(
  { families, iptables }: IptablesKernel,
  options: ModeOptions,
  signal: AbortSignal,
): Promise<void> {
  const { log, problems } = options
  await Promise.all([
    warnOfOtherBackEnd({ families, choice: iptables.choice, problems, log, signal }),
    removeNftAfterSwitch(log, signal),
    removeIpvs(iptables, options, signal),
  ])
}

async function removeIpvs(
  iptables: HostIptables,
  { configuration, now, log }: ModeOptions,
  signal: AbortSignal,
): Promise<void> {
  const { ipvs, kubeIPVS } = configuration()
  // Removal looks again until it can.
  if (!(await hasIpvsLeftovers(signal).catch(() => !signal.aborted))) return
  const excluded = parseCidrs(ipvs.excludeCIDRs)
  const drainDeadlineMs = kubeIPVS.drainDeadlineMs || undefined
  const { removeAfterSwitch } = await import('../leftovers/after-switch.ts')
  await removeAfterSwitch({ iptables, families: ipFamilies(), excluded, drainDeadlineMs, now, log, signal })
}
