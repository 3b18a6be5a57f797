/**
 * What another proxy left beside the running firewall of ipvs mode: the tables of kube-proxy's
 * nftables mode, and the firewall that does not run, also where kube-proxy wrote it.
 */
import type { Budget } from '../../values/budget.ts'
import type { Clock } from '../../values/clock.ts'
import type { Log } from '../../values/log.ts'
import type { FirewallName } from '../chosen-firewall.ts'
import { isIptablesLeft, removeIptablesAfterSwitch } from './iptables-leftovers.ts'
import { findNftLeftovers, listPrivateTables, removePrivateTables } from './nft-leftovers.ts'

export { removeNftAfterSwitch } from './nft-leftovers.ts'

/** Whether there are tables of kube-proxy's nftables mode. Starts no program. */
export async function isNftModeLeft(signal: AbortSignal, budget: Budget): Promise<boolean> {
  return (await findNftLeftovers(signal, budget)).commands.length > 0
}

/** Removes the firewall that does not run. Resolves when nothing is left, or when aborted; retries whatever fails. */
export function removeOtherFirewall(running: FirewallName, log: Log, now: Clock, signal: AbortSignal): Promise<void> {
  return running === 'iptables' ? removePrivateTables(log, signal) : removeIptablesAfterSwitch(log, now, signal)
}

/** Whether there is any of it. Starts no program, so rules of iptables-legacy are noticed only with their ipsets. */
export async function isOtherFirewallLeft(
  running: FirewallName,
  signal: AbortSignal,
  budget: Budget,
): Promise<boolean> {
  return running === 'iptables' ? (await listPrivateTables(signal, budget)).length > 0 : isIptablesLeft(signal, budget)
}
