/**
 * Chains of type nat that are neither of iptables nor of a proxy, where destinations are translated:
 * the CNI plugin portmap makes such chains.
 */
import { askNetfilter } from '../../../native/open.ts'
import { isBesideIptables, isPrivateChain, listNftBaseChains, type NftBaseChain } from '../../nftables/chains.ts'

/** The table of kube-proxy's nftables mode: whoever asks has another check for it. */
const PROXY_TABLE = 'kube-proxy'

/** None where the kernel has no nf_tables. Starts no program. */
export function otherNatChains(signal: AbortSignal): Promise<readonly NftBaseChain[]> {
  return askNetfilter<readonly NftBaseChain[]>([], async (netlink) =>
    (await listNftBaseChains(netlink, { signal })).filter(isOtherNatChain),
  )
}

function isOtherNatChain(chain: NftBaseChain): boolean {
  return (
    chain.type === 'nat' &&
    (chain.hook === 'prerouting' || chain.hook === 'output') &&
    chain.table !== PROXY_TABLE &&
    !isPrivateChain(chain) &&
    isBesideIptables(chain)
  )
}
