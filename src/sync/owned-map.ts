/**
 * Which owner has which key: each key has its claims in a fixed order, and the first claim wins in
 * all tables. The order (rank, then age, then the owner's name) is total and depends on nothing
 * else, or two passes would choose differently.
 *
 *     winners   key -> claim                one claim for each key, the common case
 *     others    key -> claim, claim, …      only keys that several owners claim
 */

import { WaitingClaims } from './waiting-claims.ts'

/** What one owner wants at one key. */
export interface Claim<Value> {
  readonly owner: string
  /** How good the claim is, independent of the owner: the lowest rank wins. */
  readonly rank: number
  /** Among claims of one rank the lowest wins: the creation time, so that the oldest Service wins. */
  readonly since: number
  readonly value: Value
}

/** A claim that lost to another claim, for reports. */
export interface Loss<Key> {
  readonly key: Key
  readonly winner: string
  readonly loser: string
}

/** New losses that are remembered until the next `takeNewLosses`; further ones are only counted. */
const MAX_NEW_LOSSES = 100

function precedes(a: Claim<unknown>, b: Claim<unknown>): boolean {
  if (a.rank !== b.rank) return a.rank < b.rank
  return a.since !== b.since ? a.since < b.since : a.owner < b.owner
}

/**
 * Keys claimed by owners; an owner has at most one claim at a key. The cost of an operation does
 * not depend on the number of keys.
 */
export class OwnedMap<Key, Value> {
  readonly #winners = new Map<Key, Claim<Value>>()
  readonly #others = new Map<Key, WaitingClaims<Claim<Value>>>()
  readonly #same: (a: Value, b: Value) => boolean
  #lossCount = 0
  #newLosses: { readonly key: Key; readonly loser: string }[] = []

  /** @param same whether two values are equal to the users of this map */
  constructor(same: (a: Value, b: Value) => boolean) {
    this.#same = same
  }

  /**
   * Makes a claim, in place of the owner's earlier one at this key. Returns whether the winner or
   * its value changed.
   */
  claim(key: Key, claim: Claim<Value>): boolean {
    const before = this.#winners.get(key)
    if (before?.owner === claim.owner && (!this.#others.has(key) || isAtSamePlace(before, claim))) {
      this.#winners.set(key, claim)
      return !this.#same(before.value, claim.value)
    }
    const hadLost = this.#remove(key, claim.owner) && before?.owner !== claim.owner
    this.#insert(key, claim)
    const after = this.#winners.get(key)
    if (after?.owner !== claim.owner && !hadLost) this.#note(key, claim.owner)
    if (after?.owner === claim.owner && before !== undefined && before.owner !== claim.owner)
      this.#note(key, before.owner)
    return this.#differs(before, after)
  }

  /** Removes the owner's claim at this key, if there is one. Returns whether the winner or its value changed. */
  withdraw(key: Key, owner: string): boolean {
    const before = this.#winners.get(key)
    this.#remove(key, owner)
    return this.#differs(before, this.#winners.get(key))
  }

  /** The winning value. */
  get(key: Key): Value | undefined {
    return this.#winners.get(key)?.value
  }

  /** The owner of the winning claim. */
  winner(key: Key): string | undefined {
    return this.#winners.get(key)?.owner
  }

  /** All claims at this key, the winner first, then in the order in which they would follow. */
  claims(key: Key): readonly Claim<Value>[] {
    const winner = this.#winners.get(key)
    return winner === undefined ? [] : [winner, ...(this.#others.get(key)?.inOrder() ?? [])]
  }

  /**
   * Every key with its winning claim, in the order in which the keys were first claimed. It follows
   * changes while it is read.
   */
  winners(): Iterable<readonly [Key, Claim<Value>]> {
    return this.#winners
  }

  /** Every key that several owners claim. It follows changes while it is read. */
  contested(): Iterable<Key> {
    return this.#others.keys()
  }

  /** How many keys have a claim. */
  get size(): number {
    return this.#winners.size
  }

  /** How many claims have lost to another claim. */
  get lossCount(): number {
    return this.#lossCount
  }

  /** Claims that lost since the last call and still lose, each once; at most MAX_NEW_LOSSES of them. */
  takeNewLosses(): readonly Loss<Key>[] {
    const noted = this.#newLosses
    if (noted.length === 0) return []
    this.#newLosses = []
    const seen = new Set<string>()
    return noted.flatMap(({ key, loser }) => {
      const winner = this.winner(key)
      const text = `${loser} ${key}`
      if (winner === undefined || seen.has(text) || !this.#isLoser(key, loser)) return []
      seen.add(text)
      return { key, winner, loser }
    })
  }

  #note(key: Key, loser: string): void {
    if (this.#newLosses.length < MAX_NEW_LOSSES) this.#newLosses.push({ key, loser })
  }

  #isLoser(key: Key, owner: string): boolean {
    return this.#others.get(key)?.has(owner) === true
  }

  #differs(before: Claim<Value> | undefined, after: Claim<Value> | undefined): boolean {
    if (before === after) return false
    if (before === undefined || after === undefined || before.owner !== after.owner) return true
    return !this.#same(before.value, after.value)
  }

  #insert(key: Key, claim: Claim<Value>): void {
    const winner = this.#winners.get(key)
    if (winner === undefined) {
      this.#winners.set(key, claim)
      return
    }
    let loser = claim
    if (precedes(claim, winner)) {
      this.#winners.set(key, claim)
      loser = winner
    }
    this.#lossCount++
    let others = this.#others.get(key)
    if (others === undefined) this.#others.set(key, (others = new WaitingClaims<Claim<Value>>(precedes)))
    others.add(loser)
  }

  /** Returns whether the owner had a claim. */
  #remove(key: Key, owner: string): boolean {
    const others = this.#others.get(key)
    if (this.#winners.get(key)?.owner === owner) {
      const next = others?.takeFirst()
      if (next === undefined) this.#winners.delete(key)
      else this.#winners.set(key, next)
      if (next !== undefined) this.#lossCount--
    } else {
      if (others?.remove(owner) !== true) return false
      this.#lossCount--
    }
    if (others?.size === 0) this.#others.delete(key)
    return true
  }
}

function isAtSamePlace(a: Claim<unknown>, b: Claim<unknown>): boolean {
  return a.rank === b.rank && a.since === b.since
}
