/** The firewall of ipvs mode by its name, and the one that runs, for those who tell about it. */
import type { KubeIpvsSettings } from '../config/types.ts'

/** Which firewall, as `kubeIPVS.firewall` names it. */
export type FirewallName = 'iptables' | 'nftables'

/** `kubeIPVS.firewall`. */
export type ConfiguredFirewall = KubeIpvsSettings['firewall']

export interface ChosenFirewall {
  readonly name: FirewallName
  readonly configured: ConfiguredFirewall
  /** What the iptables firewall lacks, as a code; '' when that did not decide. */
  readonly lack: 'iptables-missing' | 'ipset-missing' | 'set-match-missing' | ''
  /** For people. */
  readonly reason: string
}
