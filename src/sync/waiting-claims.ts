/**
 * The claims at one key that have lost, by owner, with the one that would follow at hand. A heap,
 * because thousands of Services may claim one address and port: each change takes time by the
 * logarithm of their number. A claim that was taken back stays in the heap until it comes to the
 * top, or until most of the heap is such claims.
 */
/** A heap of fewer claims is not worth being rebuilt. */
const SMALL = 16

export class WaitingClaims<Claim extends { readonly owner: string }> {
  readonly #byOwner = new Map<string, Claim>()
  readonly #precedes: (a: Claim, b: Claim) => boolean
  /** The first precedes all; the children of the claim at `i` are at `2i + 1` and `2i + 2`. */
  #heap: Claim[] = []

  /** @param precedes a total order */
  constructor(precedes: (a: Claim, b: Claim) => boolean) {
    this.#precedes = precedes
  }

  get size(): number {
    return this.#byOwner.size
  }

  has(owner: string): boolean {
    return this.#byOwner.has(owner)
  }

  inOrder(): Claim[] {
    return Array.from(this.#byOwner.values()).sort((a, b) => (this.#precedes(a, b) ? -1 : 1))
  }

  /** Adds the claim of an owner that has none here. */
  add(claim: Claim): void {
    this.#byOwner.set(claim.owner, claim)
    this.#push(claim)
  }

  /** Removes the claim of this owner; returns whether it had one. */
  remove(owner: string): boolean {
    if (!this.#byOwner.delete(owner)) return false
    if (this.#heap.length > SMALL && this.#heap.length > 2 * this.#byOwner.size) this.#rebuild()
    return true
  }

  /** Removes the first claim and returns it; undefined when there is none. */
  takeFirst(): Claim | undefined {
    for (;;) {
      const first = this.#pop()
      if (first === undefined || this.#byOwner.get(first.owner) === first) {
        if (first !== undefined) this.#byOwner.delete(first.owner)
        return first
      }
    }
  }

  #rebuild(): void {
    // A sorted list is a heap.
    this.#heap = this.inOrder()
  }

  #push(claim: Claim): void {
    let at = this.#heap.push(claim) - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      const above = this.#heap[parent]
      if (above === undefined || !this.#precedes(claim, above)) break
      this.#heap[at] = above
      at = parent
    }
    this.#heap[at] = claim
  }

  #pop(): Claim | undefined {
    const [first] = this.#heap
    const last = this.#heap.pop()
    if (last === undefined || first === undefined || this.#heap.length === 0) return first
    let at = 0
    for (;;) {
      const child = this.#smallerChild(at)
      const below = child === undefined ? undefined : this.#heap[child]
      if (child === undefined || below === undefined || !this.#precedes(below, last)) break
      this.#heap[at] = below
      at = child
    }
    this.#heap[at] = last
    return first
  }

  /** The index of the child that precedes the other. */
  #smallerChild(at: number): number | undefined {
    const [left, right] = [2 * at + 1, 2 * at + 2]
    const [one, other] = [this.#heap[left], this.#heap[right]]
    if (one === undefined) return undefined
    return other !== undefined && this.#precedes(other, one) ? right : left
  }
}
