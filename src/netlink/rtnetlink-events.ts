/**
 * Announcements of changed links, addresses and routes of this network namespace: they say which
 * state to read again, never what it is.
 * @impure
 */
import { decodeAddress, type InterfaceAddress } from './address-codec.ts'
import { AnnouncementReader, type LossListener } from './announcements.ts'
import { RTM_DELADDR, RTM_DELLINK, RTM_DELROUTE, RTM_NEWADDR, RTM_NEWLINK, RTM_NEWROUTE } from './constants.ts'
import { decodeLink, type Link } from './link-codec.ts'
import type { ReceivedMessage } from './message.ts'
import { decodeRoute, type Route } from './route-codec.ts'
import type { Transport } from './transport.ts'

/** `new` is also used for a change of an existing object. */
export type Change = 'new' | 'deleted'

export type RtnetlinkEvent =
  | { readonly kind: 'link'; readonly change: Change; readonly link: Link }
  /** `portId`: of the socket that changed it, usually the id of its process; 0 for the kernel. */
  | {
      readonly kind: 'address'
      readonly change: Change
      readonly address: InterfaceAddress
      readonly portId: number
    }
  | { readonly kind: 'route'; readonly change: Change; readonly route: Route; readonly portId: number }

/**
 * Reads the events of a socket that has joined RTNLGRP_* groups, once the caller has started it.
 * @param listener must not throw
 */
export function rtnetlinkEvents(
  transport: Transport,
  listener: (event: RtnetlinkEvent) => void,
  losses: LossListener,
): AnnouncementReader {
  return new AnnouncementReader(transport, {
    onMessage(message) {
      const event = decodeEvent(message)
      if (event !== undefined) listener(event)
    },
    ...losses,
  })
}

/** Reads a notification; undefined for one that is not about links, addresses or routes of IPv4 and IPv6. */
function decodeEvent(message: ReceivedMessage): RtnetlinkEvent | undefined {
  switch (message.type) {
    case RTM_NEWLINK:
    case RTM_DELLINK:
      return { kind: 'link', change: message.type === RTM_NEWLINK ? 'new' : 'deleted', link: decodeLink(message) }
    case RTM_NEWADDR:
    case RTM_DELADDR: {
      const address = decodeAddress(message)
      const change = message.type === RTM_NEWADDR ? 'new' : 'deleted'
      return address && { kind: 'address', change, address, portId: message.portId }
    }
    case RTM_NEWROUTE:
    case RTM_DELROUTE: {
      const route = decodeRoute(message)
      return (
        route && {
          kind: 'route',
          change: message.type === RTM_NEWROUTE ? 'new' : 'deleted',
          route,
          portId: message.portId,
        }
      )
    }
    default:
      return undefined
  }
}
