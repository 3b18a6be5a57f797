/**
 * The iptables programs of the back end that this node uses and whose kernel part works.
 * What could break: looking changes nothing on the node.
 */
import { openNetlinkConnection } from '../../native/open.ts'
import { missingForNft } from '../iptables/nft-missing.ts'
import { NETLINK_NETFILTER } from '../netlink/constants.ts'
import { chooseIptables, type IptablesChoice } from '../node/iptables-choice.ts'
import { CodedError } from '../values/errors.ts'
import type { IpFamily } from '../values/protocol.ts'

/** Rejects with `iptables-missing`, which says what to install. */
export async function chooseBackEnd(families: readonly IpFamily[], signal: AbortSignal): Promise<IptablesChoice> {
  return chooseIptables({ families, signal, missingForNft: () => missing(families, signal) })
}

async function missing(families: readonly IpFamily[], signal: AbortSignal): Promise<string | undefined> {
  try {
    const netlink = openNetlinkConnection(NETLINK_NETFILTER)
    try {
      return await missingForNft(netlink, families, { signal })
    } finally {
      netlink.close()
    }
  } catch (error) {
    if (error instanceof CodedError && error.code === 'EPROTONOSUPPORT') return 'nfnetlink'
    throw error
  }
}
