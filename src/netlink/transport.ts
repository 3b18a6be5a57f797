/**
 * The interface between netlink connections and the socket, waiting on it, and taking turns on it.
 * Behind this interface a test can simulate every fault of the kernel.
 * @impure
 */

export interface Transport {
  /** The socket's address (`nl_pid` of struct sockaddr_nl), which announcements name as the sender of a change. */
  readonly portId: number
  /** Sends one datagram, which the kernel executes before this returns. Throws KernelError (EMSGSIZE, EPERM, …). */
  send(bytes: Uint8Array): void
  /**
   * The next datagram from the kernel, or undefined when none is queued. Never blocks. The bytes
   * are valid until the next call, which overwrites them. Throws KernelError (ENOBUFS after an
   * overrun) and CodedError `netlink-truncated`.
   */
  receive(): Uint8Array | undefined
  /**
   * Calls the listener whenever a datagram or an error can be received; undefined stops that. A
   * listener keeps the process alive, unless `background` is true.
   */
  onReadable(listener: (() => void) | undefined, background?: boolean): void
  /** Frees the socket. Calling it again does nothing. */
  close(): void
}

/**
 * Waits until a transport can be read, or a deadline, an AbortSignal or the end of the connection.
 * The listener is set only during a wait, or an idle socket would keep the process alive.
 */
export class SocketWait {
  readonly #transport: Transport
  #closed: Error | undefined
  #fail: ((reason: Error) => void) | undefined

  constructor(transport: Transport) {
    this.#transport = transport
  }

  get closed(): boolean {
    return this.#closed !== undefined
  }

  throwIfClosed(): void {
    if (this.#closed !== undefined) throw this.#closed
  }

  /**
   * True when something can be received, false when `timeoutMs` passed before. Rejects on abort and
   * on `close`. One at a time.
   */
  async wait(timeoutMs: number, signal?: AbortSignal): Promise<boolean> {
    this.throwIfClosed()
    signal?.throwIfAborted()
    let timer: NodeJS.Timeout | undefined
    let abort: (() => void) | undefined
    try {
      return await new Promise<boolean>((resolve, reject) => {
        this.#fail = reject
        abort = () => reject(signal?.reason)
        signal?.addEventListener('abort', abort, { once: true })
        timer = setTimeout(() => resolve(false), Math.ceil(timeoutMs))
        this.#transport.onReadable(() => resolve(true))
      })
    } finally {
      clearTimeout(timer)
      if (abort !== undefined) signal?.removeEventListener('abort', abort)
      this.#fail = undefined
      if (this.#closed === undefined) this.#transport.onReadable(undefined)
    }
  }

  /** Makes the waiting call and all later calls reject. */
  close(reason: Error): void {
    this.#closed ??= reason
    this.#fail?.(reason)
  }
}

interface Waiting {
  readonly proceed: () => void
  readonly refuse: (reason: unknown) => void
}

/**
 * First come, first served: lets one call at a time use a connection. `take` must not wait (not
 * even a microtask) when the turn is free, or a batch would lose its synchronous path; and every
 * `take` that resolved needs its `pass`.
 */
export class Turns {
  #held = false
  #closed: Error | undefined
  readonly #waiting = new Set<Waiting>()

  /** Gets the turn at once (undefined) or a promise of it. Rejects with the signal's reason, or after `close`. */
  take(signal?: AbortSignal): Promise<void> | undefined {
    if (this.#closed !== undefined) return Promise.reject(this.#closed)
    if (!this.#held) {
      this.#held = true
      return undefined
    }
    return new Promise<void>((resolve, reject) => {
      const abort = (): void => {
        this.#waiting.delete(waiting)
        reject(signal?.reason)
      }
      const waiting: Waiting = {
        proceed: () => {
          signal?.removeEventListener('abort', abort)
          resolve()
        },
        refuse: (reason) => {
          signal?.removeEventListener('abort', abort)
          reject(reason)
        },
      }
      this.#waiting.add(waiting)
      signal?.addEventListener('abort', abort, { once: true })
    })
  }

  /** Gives the turn to the call that has waited longest. */
  pass(): void {
    for (const next of this.#waiting) {
      this.#waiting.delete(next)
      next.proceed()
      return
    }
    this.#held = false
  }

  /** Makes all waiting and all later calls reject. */
  close(reason: Error): void {
    if (this.#closed !== undefined) return
    this.#closed = reason
    for (const waiting of this.#waiting) waiting.refuse(reason)
    this.#waiting.clear()
  }
}
