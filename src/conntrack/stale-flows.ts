/**
 * Deletes stale UDP flows from the conntrack table after frontends have changed. Changes are
 * collected, and one dump for each family is enough for all of them. If a flow is deleted before
 * its real server is removed, the next packet creates it again, so a frontend waits here until the
 * kernel has its wanted state.
 * @impure
 */
import type { FrontendKey } from '../service/frontends.ts'
import { asError, CodedError } from '../values/errors.ts'
import { IP_FAMILIES, type IpFamily } from '../values/protocol.ts'
import type { FlowTable } from './connection.ts'
import { type FlowFrontend, filterFor, type Suspects, staleRule } from './stale-rule.ts'

export interface StaleFlowsOptions {
  readonly conntrack: FlowTable
  /** Whether the kernel has the wanted state of this frontend: no unwanted real server is left. */
  readonly isSettled: (key: FrontendKey) => boolean
  /** Called after each removal in a family, with its duration in milliseconds, even if it failed halfway. */
  readonly onRemoved?: ((family: IpFamily, deleted: number, durationMs: number) => void) | undefined
  /** The most stale flows in memory at once. Default 10,000, about 4 MB. */
  readonly limit?: number
}

/** The result of a removal. */
export interface StaleFlowReport {
  /** Number of frontends whose flows were checked. */
  readonly frontends: number
  readonly deleted: number
  /** The reason why some stale flows may be left; their frontends wait for the next removal. */
  readonly error: Error | undefined
}

const LIMIT = 10_000
/**
 * Rounds of one removal. No table has this many times the limit; more rounds mean that stale flows
 * are created all the time.
 */
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

  /** How many frontends wait for a removal. */
  get pending(): number {
    return this.#suspects.IPv4.size + this.#suspects.IPv6.size
  }

  /**
   * The frontend of this key has changed, or does not exist any more (undefined): the next removal
   * checks its flows. Only UDP continues without a new handshake, so other frontends are ignored.
   */
  suspect(key: FrontendKey, frontend: FlowFrontend | undefined): void {
    if (key.endsWith('/udp')) this.#suspects[key.startsWith('[') ? 'IPv6' : 'IPv4'].set(key, frontend)
  }

  /**
   * Deletes the stale flows of all waiting frontends that are settled. Repeating it is harmless.
   * Rejects only when aborted; after any error the frontends keep waiting.
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
        // A frontend that became suspect in the meantime is newer than the restored one.
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

  /** Dumps and deletes until a dump finds fewer flows than the limit. */
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
    throw new CodedError('conntrack-stale', `${filter.family}: stale flows are created faster than they are deleted`)
  }
}
