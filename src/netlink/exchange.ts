/**
 * One datagram out, datagrams in: what batches, requests and dumps share. Counts, numbers messages, turns ENOBUFS into
 * `netlink-overrun`.
 * What could break: sequence numbers grow over the life of the socket; reusing one would let a stale reply count.
 */
import type { MessageBatch } from './batch.ts'
import { KernelError, netlinkError } from './errors.ts'
import { Readiness, type Transport } from './transport.ts'

/** What the bench counts. */
export interface NetlinkCounters {
  messagesSent: number
  datagramsSent: number
  datagramsReceived: number
}

/** A stretch of work that may hold the event loop for `lengthMs`. */
export interface Slice {
  startedAt: number
  readonly lengthMs: number
}

export class Exchange {
  readonly counters: NetlinkCounters = { messagesSent: 0, datagramsSent: 0, datagramsReceived: 0 }
  readonly timeoutMs: number
  readonly #transport: Transport
  readonly #readiness: Readiness
  #sequence = 1

  constructor(transport: Transport, timeoutMs: number) {
    this.#transport = transport
    this.timeoutMs = timeoutMs
    this.#readiness = new Readiness(transport)
  }

  get portId(): number {
    return this.#transport.portId
  }

  throwIfClosed(): void {
    this.#readiness.throwIfClosed()
  }

  close(reason: Error): void {
    this.#readiness.close(reason)
    this.#transport.close()
  }

  /** Sends the batch; returns the sequence number of its first message. */
  send(batch: MessageBatch, ackLast: boolean): number {
    this.throwIfClosed()
    const count = batch.count
    // 0 marks notifications, so a batch never spans it.
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
      if (!(await this.#readiness.wait(leftMs, signal))) throw this.timedOut()
      const datagram = this.receive()
      if (datagram !== undefined) return datagram
    }
  }

  /** Reads what is queued and drops it, in slices: the rest of a dump may be long. */
  async drain(slice: Slice): Promise<void> {
    while (!this.#readiness.closed && this.#discardQueued(slice)) await nextTurn(slice)
  }

  /** When an answer that is waited for from now on is late (performance.now()). */
  deadline(): number {
    return performance.now() + this.timeoutMs
  }

  timedOut(): Error {
    return netlinkError('netlink-timeout', `no answer from the kernel within ${this.timeoutMs} ms`)
  }

  /** Drops what is queued; true when the slice was over before the queue was empty. */
  #discardQueued(slice?: Slice): boolean {
    for (let left = 100_000; left > 0; left--) {
      try {
        if (this.#transport.receive() === undefined) return false
      } catch {
        // Whatever is wrong with a datagram that is dropped anyway does not matter.
      }
      if (slice !== undefined && performance.now() - slice.startedAt > slice.lengthMs) return true
    }
    return false
  }
}

/** Lets the event loop run, then starts a new slice. */
export async function nextTurn(slice: Slice): Promise<void> {
  await new Promise<void>((resolve) => setImmediate(resolve))
  slice.startedAt = performance.now()
}
