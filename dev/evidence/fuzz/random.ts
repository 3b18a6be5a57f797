/** Pseudo-random numbers from a seed (xoshiro128**): the same seed makes the same inputs on every machine. */

export class Random {
  #a: number
  #b: number
  #c: number
  #d: number

  constructor(seed: number) {
    // splitmix32: a seed with few bits, such as 0, must not begin with zeros.
    let state = seed >>> 0
    const part = (): number => {
      state = (state + 0x9e3779b9) >>> 0
      let mixed = Math.imul(state ^ (state >>> 16), 0x21f0aaad)
      mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97)
      return (mixed ^ (mixed >>> 15)) >>> 0
    }
    ;[this.#a, this.#b, this.#c, this.#d] = [part(), part(), part(), part()]
  }

  /** A whole number of 32 bits. */
  next(): number {
    const scaled = Math.imul(this.#b, 5)
    const result = Math.imul((scaled << 7) | (scaled >>> 25), 9) >>> 0
    const shifted = this.#b << 9
    this.#c ^= this.#a
    this.#d ^= this.#b
    this.#b ^= this.#c
    this.#a ^= this.#d
    this.#c ^= shifted
    this.#d = (this.#d << 11) | (this.#d >>> 21)
    return result
  }

  /** A whole number from 0 up to, but not with, `limit`. */
  below(limit: number): number {
    return Math.floor((this.next() / 0x1_0000_0000) * limit)
  }

  /** True once in `times`. */
  isOneIn(times: number): boolean {
    return this.below(times) === 0
  }

  pick<T>(list: readonly T[]): T {
    if (list.length === 0) throw new RangeError('nothing to pick from')
    return list[this.below(list.length)] as T // it is in the list
  }

  /** A length that is usually short, and now and then as long as `limit`. */
  length(limit: number): number {
    return 1 + this.below(Math.min(limit, 2 ** (1 + this.below(1 + Math.ceil(Math.log2(Math.max(2, limit)))))))
  }
}
