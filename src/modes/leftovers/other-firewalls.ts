/** Removes what the firewall that does not run left, once the one that runs has everything in the kernel. */
import type { Clock } from '../../values/clock.ts'
import type { Log } from '../../values/log.ts'
import type { FirewallName } from '../chosen-firewall.ts'
import { removeIptablesAfterSwitch } from './iptables-leftovers.ts'
import { removePrivateTables } from './nft-leftovers.ts'

/** Resolves when nothing is left, or when aborted; retries whatever fails. */
export function removeOtherFirewalls(running: FirewallName, log: Log, now: Clock, signal: AbortSignal): Promise<void> {
  return running === 'iptables' ? removePrivateTables(log, signal) : removeIptablesAfterSwitch(log, now, signal)
}
