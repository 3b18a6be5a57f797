/**
 * Waits until a table does not belong to another process of ours any more: the kernel announces
 * nothing when a socket that owns a table is closed, so the table alone is read again and again.
 * Meanwhile Services stay as the other process has written them, so a long wait is a problem.
 */
import { ownedByOther } from '../../../nftables/refusals.ts'
import { NFT_FAMILY, type NftItem, type NftOperation } from '../../../nftables/types.ts'
import type { TableIo } from '../../../sync/table.ts'
import type { IpFamily } from '../../../values/protocol.ts'
import type { FirewallOptions } from '../firewall.ts'

/** Between two looks, in milliseconds: for this long after the other process ended nobody may write. */
const LOOK_MS = 100
/** A process that hands over has ended long before, in milliseconds. */
export const LONG_WAIT_MS = 60_000

export interface HandOverOptions extends Pick<FirewallOptions, 'problems' | 'log' | 'now'> {
  readonly table: Pick<TableIo<NftItem, NftOperation>, 'list'>
  /** A table that was awaited can be had. */
  readonly onFree: () => void
}

interface Wait {
  readonly portId: number
  readonly sinceMs: number
  isReported: boolean
}

export class HandOver {
  readonly #options: HandOverOptions
  readonly #abort = new AbortController()
  readonly #waits = new Map<IpFamily, Wait>()
  /** The next pass says whether a table is still awaited. */
  #isFree = false
  #timer: NodeJS.Timeout | undefined

  constructor(options: HandOverOptions) {
    this.#options = options
  }

  /** Awaits the tables of these families, and no others. @param taken port ids of the sockets that have them */
  await(taken: ReadonlyMap<IpFamily, number>): void {
    const { log, now } = this.#options
    for (const [ipFamily, wait] of this.#waits) if (!taken.has(ipFamily)) this.#end(ipFamily, wait)
    for (const [ipFamily, portId] of taken) {
      if (this.#waits.get(ipFamily)?.portId === portId) continue
      log.info('Another process owns the rules; waiting until it ends', { ipFamily, portId })
      this.#waits.set(ipFamily, { portId, sinceMs: now(), isReported: false })
    }
    this.#isFree = false
    this.#reportLong()
    this.#schedule()
  }

  close(): void {
    this.#abort.abort()
    clearTimeout(this.#timer)
  }

  #end(ipFamily: IpFamily, { sinceMs, isReported }: Wait): void {
    const { log, now, problems } = this.#options
    this.#waits.delete(ipFamily)
    log.info('The rules can be written again', { ipFamily, waited: `${((now() - sinceMs) / 1000).toFixed(1)}s` })
    if (isReported) problems.report('nftables', subjectOf(ipFamily), [])
  }

  #reportLong(): void {
    const nowMs = this.#options.now()
    for (const [family, wait] of this.#waits) {
      if (wait.isReported || nowMs - wait.sinceMs < LONG_WAIT_MS) continue
      wait.isReported = true
      const subject = subjectOf(family)
      const { code, message } = ownedByOther(family, wait.portId)
      const effect = 'Services stay as it has written them until it ends'
      this.#options.problems.report('nftables', subject, [
        { code, about: 'node', subject, message: `${message}: ${effect}` },
      ])
    }
  }

  #schedule(): void {
    if (this.#waits.size === 0 || this.#isFree || this.#timer !== undefined || this.#abort.signal.aborted) return
    this.#timer = setTimeout(() => void this.#look(), LOOK_MS)
  }

  async #look(): Promise<void> {
    const { table, onFree } = this.#options
    const keys = Array.from(this.#waits.keys(), (family) => NFT_FAMILY[family])
    try {
      const found = await table.list(keys, this.#abort.signal)
      const isTaken = (key: string): boolean => {
        const item = found.get(key)
        return item?.kind === 'table' && item.takenBy !== undefined
      }
      if (!keys.every(isTaken)) {
        this.#isFree = true
        onFree()
      }
    } catch {
      // Cannot be read now: looked at again.
    } finally {
      this.#timer = undefined
      if (!this.#abort.signal.aborted) this.#reportLong()
      this.#schedule()
    }
  }
}

function subjectOf(family: IpFamily): string {
  return `table ${NFT_FAMILY[family]}`
}
