/** Chooses the iptables programs of the back end that this node uses and that its kernel supports. Changes nothing. */
import { requestModule } from '../../native/module-request.ts'
import { askNetfilter } from '../../native/open.ts'
import { everywhere, missingForNft } from '../nftables/support.ts'
import { hasCapability } from '../node/capabilities.ts'
import { chooseIptables, type IptablesChoice, otherIptables } from '../node/iptables-choice.ts'
import type { IpFamily, UnusableFamilies } from '../values/protocol.ts'

/**
 * Rejects with `iptables-missing`, which says what to install, when the node has no program, and
 * with `capability-missing` when the node uses legacy and this process may not; the choice says
 * what one family lacks. Unless `mayLoadModules` is false, the module that iptables-legacy would
 * load may be loaded, to find out whether the kernel has legacy tables.
 */
export async function chooseBackEnd(
  families: readonly IpFamily[],
  signal: AbortSignal,
  { mayLoadModules = true }: { readonly mayLoadModules?: boolean } = {},
): Promise<IptablesChoice> {
  return chooseIptables({
    families,
    signal,
    ...(mayLoadModules ? { loadModule: requestModule } : {}),
    mayOpenRawSockets: hasCapability('NET_RAW'),
    missingForNft: () => missing(families, signal),
  })
}

/** The back end that was not chosen, where it may hold rules; loads no module of legacy tables and creates none. */
export async function findOtherBackEnd(
  families: readonly IpFamily[],
  chosen: IptablesChoice,
  signal: AbortSignal,
): Promise<IptablesChoice | undefined> {
  const mayOpenRawSockets = hasCapability('NET_RAW')
  return otherIptables({ families, signal, mayOpenRawSockets, missingForNft: () => missing(families, signal) }, chosen)
}

function missing(families: readonly IpFamily[], signal: AbortSignal): Promise<UnusableFamilies> {
  const none = everywhere(families, 'the kernel has no nfnetlink')
  return askNetfilter(none, (netlink) => missingForNft(netlink, families, { signal }))
}
