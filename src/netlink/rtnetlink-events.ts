/**
 * Announcements of changed links, addresses and routes. They say when to look, never what is true.
 * What could break: after an overrun the kernel silently drops everything until the queue was empty once. So the
 * `overrun` event comes only when the queue is empty; a reader who looked earlier could miss a change.
 */
import type { CodedError } from '../values/errors.ts'
import { decodeAddress, type InterfaceAddress } from './address-codec.ts'
import { RTM_DELADDR, RTM_DELLINK, RTM_DELROUTE, RTM_NEWADDR, RTM_NEWLINK, RTM_NEWROUTE } from './constants.ts'
import { isLoss, netlinkError } from './errors.ts'
import { decodeLink, type Link } from './link-codec.ts'
import { type ReceivedMessage, visitMessages } from './message.ts'
import { decodeRoute, type Route } from './route-codec.ts'
import type { Transport } from './transport.ts'

/** `new` also stands for a change of something that was there. */
export type Change = 'new' | 'deleted'

export type RtnetlinkEvent =
  | { readonly kind: 'link'; readonly change: Change; readonly link: Link }
  | { readonly kind: 'address'; readonly change: Change; readonly address: InterfaceAddress }
  | { readonly kind: 'route'; readonly change: Change; readonly route: Route }
  /** Events were lost: whatever was read before this must be read again. */
  | { readonly kind: 'overrun'; readonly cause: CodedError }
  /** The socket is of no more use and closed; no event comes after this. */
  | { readonly kind: 'failed'; readonly cause: unknown }

/** Datagrams read in one go before the event loop may run; the rest follows at its next turn. */
const DATAGRAMS_PER_TURN = 64

export class RtnetlinkEvents {
  readonly #transport: Transport
  readonly #listener: (event: RtnetlinkEvent) => void
  /** Set while the queue is being emptied after a loss. */
  #lost: CodedError | undefined
  #closed = false

  /**
   * @param transport a socket that has joined the groups wanted (RTNLGRP_*) and is used for nothing else
   * @param listener must not throw
   */
  constructor(transport: Transport, listener: (event: RtnetlinkEvent) => void) {
    this.#transport = transport
    this.#listener = listener
  }

  /** Starts delivering. @param background do not keep the process alive for this */
  start(background = false): void {
    this.#transport.onReadable(() => this.#read(), background)
  }

  /** Frees the socket; no event comes after. Calling it again does nothing. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#transport.close()
  }

  #read(): void {
    for (let left = DATAGRAMS_PER_TURN; left > 0 && !this.#closed; left--) {
      try {
        const datagram = this.#transport.receive()
        if (datagram === undefined) {
          this.#reportLoss()
          return
        }
        if (this.#lost === undefined) visitMessages(datagram, (message) => this.#deliver(message))
      } catch (error) {
        if (!isLoss(error)) {
          this.close()
          this.#listener({ kind: 'failed', cause: error })
          return
        }
        this.#lost ??= error
      }
    }
  }

  #reportLoss(): void {
    const cause = this.#lost
    if (cause === undefined) return
    this.#lost = undefined
    this.#listener({
      kind: 'overrun',
      cause:
        cause.code === 'ENOBUFS' ? netlinkError('netlink-overrun', 'rtnetlink events were lost', { cause }) : cause,
    })
  }

  #deliver(message: ReceivedMessage): boolean {
    const event = decodeEvent(message)
    if (event !== undefined) this.#listener(event)
    return !this.#closed
  }
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
      return address && { kind: 'address', change: message.type === RTM_NEWADDR ? 'new' : 'deleted', address }
    }
    case RTM_NEWROUTE:
    case RTM_DELROUTE: {
      const route = decodeRoute(message)
      return route && { kind: 'route', change: message.type === RTM_NEWROUTE ? 'new' : 'deleted', route }
    }
    default:
      return undefined
  }
}
