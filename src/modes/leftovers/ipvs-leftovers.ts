/**
 * What ipvs mode leaves in the kernel: finds it, and decides which virtual servers may be removed. Both a cleanup and the
 * switch to iptables mode read these tables as tables in which nothing is wanted, so that a pass removes what is ours.
 */
import { type SetRole, setName } from '../../ipset/catalogue.ts'
import type { IpsetConnection } from '../../ipset/connection.ts'
import { EntryTable } from '../../ipset/entries.ts'
import { SetTable } from '../../ipset/sets.ts'
import type { SetEntry } from '../../ipset/types.ts'
import { AddressTable } from '../../ipvs/addresses.ts'
import type { IpvsConnection } from '../../ipvs/connection.ts'
import { DeviceTable } from '../../ipvs/device.ts'
import { VirtualServerTable } from '../../ipvs/table.ts'
import type { VirtualServerKey } from '../../ipvs/types.ts'
import type { RtnetlinkConnection } from '../../netlink/rtnetlink.ts'
import { parseFrontendKey } from '../../service/frontends.ts'
import { type Reconciled, reconciled } from '../../sync/reconciler.ts'
import { TableSync } from '../../sync/table-sync.ts'
import type { Cidr } from '../../values/cidr.ts'
import type { IpFamily, Protocol } from '../../values/protocol.ts'
import { SERVICE_DEVICE } from '../../values/well-known.ts'

/** Whether ipvs mode has left anything on this node. Loads no module. */
export async function hasIpvsLeftovers(rtnetlink: RtnetlinkConnection, signal: AbortSignal): Promise<boolean> {
  return (await rtnetlink.getLink(SERVICE_DEVICE, { signal })) !== undefined
}

export interface IpvsLeftoversOptions {
  readonly ipvs: IpvsConnection
  readonly ipset: IpsetConnection
  readonly rtnetlink: RtnetlinkConnection
  readonly families: readonly IpFamily[]
  /** Virtual servers with an address in one of these stay. */
  readonly excluded: readonly Cidr[]
}

/** What ipvs mode left. Read it before the sets are destroyed: without them no virtual server is known to be ours. */
export class IpvsLeftovers {
  readonly #options: IpvsLeftoversOptions
  readonly #isOwned: (key: VirtualServerKey) => boolean

  private constructor(options: IpvsLeftoversOptions, isOwned: (key: VirtualServerKey) => boolean) {
    this.#options = options
    this.#isOwned = isOwned
  }

  /** Reads the sets and the addresses of the node. */
  static async find(options: IpvsLeftoversOptions, signal: AbortSignal): Promise<IpvsLeftovers> {
    const { rtnetlink } = options
    const device = (await rtnetlink.getLink(SERVICE_DEVICE, { signal }))?.index
    const addresses = (await rtnetlink.listAddresses({ signal })).filter((it) => it.interfaceIndex !== device)
    const inSets = await entryTable(options).read('all', signal)
    return new IpvsLeftovers(options, ownedBySets(inSets.values(), new Set(addresses.map(({ address }) => address))))
  }

  /**
   * Whether this virtual server was made by a proxy: the sets name it, or its port is a node port at an address of the
   * node.
   */
  isOwned(key: VirtualServerKey): boolean {
    return this.#isOwned(key)
  }

  /**
   * The tables, with nothing wanted in any: removals run from the last one to the first. The device is removed last,
   * because it shows that there is something left. @param chains tables of rules, which name the sets
   */
  tables(chains: readonly Reconciled[] = []): readonly Reconciled[] {
    const { rtnetlink, ipset, families } = this.#options
    return [
      reconciled(new TableSync(new DeviceTable(rtnetlink))),
      reconciled(new TableSync(new SetTable(ipset, families))),
      reconciled(new TableSync(entryTable(this.#options))),
      ...chains,
      this.virtualServers(this.#isOwned),
      reconciled(new TableSync(new AddressTable(rtnetlink))),
    ]
  }

  /** The virtual servers alone, with none wanted. */
  virtualServers(mayRemove: (key: VirtualServerKey) => boolean): Reconciled {
    const { ipvs, excluded } = this.#options
    return reconciled(new TableSync(new VirtualServerTable(ipvs, excluded, mayRemove)))
  }
}

function entryTable({ ipset, families }: IpvsLeftoversOptions): EntryTable {
  return new EntryTable(ipset, { families, onSetLost: () => undefined, onGrown: () => undefined })
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
