/**
 * Who holds which key: for each key its claimants in a fixed order, of which the first wins everywhere.
 * What could break: the order (rank, then owner's name) must be total and depend on nothing else, or two passes choose
 * differently; and `set` may cost only as much as the owner's own keys.
 *
 *     winners   key -> claim                one claim a key, the common case
 *     others    key -> claim, claim, …      only keys that several owners want, in order
 *     records   owner -> rank, its keys
 */

interface OwnerRecord<Key> {
  readonly owner: string
  readonly rank: number
  readonly keys: readonly Key[]
}

interface Claim<Key, Value> {
  readonly record: OwnerRecord<Key>
  readonly value: Value
}

/** A claim that does not count, as reports name it. */
export interface Loss<Key> {
  readonly key: Key
  readonly winner: string
  readonly loser: string
}

function comesBefore<Key>(a: OwnerRecord<Key>, b: OwnerRecord<Key>): boolean {
  return a.rank !== b.rank ? a.rank < b.rank : a.owner < b.owner
}

/** Index of the first claim that does not come before `record`: where it is, or belongs. */
function positionOf<Key, Value>(claims: readonly Claim<Key, Value>[], record: OwnerRecord<Key>): number {
  let low = 0
  let high = claims.length
  while (low < high) {
    const middle = (low + high) >>> 1
    const claim = claims[middle]
    if (claim !== undefined && comesBefore(claim.record, record)) low = middle + 1
    else high = middle
  }
  return low
}

/** Keys claimed by owners. The lowest rank wins (a creation time: the oldest), then the first name in code unit order. */
export class OwnedMap<Key, Value> {
  readonly #winners = new Map<Key, Claim<Key, Value>>()
  readonly #others = new Map<Key, Claim<Key, Value>[]>()
  readonly #records = new Map<string, OwnerRecord<Key>>()

  /**
   * Replaces all that `owner` claims; undefined or an empty map takes everything back. Returns the keys whose winner or
   * whose winning value changed (by `same`), each once. The new values are kept even where they are the same.
   */
  set(
    owner: string,
    rank: number,
    contribution: ReadonlyMap<Key, Value> | undefined,
    same: (a: Value, b: Value) => boolean,
  ): readonly Key[] {
    const old = this.#records.get(owner)
    const wanted = contribution !== undefined && contribution.size > 0 ? contribution : undefined
    const changed: Key[] = []
    const note = (key: Key, before: Claim<Key, Value> | undefined): void => {
      const after = this.#winners.get(key)
      if (before === after) return
      if (before?.record.owner !== after?.record.owner) changed.push(key)
      else if (before !== undefined && after !== undefined && !same(before.value, after.value)) changed.push(key)
    }
    for (const key of old?.keys ?? []) {
      if (old === undefined || wanted?.has(key) === true) continue
      const before = this.#winners.get(key)
      this.#withdraw(key, old)
      note(key, before)
    }
    if (wanted === undefined) {
      this.#records.delete(owner)
      return changed
    }
    const record: OwnerRecord<Key> = { owner, rank, keys: Array.from(wanted.keys()) }
    this.#records.set(owner, record)
    for (const [key, value] of wanted) {
      const before = this.#winners.get(key)
      if (old !== undefined && before?.record === old && (rank === old.rank || !this.#others.has(key))) {
        // It wins as before: no need to look at the others, and the map keeps its slot.
        this.#winners.set(key, { record, value })
      } else {
        if (old !== undefined) this.#withdraw(key, old)
        this.#claim(key, { record, value })
      }
      note(key, before)
    }
    return changed
  }

  /** The winning value. */
  get(key: Key): Value | undefined {
    return this.#winners.get(key)?.value
  }

  /** The owner that has the key. */
  winner(key: Key): string | undefined {
    return this.#winners.get(key)?.record.owner
  }

  /** How many keys are claimed by anyone. */
  get size(): number {
    return this.#winners.size
  }

  /** All keys that are claimed by anyone, in no particular order. */
  keys(): IterableIterator<Key> {
    return this.#winners.keys()
  }

  /** All owners that claim something, in no particular order. */
  get owners(): IterableIterator<string> {
    return this.#records.keys()
  }

  /** The keys that the owner claims, won or not; none for an unknown owner. */
  keysOf(owner: string): readonly Key[] {
    return this.#records.get(owner)?.keys ?? []
  }

  /** Every claim that lost, keys in no particular order, the losers of one key in theirs. Costs as much as there are. */
  *losers(): Generator<Loss<Key>, void, undefined> {
    for (const [key, claims] of this.#others) {
      const winner = this.winner(key)
      if (winner === undefined) continue
      for (const { record } of claims) yield { key, winner, loser: record.owner }
    }
  }

  #claim(key: Key, claim: Claim<Key, Value>): void {
    const winner = this.#winners.get(key)
    if (winner === undefined) {
      this.#winners.set(key, claim)
      return
    }
    let loser = claim
    if (comesBefore(claim.record, winner.record)) {
      this.#winners.set(key, claim)
      loser = winner
    }
    const others = this.#others.get(key)
    if (others === undefined) this.#others.set(key, [loser])
    else others.splice(positionOf(others, loser.record), 0, loser)
  }

  #withdraw(key: Key, record: OwnerRecord<Key>): void {
    const others = this.#others.get(key)
    if (this.#winners.get(key)?.record === record) {
      const next = others?.shift()
      if (next === undefined) this.#winners.delete(key)
      else this.#winners.set(key, next)
    } else if (others !== undefined) {
      const position = positionOf(others, record)
      if (others[position]?.record === record) others.splice(position, 1)
    }
    if (others?.length === 0) this.#others.delete(key)
  }
}
