/** The iptables programs of the back end that this node uses and whose kernel part works. Looking changes nothing. */
import { openNetlinkConnection } from '../../native/open.ts'
import { everywhere, missingForNft } from '../iptables/nft-missing.ts'
import { NETLINK_NETFILTER } from '../netlink/constants.ts'
import { chooseIptables, type IptablesChoice } from '../node/iptables-choice.ts'
import { CodedError } from '../values/errors.ts'
import type { IpFamily, UnusableFamilies } from '../values/protocol.ts'

/**
 * Rejects with `iptables-missing`, which says what to install, when no program is there; what is missing in one family is
 * in the choice. To find out whether the kernel has legacy tables the module may be loaded that iptables-legacy would load,
 * unless `mayLoadModules` is false.
 */
export async function chooseBackEnd(
  families: readonly IpFamily[],
  signal: AbortSignal,
  { mayLoadModules = true }: { readonly mayLoadModules?: boolean } = {},
): Promise<IptablesChoice> {
  return chooseIptables({ families, signal, mayLoadModules, missingForNft: () => missing(families, signal) })
}

async function missing(families: readonly IpFamily[], signal: AbortSignal): Promise<UnusableFamilies> {
  try {
    const netlink = openNetlinkConnection(NETLINK_NETFILTER)
    try {
      return await missingForNft(netlink, families, { signal })
    } finally {
      netlink.close()
    }
  } catch (error) {
    if (error instanceof CodedError && error.code === 'EPROTONOSUPPORT')
      return everywhere(families, 'the kernel has no nfnetlink')
    throw error
  }
}
