/**
 * What ipvs mode leaves in the kernel: finds it, and decides which virtual servers may be removed. Both a cleanup and the
 * switch to iptables mode read these tables as tables in which nothing is wanted, so that a pass removes what is ours.
 */
import { type SetRole, setName } from '../../ipset/catalogue.ts'
import { SetTable } from '../../ipset/tables.ts'
import type { SetEntry } from '../../ipset/types.ts'
import type { VirtualServerKey } from '../../ipvs/types.ts'
import { isModuleThere } from '../../node/host.ts'
import { parseFrontendKey } from '../../service/frontends.ts'
import { type Reconciled, reconciled } from '../../sync/reconciler.ts'
import { TableSync } from '../../sync/table-sync.ts'
import type { IpFamily, Protocol } from '../../values/protocol.ts'
import { SERVICE_DEVICE } from '../../values/well-known.ts'
import { openTables, removalOf, type TableOptions } from '../ipvs/tables.ts'
import { withLook } from '../look/look.ts'
import { CLEANUP_LAYOUT } from './layouts.ts'

/**
 * Whether ipvs mode has left anything on this node that a removal would find: the device, a local route, or a set. Another program may have
 * deleted any of them. Virtual servers alone say nothing, because only the sets say which of them are ours. Loads no module.
 */
export function hasIpvsLeftovers(signal: AbortSignal): Promise<boolean> {
  return withLook(async (look) => {
    if (await look.hasVirtualIps(signal)) return true
    if (!isModuleThere('ip_set')) return false
    const ipset = await look.ipset(signal)
    return ipset !== undefined && (await new SetTable(ipset, look.families).list('all', signal)).size > 0
  })
}

/** `iptables`: undefined where rules are removed by the rule loops of the running mode, or cannot be reached. */
export type IpvsLeftoversOptions = Pick<
  TableOptions,
  'ipvs' | 'ipset' | 'rtnetlink' | 'iptables' | 'families' | 'excluded'
>

/** What ipvs mode left. Found before the sets are destroyed: without them no virtual server is known to be ours. */
export class IpvsLeftovers {
  readonly #options: TableOptions
  readonly #isOwned: (key: VirtualServerKey) => boolean

  private constructor(options: TableOptions, isOwned: (key: VirtualServerKey) => boolean) {
    this.#options = options
    this.#isOwned = isOwned
  }

  /** Reads the sets and the addresses of the node. */
  static async find(options: IpvsLeftoversOptions, signal: AbortSignal): Promise<IpvsLeftovers> {
    const { rtnetlink } = options
    const tableOptions: TableOptions = { ...options, layout: CLEANUP_LAYOUT }
    const device = (await rtnetlink.getLink(SERVICE_DEVICE, { signal }))?.index
    const addresses = (await rtnetlink.listAddresses({ signal })).filter((it) => it.interfaceIndex !== device)
    const entries = (await openTables(tableOptions).entries.list('all', signal)).values()
    return new IpvsLeftovers(tableOptions, ownedBySets(entries, new Set(addresses.map(({ address }) => address))))
  }

  /**
   * Whether this virtual server was made by a proxy: the sets name it, or its port is a node port at an address of the
   * node.
   */
  isOwned(key: VirtualServerKey): boolean {
    return this.#isOwned(key)
  }

  /** All tables, with nothing wanted in any. */
  removal(): readonly Reconciled[] {
    return removalOf({ ...this.#options, mayRemove: this.#isOwned })
  }

  /** The virtual servers alone, with none wanted. */
  removalOfVirtualServers(mayRemove: (key: VirtualServerKey) => boolean): Reconciled {
    return reconciled(new TableSync(openTables({ ...this.#options, mayRemove }).virtualServers))
  }
}

const NAMED: readonly SetRole[] = ['CLUSTER-IP', 'EXTERNAL-IP', 'EXTERNAL-IP-LOCAL', 'LOAD-BALANCER']
const NODE_PORTS: Readonly<Record<Protocol, SetRole>> = {
  tcp: 'NODE-PORT-TCP',
  udp: 'NODE-PORT-UDP',
  sctp: 'NODE-PORT-SCTP-HASH',
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
