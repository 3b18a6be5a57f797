/** Slices by the Service that owns them. An owner with one slice, as nearly all have, holds the slice itself. */
import type { EndpointSlice } from '../service/objects.ts'

const NONE: readonly EndpointSlice[] = []

export class OwnedSlices {
  /** By owner, then by their own key. */
  readonly #slices = new Map<string, EndpointSlice | Map<string, EndpointSlice>>()
  readonly #owners = new Map<string, string>()

  /** Applies one change. Returns the owners that have other slices now: it may have moved from one to another. */
  apply(key: string, slice: EndpointSlice | undefined): readonly string[] {
    const owner = slice === undefined ? undefined : `${slice.namespace}/${slice.serviceName}`
    const before = this.#owners.get(key)
    const changed: string[] = []
    if (before !== undefined && before !== owner) {
      this.#remove(before, key)
      changed.push(before)
    }
    if (owner === undefined || slice === undefined) {
      this.#owners.delete(key)
      return changed
    }
    this.#owners.set(key, owner)
    this.#add(owner, key, slice)
    changed.push(owner)
    return changed
  }

  /** The slice of this key (`namespace/name`) as last applied. */
  get(key: string): EndpointSlice | undefined {
    const owner = this.#owners.get(key)
    const there = owner === undefined ? undefined : this.#slices.get(owner)
    return there instanceof Map ? there.get(key) : there
  }

  of(owner: string): readonly EndpointSlice[] {
    const there = this.#slices.get(owner)
    if (there === undefined) return NONE
    return there instanceof Map ? [...there.values()] : [there]
  }

  /** Every slice, those of one owner together. It follows changes while it is read. */
  *values(): Generator<EndpointSlice, void, void> {
    for (const there of this.#slices.values())
      if (there instanceof Map) yield* there.values()
      else yield there
  }

  #add(owner: string, key: string, slice: EndpointSlice): void {
    const there = this.#slices.get(owner)
    if (there instanceof Map) there.set(key, slice)
    else if (there === undefined || sliceKeyOf(there) === key) this.#slices.set(owner, slice)
    else
      this.#slices.set(
        owner,
        new Map([
          [sliceKeyOf(there), there],
          [key, slice],
        ]),
      )
  }

  #remove(owner: string, key: string): void {
    const there = this.#slices.get(owner)
    if (there instanceof Map) {
      there.delete(key)
      if (there.size === 0) this.#slices.delete(owner)
    } else this.#slices.delete(owner)
  }
}

/** The key of a slice: `namespace/name`. */
export function sliceKeyOf(slice: EndpointSlice): string {
  return `${slice.namespace}/${slice.name}`
}
