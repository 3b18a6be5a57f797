/**
 * Reads the announcements of a socket that has joined multicast groups. After an overrun the kernel
 * drops every announcement until the queue was empty once, so `onOverrun` is called only when the
 * queue is empty: a caller who read the kernel's state earlier could miss a change.
 * @impure
 */
import type { CodedError } from '../values/errors.ts'
import { isLoss, netlinkError } from './errors.ts'
import { type ReceivedMessage, visitMessages } from './message.ts'
import type { Transport } from './transport.ts'

/** None of these may throw, and none is called after `close`. */
export interface AnnouncementListener {
  readonly onMessage: (message: ReceivedMessage) => void
  /** Called after each turn: all queued messages have been read, or as many as one turn may read. */
  readonly onTurnEnd?: () => void
  /** Announcements were lost: the caller must read again everything that it read before. */
  readonly onOverrun: (cause: CodedError) => void
  /** The socket failed and was closed. */
  readonly onFailure: (cause: unknown) => void
}

/** What ends the certainty that every change was announced. */
export type LossListener = Pick<AnnouncementListener, 'onOverrun' | 'onFailure'>

/** Datagrams that are read before the event loop may run; the rest is read at its next turn. */
const DATAGRAMS_PER_TURN = 64

export class AnnouncementReader {
  readonly #transport: Transport
  readonly #listener: AnnouncementListener
  /** Set from a loss until the queue is empty; what is read in between is dropped. */
  #lost: CodedError | undefined
  #closed = false

  /** @param transport a socket that is used for nothing else */
  constructor(transport: Transport, listener: AnnouncementListener) {
    this.#transport = transport
    this.#listener = listener
  }

  /** Starts reading. @param background do not keep the process alive for this */
  start(background = false): void {
    this.#transport.onReadable(() => this.#read(), background)
  }

  /** Frees the socket. Calling it again does nothing. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#transport.close()
  }

  #read(): void {
    const end = this.#readTurn()
    if (!this.#closed) this.#listener.onTurnEnd?.()
    if (this.#closed) return
    if (end === 'empty') this.#reportLoss()
    else if (end !== undefined) {
      this.close()
      this.#listener.onFailure(end.failure)
    }
  }

  #readTurn(): 'empty' | { readonly failure: unknown } | undefined {
    for (let left = DATAGRAMS_PER_TURN; left > 0 && !this.#closed; left--) {
      try {
        const datagram = this.#transport.receive()
        if (datagram === undefined) return 'empty'
        if (this.#lost === undefined) visitMessages(datagram, (message) => this.#deliver(message))
      } catch (error) {
        if (!isLoss(error)) return { failure: error }
        this.#lost ??= error
      }
    }
    return undefined
  }

  #reportLoss(): void {
    const cause = this.#lost
    if (cause === undefined) return
    this.#lost = undefined
    const isOverrun = cause.code === 'ENOBUFS'
    this.#listener.onOverrun(isOverrun ? netlinkError('netlink-overrun', 'announcements were lost', { cause }) : cause)
  }

  #deliver(message: ReceivedMessage): boolean {
    this.#listener.onMessage(message)
    return !this.#closed
  }
}
