/**
 * When the ports are opened: a start has better things to do first, but a probe must be answered within seconds.
 * What could break: with bindAddressHardFail a taken port ends the program before anything is written to the kernel.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Servers, ServersOptions } from './servers.ts'

export interface LateServersOptions extends ServersOptions {
  /** Resolves when the kernel has what it should for the first time. */
  readonly firstPass: Promise<void>
}

/** Kubelet asks every 10 s unless told otherwise, and three times before it gives up. */
const LATEST_MS = 4000

export class LateServers {
  readonly #abort = new AbortController()
  #servers: Servers | undefined

  /** Opens the ports after the first pass or after four seconds; with bindAddressHardFail now, and rejects when that fails. */
  async open(options: LateServersOptions): Promise<void> {
    const { configuration, firstPass, log } = options
    if (configuration().bindAddressHardFail) {
      await this.#open(options)
      return
    }
    const { signal } = this.#abort
    const soon = Promise.race([firstPass, sleep(LATEST_MS, undefined, { signal, ref: false })])
    void soon
      .then(() => this.#open(options))
      .catch((error: unknown) => {
        if (!signal.aborted) log.error('Serving health and metrics failed', { error })
      })
  }

  async #open(options: ServersOptions): Promise<void> {
    const { openServers } = await import('./servers.ts')
    if (this.#abort.signal.aborted) return
    this.#servers = openServers(options)
    if (options.configuration().bindAddressHardFail) await this.#servers.ready
  }

  close(): void {
    this.#abort.abort()
    this.#servers?.close()
  }
}
