/**
 * One datagram out, datagrams in: the part that batches, requests and dumps share. It counts,
 * numbers messages, and turns ENOBUFS into `netlink-overrun`. Sequence numbers grow over the life
 * of the socket: a reused one would let a stale reply count.
 * @impure
 */
import type { Budget } from '../values/budget.ts'
import type { MessageBatch } from './batch.ts'
import { KernelError, netlinkError } from './errors.ts'
import { SocketWait, type Transport } from './transport.ts'

/** Numbers since the connection was opened, which metrics show. */
export interface NetlinkCounters {
  messagesSent: number
  datagramsSent: number
  datagramsReceived: number
}

export class Exchange {
  readonly counters: NetlinkCounters = { messagesSent: 0, datagramsSent: 0, datagramsReceived: 0 }
  readonly timeoutMs: number
  readonly #transport: Transport
  readonly #wait: SocketWait
  #sequence = 1

  constructor(transport: Transport, timeoutMs: number) {
    this.#transport = transport
    this.timeoutMs = timeoutMs
    this.#wait = new SocketWait(transport)
  }

  get portId(): number {
    return this.#transport.portId
  }

  throwIfClosed(): void {
    this.#wait.throwIfClosed()
  }

  close(reason: Error): void {
    this.#wait.close(reason)
    this.#transport.close()
  }

  /** Sends the batch; returns the sequence number of its first message. */
  send(batch: MessageBatch, ackLast: boolean): number {
    this.throwIfClosed()
    const count = batch.count
    // 0 marks announcements, so no message gets it.
    if (this.#sequence + count > 0xffffffff) this.#sequence = 1
    const first = this.#sequence
    this.#sequence += count
    this.#transport.send(batch.seal(first, ackLast))
    this.counters.messagesSent += count
    this.counters.datagramsSent++
    return first
  }

  /** The next datagram, or undefined when there is none now. */
  receive(): Uint8Array | undefined {
    let datagram: Uint8Array | undefined
    try {
      datagram = this.#transport.receive()
    } catch (error) {
      if (!(error instanceof KernelError && error.code === 'ENOBUFS')) throw error
      this.#discardQueued()
      throw netlinkError('netlink-overrun', 'the receive queue overflowed and replies are lost', { cause: error })
    }
    if (datagram !== undefined) this.counters.datagramsReceived++
    return datagram
  }

  /** Waits for the next datagram until `deadline` (performance.now()), then rejects with `netlink-timeout`. */
  async awaitDatagram(deadline: number, signal: AbortSignal | undefined): Promise<Uint8Array> {
    for (;;) {
      const leftMs = deadline - performance.now()
      if (leftMs <= 0) throw this.timedOut()
      if (!(await this.#wait.wait(leftMs, signal))) throw this.timedOut()
      const datagram = this.receive()
      if (datagram !== undefined) return datagram
    }
  }

  /** Reads and drops everything queued, in stretches, because the rest of a dump may be long. */
  async drain(budget: Budget): Promise<void> {
    while (!this.#wait.closed && this.#discardQueued(budget)) await budget.turn()
  }

  /** The time (performance.now()) at which an answer to a request sent now is late. */
  deadline(): number {
    return performance.now() + this.timeoutMs
  }

  timedOut(): Error {
    return netlinkError('netlink-timeout', `no answer from the kernel within ${this.timeoutMs} ms`)
  }

  /** Drops everything queued; true when the stretch ended before the queue was empty. */
  #discardQueued(budget?: Budget): boolean {
    for (let left = 100_000; left > 0; left--) {
      try {
        if (this.#transport.receive() === undefined) return false
      } catch {
        // An error in a datagram that is dropped does not matter.
      }
      if (budget?.spentBySteps() === true) return true
    }
    return false
  }
}
