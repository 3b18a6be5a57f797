/** Marks as doubtful what announcements of the kernel concern in ipvs mode: the device, addresses on it, rules. */
import { hasBinding, isNeverOurs } from '../../ipvs/address-diff.ts'
import type { Log } from '../../values/log.ts'
import { SERVICE_DEVICE } from '../../values/well-known.ts'
import { type AddressEvent, type LinkEvent, watchLinks, watchRules } from '../announcements.ts'
import { IPVS_LAYOUT } from '../leftovers/layouts.ts'
import type { ModeWatch } from '../mode.ts'
import type { IpvsDataplane } from './dataplane.ts'
import type { Kernel } from './kernel.ts'
import type { IpvsTables } from './tables.ts'

export interface LinkDoubtsOptions extends ModeWatch {
  /** What is known of the device, and of the addresses on it. */
  readonly dataplane: {
    readonly device: Pick<IpvsDataplane['device'], 'doubt'>
    readonly addresses: Pick<IpvsDataplane['addresses'], 'doubt' | 'live'>
  }
  readonly table: Pick<IpvsTables['addresses'], 'deviceIndex' | 'isBoundSoon'>
}

/** Doubts what an announcement of a link or an address is about. */
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
    dataplane.addresses.doubt('all')
    onDoubt()
  }

  link({ change, link }: LinkEvent): void {
    const { table, onNodeAddresses } = this.#options
    const isDevice = link.index === table.deviceIndex
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
    const isBound = table.isBoundSoon(announced) ?? hasBinding(dataplane.addresses.live(address), announced)
    if (isBound === (change === 'new')) return
    onForeignWrite(portId)
    dataplane.addresses.doubt([address])
    onDoubt()
  }
}

export interface WatchOptions extends ModeWatch {
  readonly kernel: Kernel
  readonly tables: Pick<IpvsTables, 'addresses'>
  readonly dataplane: IpvsDataplane
  readonly log: Log
}

/** Reads every announcement from the moment this returns until closed. */
export function watchKernel({ kernel, tables, dataplane, log, ...watch }: WatchOptions): { close(): void } {
  const doubts = new LinkDoubts({ dataplane, table: tables.addresses, ...watch })
  tables.addresses.onDeviceMissing = () => doubts.doubtDevice()
  const links = watchLinks({
    ignorePortIds: [kernel.rtnetlink.portId],
    onLink: (event) => doubts.link(event),
    onAddress: (event) => doubts.address(event),
    onLost: () => doubts.doubtEverything(),
    onError: (error) => log.warn('Lost announcements of the kernel; reading everything again', { error }),
  })
  const rules = watchRules({
    iptables: kernel.iptables,
    layout: IPVS_LAYOUT,
    onForeignWrite: watch.onForeignWrite,
    doubtRules: (family) => dataplane.setsAndRules.loops.doubt(family),
    onError: (error) => log.warn('Lost announcements of changed rules; reading all rules again', { error }),
  })
  return {
    close: () => {
      rules.close()
      links.close()
    },
  }
}
