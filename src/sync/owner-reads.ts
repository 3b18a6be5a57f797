/** Which fields of NodeContext the frontends of each owner (Service) depend on. */
import { READS_LOCAL_ADDRESSES } from '../service/node-context.ts'

export class OwnerReads {
  /** READS_* bits, without owners that read READS_LOCAL_ADDRESSES only: nearly all. */
  readonly #reads = new Map<string, number>()

  set(owner: string, reads: number): void {
    if (reads === READS_LOCAL_ADDRESSES) this.#reads.delete(owner)
    else this.#reads.set(owner, reads)
  }

  /** READS_* bits. */
  of(owner: string): number {
    return this.#reads.get(owner) ?? READS_LOCAL_ADDRESSES
  }
}
