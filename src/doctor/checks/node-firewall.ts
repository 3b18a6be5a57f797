/** The firewall of ipvs mode that checks judge by. */
import type { NodeFacts } from '../facts.ts'
import { valueOr } from '../finding.ts'

/** That of the running daemon, or the one that a start would choose; iptables mode has rules of iptables, too. */
export function firewallOf({
  daemon,
  configuration,
  likelyFirewall,
}: Pick<NodeFacts, 'daemon' | 'configuration' | 'likelyFirewall'>): 'iptables' | 'nftables' {
  const running = valueOr(daemon, null)
  if (running !== null) return running.firewall?.name === 'nftables' ? 'nftables' : 'iptables'
  return configuration.mode === 'ipvs' ? valueOr(likelyFirewall, 'iptables') : 'iptables'
}
