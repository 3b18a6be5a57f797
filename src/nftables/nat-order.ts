/**
 * Who translates the destination of a packet first, at one hook: the firewall of ipvs mode, or a
 * chain of type nat of another program.
 */

/**
 * Of the nftables firewall: before the chains of others at the usual priority. The kernel calls all
 * chains of type nat at USUAL_NAT_PRIORITY, whatever theirs is, which is only their order there: so
 * marks are set at -100. ip_vs takes answers to this node at -99, and its requests at -98.
 */
export const NAT_PRIORITY = -105
/** Of the chains of iptables, and of `dstnat` in the words of nft (NF_IP_PRI_NAT_DST). */
export const USUAL_NAT_PRIORITY = -100

/**
 * Whether another program's chain of type nat may translate packets to virtual IPs. The chains of
 * the nftables firewall end the turn of all that come later at their hook. Rules of iptables that
 * accept do not, whichever chain comes first.
 */
export function mayTranslate(priority: number, firewall: 'iptables' | 'nftables'): boolean {
  return firewall === 'iptables' || priority <= NAT_PRIORITY
}
