/**
 * Waits until a table does not belong to another process of ours any more: the kernel announces
 * nothing when a socket that owns a table is closed, so the table alone is read again and again.
 */
import { NFT_FAMILY, type NftItem, type NftOperation } from '../../../nftables/types.ts'
import type { TableIo } from '../../../sync/table.ts'
import type { IpFamily } from '../../../values/protocol.ts'

/** Between two looks, in milliseconds: for this long after the other process ended nobody may write. */
const LOOK_MS = 100

export interface HandOverOptions {
  readonly table: Pick<TableIo<NftItem, NftOperation>, 'list'>
  /** A table that was awaited can be had. */
  readonly onFree: () => void
}

export class HandOver {
  readonly #options: HandOverOptions
  readonly #abort = new AbortController()
  #awaited: readonly string[] = []
  #timer: NodeJS.Timeout | undefined

  constructor(options: HandOverOptions) {
    this.#options = options
  }

  /** Awaits the tables of these families, and no others. */
  await(families: ReadonlySet<IpFamily>): void {
    this.#awaited = Array.from(families, (family) => NFT_FAMILY[family])
    this.#schedule()
  }

  close(): void {
    this.#abort.abort()
    clearTimeout(this.#timer)
  }

  #schedule(): void {
    if (this.#awaited.length === 0 || this.#timer !== undefined || this.#abort.signal.aborted) return
    this.#timer = setTimeout(() => void this.#look(), LOOK_MS)
  }

  async #look(): Promise<void> {
    const { table, onFree } = this.#options
    const keys = this.#awaited
    try {
      const found = await table.list(keys, this.#abort.signal)
      const isFree = keys.some((key) => {
        const item = found.get(key)
        return item?.kind !== 'table' || item.isTaken !== true
      })
      // The pass that follows says what is still awaited.
      if (isFree) {
        this.#awaited = []
        onFree()
      }
    } catch {
      // Cannot be read now: looked at again.
    } finally {
      this.#timer = undefined
      this.#schedule()
    }
  }
}
