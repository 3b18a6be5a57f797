/**
 * Which virtual servers a cleanup may remove: those that the sets name, or whose port is a node port at an address of
 * the node.
 * What could break: read the sets before they are destroyed; without them nothing is known to be ours.
 */
import { setName, type SetRole } from '../../ipset/catalogue.ts'
import type { EntryTable } from '../../ipset/tables.ts'
import type { SetEntry } from '../../ipset/types.ts'
import type { VirtualServerKey } from '../../ipvs/types.ts'
import type { RtnetlinkConnection } from '../../netlink/rtnetlink.ts'
import { parseFrontendKey } from '../../service/frontends.ts'
import type { IpFamily, Protocol } from '../../values/protocol.ts'
import { SERVICE_DEVICE } from '../../values/well-known.ts'

const NAMED: readonly SetRole[] = ['CLUSTER-IP', 'EXTERNAL-IP', 'EXTERNAL-IP-LOCAL', 'LOAD-BALANCER']
const NODE_PORTS: Readonly<Record<Protocol, SetRole>> = {
  tcp: 'NODE-PORT-TCP',
  udp: 'NODE-PORT-UDP',
  sctp: 'NODE-PORT-SCTP-HASH',
}

/** Reads the sets and the node's addresses, and tells by them. */
export async function readOwned(
  rtnetlink: RtnetlinkConnection,
  entries: EntryTable,
  signal: AbortSignal,
): Promise<(key: VirtualServerKey) => boolean> {
  const device = (await rtnetlink.getLink(SERVICE_DEVICE, { signal }))?.index
  const addresses = (await rtnetlink.listAddresses({ signal })).filter((it) => it.interfaceIndex !== device)
  const inSets = await entries.read('all', signal)
  return ownedBySets(inSets.values(), new Set(addresses.map(({ address }) => address)))
}

/** `entries`: everything in our sets. `nodeAddresses`: addresses of all interfaces but kube-ipvs0. */
function ownedBySets(
  entries: Iterable<SetEntry>,
  nodeAddresses: ReadonlySet<string>,
): (key: VirtualServerKey) => boolean {
  const known = new Set(Array.from(entries, ({ set, entry }) => `${set} ${entry}`))
  const has = (role: SetRole, family: IpFamily, entry: string): boolean =>
    known.has(`${setName(role, family)} ${entry}`)
  return (key) => {
    const { family, address, port, protocol } = parseFrontendKey(key)
    const named = `${address},${protocol}:${port}`
    if (NAMED.some((role) => has(role, family, named))) return true
    if (protocol === 'sctp') return has(NODE_PORTS.sctp, family, named)
    return nodeAddresses.has(address) && has(NODE_PORTS[protocol], family, String(port))
  }
}
