/**
 * Takes stale UDP flows out of the conntrack table after frontends have changed: the changes are collected, one dump a
 * family serves them all.
 * What could break: a flow that is deleted before the real server behind it has gone comes back with the next packet, so a
 * frontend waits here until the kernel has what is wanted of it.
 * @impure
 */
import type { FrontendKey } from '../service/frontends.ts'
import { asError, CodedError } from '../values/errors.ts'
import { IP_FAMILIES, type IpFamily } from '../values/protocol.ts'
import type { FlowTable } from './connection.ts'
import { type FlowFrontend, filterFor, type Suspects, staleRule } from './stale-rule.ts'

export interface StaleFlowsOptions {
  readonly conntrack: FlowTable
  /** Whether the kernel has what is wanted of this frontend: no real server is left that is to go. */
  readonly isSettled: (key: FrontendKey) => boolean
  /** Hears of each removal in a family, with its length in milliseconds; also of one that failed halfway. */
  readonly onRemoved?: ((family: IpFamily, deleted: number, durationMs: number) => void) | undefined
  /** Stale flows that are held in memory at once. Default 10,000, about 4 MB. */
  readonly limit?: number
}

/** What a removal did. */
export interface StaleFlowReport {
  /** Frontends whose flows were looked at. */
  readonly frontends: number
  readonly deleted: number
  /** Why some stale flows may be left: their frontends wait for the next removal. */
  readonly error: Error | undefined
}

const LIMIT = 10_000
/** No table is this many times the limit; more rounds than this mean that stale flows keep being made. */
const MAX_ROUNDS = 200

export class StaleFlows {
  readonly #options: StaleFlowsOptions
  readonly #suspects = {
    IPv4: new Map<FrontendKey, FlowFrontend | undefined>(),
    IPv6: new Map<FrontendKey, FlowFrontend | undefined>(),
  }

  constructor(options: StaleFlowsOptions) {
    this.#options = options
  }

  /** Frontends that wait for a removal. */
  get pending(): number {
    return this.#suspects.IPv4.size + this.#suspects.IPv6.size
  }

  /**
   * The frontend of this key is another one now, or there is none (undefined): the next removal looks at its flows. Only
   * UDP goes on without a new handshake, so other frontends are left alone.
   */
  suspect(key: FrontendKey, frontend: FlowFrontend | undefined): void {
    if (key.endsWith('/udp')) this.#suspects[key.startsWith('[') ? 'IPv6' : 'IPv4'].set(key, frontend)
  }

  /**
   * Deletes the stale flows of all frontends that wait and are settled. Doing it again is harmless. Rejects only when
   * aborted; whatever goes wrong, nothing that waited is forgotten.
   */
  async remove(signal: AbortSignal): Promise<StaleFlowReport> {
    const { onRemoved } = this.#options
    let frontends = 0
    let deleted = 0
    let error: Error | undefined
    for (const family of IP_FAMILIES) {
      const waiting = this.#suspects[family]
      const suspects = this.#takeSettled(waiting)
      if (suspects.size === 0) continue
      frontends += suspects.size
      const startedMs = performance.now()
      const before = deleted
      try {
        await this.#removeTo(suspects, (count) => (deleted += count), signal)
      } catch (thrown) {
        // What has become suspect anew is newer than what is given back.
        for (const [key, frontend] of suspects) if (!waiting.has(key)) waiting.set(key, frontend)
        signal.throwIfAborted()
        error ??= asError(thrown)
      }
      onRemoved?.(family, deleted - before, performance.now() - startedMs)
    }
    return { frontends, deleted, error }
  }

  #takeSettled(waiting: Map<FrontendKey, FlowFrontend | undefined>): Suspects {
    const taken = new Map<FrontendKey, FlowFrontend | undefined>()
    for (const [key, frontend] of waiting) if (this.#options.isSettled(key)) taken.set(key, frontend)
    for (const key of taken.keys()) waiting.delete(key)
    return taken
  }

  /** Dumps and deletes until a dump has found less than fits into memory at once. */
  async #removeTo(suspects: Suspects, counted: (flows: number) => void, signal: AbortSignal): Promise<void> {
    const { conntrack, limit = LIMIT } = this.#options
    const filter = filterFor(suspects)
    const isStale = staleRule(suspects)
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const flows = await conntrack.findFlows(filter, isStale, { signal, limit })
      const { deleted, error } = await conntrack.deleteFlows(flows, signal)
      counted(deleted)
      if (error !== undefined) throw error
      if (flows.length < limit) return
    }
    throw new CodedError('conntrack-stale', `${filter.family}: stale flows come faster than they are deleted`)
  }
}
