/**
 * When the health and metrics ports and the local socket open: after the first pass, or after 4 s.
 * Loading the HTTP code must not delay the first pass, and a probe must not wait for a slow one.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { LocalCounts } from '../metrics/local-counts.ts'
import type { Responder } from '../serve/http-answer.ts'
import type { LocalAnswersOptions } from './local-answers.ts'
import type { LocalSocket } from './local-socket.ts'
import type { Servers, ServersOptions } from './servers.ts'

export interface LateServersOptions extends ServersOptions, LocalAnswersOptions {
  /** Resolves when the first pass has ended. */
  readonly firstPass: Promise<void>
}

/** By default kubelet probes every 10 s, and three probes have to fail before it acts. */
const LATEST_MS = 4000

export class LateServers {
  readonly #abort = new AbortController()
  readonly local = new LocalCounts()
  #servers: Servers | undefined
  #socket: LocalSocket | undefined

  /**
   * Returns at once; with bindAddressHardFail it opens the ports now and rejects when one is taken,
   * so that the daemon ends before it writes anything to the kernel.
   */
  async open(options: LateServersOptions): Promise<void> {
    const { configuration, firstPass, log } = options
    const { signal } = this.#abort
    const isNow = configuration().bindAddressHardFail
    if (isNow) await this.#open(options)
    const soon = Promise.race([firstPass, sleep(LATEST_MS, undefined, { signal, ref: false })])
    void soon
      .then(async () => {
        if (!isNow) await this.#open(options)
        await this.#openSocket(options)
      })
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

  async #openSocket(options: LateServersOptions): Promise<void> {
    const { log, configuration } = options
    const path = configuration().kubeIPVS.socket
    if (path === '') return
    const { LocalSocket } = await import('./local-socket.ts')
    if (this.#abort.signal.aborted) return
    const { local } = this
    const answer: Responder = async (request) => {
      const made = await (await import('./local-answers.ts')).answerLocally(options, request)
      local.answered(made.status)
      return made
    }
    const onChange = (isOpen: boolean): void => {
      local.isOpen = isOpen
    }
    this.#socket = new LocalSocket({ path, answer, log, onChange })
    await this.#socket.open()
  }

  close(): void {
    this.#abort.abort()
    this.#servers?.close()
    this.#socket?.close()
  }
}
