/**
 * Marks as doubtful what announcements of the kernel concern in ipvs mode: the device, addresses on
 * it, local routes, what the firewall wrote, and all virtual servers when ip_vs was unloaded.
 */
import { hasBinding, isNeverOurs } from '../../ipvs/address-diff.ts'
import type { AddressTable } from '../../ipvs/addresses.ts'
import { IPVS_GENL_NAME } from '../../ipvs/codec.ts'
import { hasPath, isOwnRoute, LOOPBACK_INDEX, pathOf } from '../../ipvs/route-diff.ts'
import { RT_TABLE_LOCAL } from '../../netlink/route-codec.ts'
import type { Log } from '../../values/log.ts'
import { SERVICE_DEVICE } from '../../values/well-known.ts'
import {
  type AddressEvent,
  type LinkEvent,
  type RouteEvent,
  watchFamily,
  watchLinks,
  watchRoutes,
} from '../announcements.ts'
import type { ModeWatch } from '../mode.ts'
import type { IpvsDataplane } from './dataplane.ts'
import type { Kernel } from './kernel.ts'
import type { OpenedTables } from './tables.ts'

export interface LinkDoubtsOptions extends ModeWatch {
  /** What is known of the device, and of the addresses on it. */
  readonly dataplane: {
    readonly device: Pick<IpvsDataplane['device'], 'doubt'>
    readonly virtualAddresses: {
      readonly addresses: Pick<IpvsDataplane['virtualAddresses']['addresses'], 'doubt' | 'live'>
      readonly routes: Pick<IpvsDataplane['virtualAddresses']['routes'], 'doubt' | 'live'>
    }
  }
  readonly table: Pick<AddressTable, 'deviceIndex' | 'isBoundSoon'>
}

/** Doubts what an announcement of a link, an address or a route is about. */
export class LinkDoubts {
  readonly #options: LinkDoubtsOptions

  constructor(options: LinkDoubtsOptions) {
    this.#options = options
  }

  /** Announcements were lost. */
  doubtEverything(): void {
    this.#options.onNodeAddresses()
    this.doubtDevice()
  }

  /** The device may have been deleted or replaced. */
  doubtDevice(): void {
    const { dataplane, onDoubt } = this.#options
    dataplane.device.doubt([SERVICE_DEVICE])
    dataplane.virtualAddresses.addresses.doubt('all')
    onDoubt()
  }

  /** Announcements of routes were lost, or the interface of the routes changed. */
  doubtRoutes(): void {
    const { dataplane, onDoubt } = this.#options
    dataplane.virtualAddresses.routes.doubt('all')
    onDoubt()
  }

  link({ change, link }: LinkEvent): void {
    const { table, onNodeAddresses } = this.#options
    const isDevice = link.index === table.deviceIndex
    if (link.index === LOOPBACK_INDEX) this.doubtRoutes()
    if (link.name === SERVICE_DEVICE) {
      if (change === 'deleted' || !isDevice) this.doubtDevice()
      return
    }
    // The device was renamed, so its addresses are now on another interface of the node.
    if (isDevice) this.doubtDevice()
    if (isDevice || change === 'deleted') onNodeAddresses()
  }

  address({ change, address: announced, portId }: AddressEvent): void {
    const { dataplane, table, onDoubt, onNodeAddresses, onForeignWrite } = this.#options
    const { address, interfaceIndex } = announced
    if (interfaceIndex !== table.deviceIndex) {
      // Each new pod has a link-local address; such an address never counts for the node.
      if (!isNeverOurs(address)) onNodeAddresses()
      return
    }
    // The kernel announces our own changes of IPv6 addresses too; they agree with what has been written so far.
    const isBound =
      table.isBoundSoon(announced) ?? hasBinding(dataplane.virtualAddresses.addresses.live(address), announced)
    if (isBound === (change === 'new')) return
    onForeignWrite(portId)
    dataplane.virtualAddresses.addresses.doubt([address])
    onDoubt()
  }

  /** A route of another program to a virtual IP may have replaced ours. */
  route({ change, route, portId }: RouteEvent): void {
    const { dataplane, onDoubt, onForeignWrite } = this.#options
    const { routes } = dataplane.virtualAddresses
    if (route.table !== RT_TABLE_LOCAL) return
    const live = routes.live(route.destination)
    if (isOwnRoute(route) ? hasPath(live, pathOf(route)) === (change === 'new') : live === undefined) return
    onForeignWrite(portId)
    routes.doubt([route.destination])
    onDoubt()
  }
}

export interface WatchOptions extends ModeWatch {
  readonly kernel: Kernel
  readonly tables: Pick<OpenedTables, 'addresses'>
  readonly dataplane: IpvsDataplane
  readonly log: Log
}

export interface KernelWatch {
  /** Reads announcements of routes as well, or no longer: nodes with a routing daemon have very many. */
  watchRoutes(wanted: boolean): void
  close(): void
}

/** Reads every announcement from the moment this returns until closed. */
export function watchKernel({ kernel, tables, dataplane, log, ...watch }: WatchOptions): KernelWatch {
  const doubts = new LinkDoubts({ dataplane, table: tables.addresses, ...watch })
  tables.addresses.onDeviceMissing = () => doubts.doubtDevice()
  const ignorePortIds = [kernel.rtnetlink.portId]
  const onError = (error: unknown): void =>
    log.warn('Lost announcements of the kernel; reading everything again', { error })
  const links = watchLinks({
    ignorePortIds,
    onLink: (event) => doubts.link(event),
    onAddress: (event) => doubts.address(event),
    onLost: () => doubts.doubtEverything(),
    onError,
  })
  const ipvs = watchFamily({
    family: IPVS_GENL_NAME,
    // A pass reads the table, and finds that there is none or, when ip_vs was loaded again at once, an empty one.
    onRemoved: () => {
      dataplane.virtualServers.doubt('all')
      watch.onDoubt()
    },
    onError,
  })
  let routes: { close(): void } | undefined
  const firewall = dataplane.firewall.watch(watch.onForeignWrite)
  return {
    watchRoutes(wanted) {
      if (wanted === (routes !== undefined)) return
      routes?.close()
      routes = wanted
        ? watchRoutes({
            ignorePortIds,
            onRoute: (event) => doubts.route(event),
            onLost: () => doubts.doubtRoutes(),
            onError,
          })
        : undefined
      // What was announced before is unknown.
      if (wanted) doubts.doubtRoutes()
    },
    close() {
      firewall.close()
      ipvs.close()
      routes?.close()
      links.close()
    },
  }
}
