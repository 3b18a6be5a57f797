/**
 * Which addresses belong on kube-ipvs0: those of the frontends that are to be bound, each once, however many need it.
 * What could break: the count of each address; an address stays until its last frontend is gone.
 */
import type { FrontendKey } from '../service/frontends.ts'
import { addressOfKey } from './key.ts'

export class WantedAddresses {
  readonly #bound = new Set<FrontendKey>()
  readonly #counts = new Map<string, number>()

  /** Whether the address of this frontend is to be bound for its sake. Returns the address when it is now wanted or no longer wanted at all. */
  set(key: FrontendKey, bind: boolean): { readonly address: string; readonly wanted: boolean } | undefined {
    if (bind === this.#bound.has(key)) return undefined
    const address = addressOfKey(key)
    const before = this.#counts.get(address) ?? 0
    if (bind) {
      this.#bound.add(key)
      this.#counts.set(address, before + 1)
      return before === 0 ? { address, wanted: true } : undefined
    }
    this.#bound.delete(key)
    if (before > 1) this.#counts.set(address, before - 1)
    else this.#counts.delete(address)
    return before === 1 ? { address, wanted: false } : undefined
  }
}
