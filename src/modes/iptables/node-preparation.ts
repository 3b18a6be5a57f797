/** What iptables mode does to the node before it reads anything: it writes settings of the kernel. */
import { iptablesSysctls } from '../../node/kernel-settings.ts'
import { nodePortRangesOf } from '../../service/node-addresses.ts'
import { setConntrack, setSysctls, type SettingsOptions } from '../node-settings.ts'

/** Returns what `routeLocalnet` returns. */
export function initializeIptablesNode(options: SettingsOptions): (() => void) | undefined {
  setConntrack(options)
  return routeLocalnet(options)
}

const LOCALNET =
  'Setting route_localnet=1 to allow node-ports on localhost; to change this either disable iptables.localhostNodePorts (--iptables-localhost-nodeports) or set nodePortAddresses (--nodeport-addresses) to filter loopback addresses'

/**
 * Returns what lets node ports answer at 127.0.0.0/8, where the configuration wants that. Until the rule is written that
 * guards these addresses, others in the node's network could reach what listens there (CVE-2020-8558), so the caller runs it
 * after that. Nothing forbids it again.
 */
export function routeLocalnet(options: SettingsOptions): (() => void) | undefined {
  const { configuration, log } = options
  const { includesLoopback } = nodePortRangesOf(configuration.nodePortAddresses, [], {})
  if (!configuration.iptables.localhostNodePorts || !includesLoopback) return undefined
  log.info(LOCALNET, { ipFamily: 'IPv4' })
  return () => setSysctls(iptablesSysctls(true), options)
}
