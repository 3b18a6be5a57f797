/**
 * Changes of nf_tables that may have touched our rules, told as soon as the kernel announces them. They say when to
 * look, never what is there.
 * What could break: `concernsUs` decides how often iptables-save runs on a node where others change their own rules all
 * day; and after an overrun everything must be looked at.
 */
import { visitMessages } from '../netlink/message.ts'
import type { Transport } from '../netlink/transport.ts'
import { isLoss } from '../netlink/errors.ts'
import type { IpFamily } from '../values/protocol.ts'
import type { ChainLayout } from './layout.ts'
import { decodeNftChange, type NftChange } from './nft-codec.ts'

export type NftEvent =
  /** Our chains or jumps of this family may have been changed. */
  | { readonly kind: 'changed'; readonly change: NftChange }
  /** Announcements were lost: look at both families. */
  | { readonly kind: 'overrun' }
  /** The socket is of no more use and closed; nothing comes after this. */
  | { readonly kind: 'failed'; readonly cause: unknown }

/** Datagrams read in one go before the event loop may run; the rest follows at its next turn. */
const DATAGRAMS_PER_TURN = 64

/**
 * Whether a change may have touched what is ours: anything in our chains; in a built-in chain that holds a jump of ours,
 * only what takes something away, because where a jump stands does not matter.
 */
export function concernsUs({ kind, table: name, chain }: NftChange, layout: ChainLayout): boolean {
  const table = layout.tables.find((one) => one === name)
  if (table === undefined) return false
  if (kind === 'table-deleted' || layout.owns(table, chain)) return true
  const takesAway = kind === 'rule-deleted' || kind === 'chain-deleted'
  return takesAway && layout.jumps.some((jump) => jump.table === table && jump.from === chain)
}

export class NftEvents {
  readonly #transport: Transport
  readonly #layout: ChainLayout
  readonly #isOwn: (portId: number) => boolean
  readonly #listener: (event: NftEvent) => void
  #lost = false
  #closed = false

  /**
   * @param transport a socket of NETLINK_NETFILTER that has joined NFNLGRP_NFTABLES and is used for nothing else
   * @param layout what is ours
   * @param isOwn whether a port id is that of one of our own iptables-restore processes
   * @param listener must not throw
   */
  constructor(
    transport: Transport,
    layout: ChainLayout,
    isOwn: (portId: number) => boolean,
    listener: (event: NftEvent) => void,
  ) {
    this.#transport = transport
    this.#layout = layout
    this.#isOwn = isOwn
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
    // One event a family and turn: a flush is hundreds of announcements.
    const changed = new Map<IpFamily, NftChange>()
    let failure: { readonly cause: unknown } | undefined
    let isEmpty = false
    for (let left = DATAGRAMS_PER_TURN; left > 0 && failure === undefined && !isEmpty; left--) {
      try {
        const datagram = this.#transport.receive()
        isEmpty = datagram === undefined
        if (datagram === undefined) continue
        visitMessages(datagram, (message) => {
          const change = decodeNftChange(message)
          if (change !== undefined && concernsUs(change, this.#layout) && !this.#isOwn(change.portId))
            changed.set(change.family, change)
        })
      } catch (error) {
        if (isLoss(error)) this.#lost = true
        else failure = { cause: error }
      }
    }
    for (const change of changed.values()) if (!this.#closed) this.#listener({ kind: 'changed', change })
    // Until the queue was empty once, the kernel drops everything without a word: a look before that could miss a change.
    if (this.#lost && isEmpty && !this.#closed) {
      this.#lost = false
      this.#listener({ kind: 'overrun' })
    }
    if (failure !== undefined && !this.#closed) {
      this.close()
      this.#listener({ kind: 'failed', cause: failure.cause })
    }
  }
}
