/**
 * Frontends by what owns them (a Service or a Service port), and which owners have changed. An owner
 * has something to say as long as it has any frontend, so frontends are stored by key.
 */
import type { Frontend, FrontendKey } from './frontends.ts'

export class FrontendsByOwner<Owner extends string> {
  readonly #ownerOf: (frontend: Frontend) => Owner | undefined
  readonly #owners = new Map<FrontendKey, Owner>()
  readonly #frontends = new Map<Owner, Map<FrontendKey, Frontend>>()
  readonly #changed = new Set<Owner>()

  /** @param ownerOf undefined: the frontend is of no interest */
  constructor(ownerOf: (frontend: Frontend) => Owner | undefined) {
    this.#ownerOf = ownerOf
  }

  /** Sets the frontend that has `key`, or undefined for none. */
  set(key: FrontendKey, frontend: Frontend | undefined): void {
    const before = this.#owners.get(key)
    const owner = frontend && this.#ownerOf(frontend)
    if (before !== undefined && before !== owner) this.#remove(key, before)
    if (frontend === undefined || owner === undefined) return
    this.#owners.set(key, owner)
    const own = this.#frontends.get(owner)
    if (own === undefined) this.#frontends.set(owner, new Map([[key, frontend]]))
    else own.set(key, frontend)
    this.#changed.add(owner)
  }

  /** The owners that have changed since the last call, each with one of its frontends; undefined: it has none any more. */
  takeChanged(): readonly (readonly [owner: Owner, frontend: Frontend | undefined])[] {
    const changed = Array.from(this.#changed, (owner) => [owner, this.#anyOf(owner)] as const)
    this.#changed.clear()
    return changed
  }

  #anyOf(owner: Owner): Frontend | undefined {
    const [frontend] = this.#frontends.get(owner)?.values() ?? []
    return frontend
  }

  #remove(key: FrontendKey, owner: Owner): void {
    this.#owners.delete(key)
    const own = this.#frontends.get(owner)
    own?.delete(key)
    if (own?.size === 0) this.#frontends.delete(owner)
    this.#changed.add(owner)
  }
}
