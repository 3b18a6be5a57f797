/**
 * Waits until a transport can be read, with a deadline, an AbortSignal and the end of the connection as ways out.
 * What could break: the listener must be off while nobody waits, or an idle socket would keep the process alive.
 */
import type { Transport } from './transport.ts'

export class Readiness {
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

  /** True when something can be received, false when `timeoutMs` passed before. Rejects on abort and on `close`. One at a time. */
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

  /** Makes the call that waits, and all later ones, reject. */
  close(reason: Error): void {
    this.#closed ??= reason
    this.#fail?.(reason)
  }
}
