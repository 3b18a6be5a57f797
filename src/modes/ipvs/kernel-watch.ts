/**
 * Announcements of links and addresses in ipvs mode. They only say which keys to read again; nothing is concluded from
 * them.
 */
import { openRtnetlinkEvents } from '../../../native/open.ts'
import { hasBinding, isNeverOurs } from '../../ipvs/address-diff.ts'
import type { AddressTable } from '../../ipvs/addresses.ts'
import { RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR, RTNLGRP_LINK } from '../../netlink/constants.ts'
import type { RtnetlinkEvent } from '../../netlink/rtnetlink.ts'
import { SERVICE_DEVICE } from '../../values/well-known.ts'
import { keepListening } from '../announcements.ts'
import type { IpvsDataplane } from './dataplane.ts'
import type { IpvsKernel } from './ipvs-kernel.ts'

export interface KernelDoubts {
  /** What is known of the device, and of the addresses on it. */
  readonly dataplane: {
    readonly device: Pick<IpvsDataplane['device'], 'doubt'>
    readonly addresses: Pick<IpvsDataplane['addresses'], 'doubt' | 'live'>
  }
  readonly table: Pick<AddressTable, 'deviceIndex' | 'isBoundSoon'>
  /** A pass should look at what is doubted now. */
  readonly onDoubt: () => void
  /** Addresses of other interfaces may have changed. */
  readonly onNodeAddresses: () => void
}

/** Says what an announcement makes doubtful. */
export class KernelListener {
  readonly #doubts: KernelDoubts

  constructor(doubts: KernelDoubts) {
    this.#doubts = doubts
  }

  /** A link or an address was announced. */
  hear(event: Extract<RtnetlinkEvent, { readonly kind: 'link' | 'address' | 'route' }>): void {
    if (event.kind === 'link') this.#link(event)
    else if (event.kind === 'address') this.#address(event)
  }

  /** Announcements were lost. */
  doubtEverything(): void {
    this.#doubts.onNodeAddresses()
    this.doubtDevice()
  }

  /** The device may be gone, or another one by now. */
  doubtDevice(): void {
    const { dataplane, onDoubt } = this.#doubts
    dataplane.device.doubt([SERVICE_DEVICE])
    dataplane.addresses.doubt('all')
    onDoubt()
  }

  #link({ change, link }: Extract<RtnetlinkEvent, { readonly kind: 'link' }>): void {
    const { table, onNodeAddresses } = this.#doubts
    const isDevice = link.index === table.deviceIndex
    if (link.name === SERVICE_DEVICE) {
      if (change === 'deleted' || !isDevice) this.doubtDevice()
      return
    }
    // It was given another name: its addresses are on an interface of the node now.
    if (isDevice) this.doubtDevice()
    if (isDevice || change === 'deleted') onNodeAddresses()
  }

  #address({ change, address: announced }: Extract<RtnetlinkEvent, { readonly kind: 'address' }>): void {
    const { dataplane, table, onDoubt, onNodeAddresses } = this.#doubts
    const { address, interfaceIndex } = announced
    if (interfaceIndex !== table.deviceIndex) {
      // Each new pod brings a link-local address; such a one never counts for the node.
      if (!isNeverOurs(address)) onNodeAddresses()
      return
    }
    // Our own changes come back for IPv6; they agree with what has been written so far.
    const isBound = table.isBoundSoon(announced) ?? hasBinding(dataplane.addresses.live(address), announced)
    if (isBound === (change === 'new')) return
    dataplane.addresses.doubt([address])
    onDoubt()
  }
}

export interface KernelWatchOptions {
  readonly kernel: IpvsKernel
  readonly dataplane: IpvsDataplane
  readonly onDoubt: () => void
  readonly onNodeAddresses: () => void
  readonly onError: (error: unknown) => void
}

/** Listens to changes of links and addresses until closed. */
export function watchKernel({ kernel, dataplane, onDoubt, onNodeAddresses, onError }: KernelWatchOptions): {
  close(): void
} {
  const { addresses: table } = kernel.tables
  const listener = new KernelListener({ dataplane, table, onDoubt, onNodeAddresses })
  table.onDeviceMissing = () => listener.doubtDevice()
  const groups = [RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR]
  return keepListening({
    open: (onFailed) =>
      openRtnetlinkEvents({ groups, ignorePortIds: [kernel.rtnetlink.portId] }, (event) => {
        switch (event.kind) {
          case 'link':
          case 'address':
          case 'route':
            return listener.hear(event)
          case 'overrun':
            onError(event.cause)
            return listener.doubtEverything()
          case 'failed':
            return onFailed(event.cause)
        }
      }),
    onLost: () => listener.doubtEverything(),
    onError,
  })
}
