/** Makes inputs out of a corpus, runs them one after the other, and keeps what is wrong with them. */
import { changeBytes, type Material } from './byte-changes.ts'
import { type Find, judge, type Limits, LIMITS } from './judge.ts'
import { changeJson } from './json-changes.ts'
import { minimise } from './minimise.ts'
import { Random } from './random.ts'
import type { Target } from './target.ts'
import { changeText } from './text-changes.ts'
import { changeTree } from './tree-changes.ts'
import { netlinkFormat, PROTOBUF_FORMAT } from './trees.ts'

export const DEFAULT_MAX_BYTES = 16 * 1024

/** An input that shows something wrong. */
export interface Failure extends Find {
  readonly target: string
  readonly input: Uint8Array
}

/** Finds of one target that are kept; one cause is kept once. */
const MAX_FAILURES = 20
/** How often bytes are changed without regard to the form. */
const BYTES_ONE_IN = 5

/** The inputs of one target, one after the other. */
export class Fuzzer {
  readonly target: Target
  /** The corpus, and inputs that reached something new. */
  readonly pool: Uint8Array[]
  readonly failures = new Map<string, Failure>()
  inputs = 0
  bytes = 0
  readonly #random: Random
  readonly #material: Material
  readonly #limits: Limits
  /** Called with each input before it runs. */
  onBegin: ((target: string, input: Uint8Array) => void) | undefined

  constructor(target: Target, corpus: readonly Uint8Array[], seed: number, limits = LIMITS) {
    this.target = target
    this.pool = corpus.length === 0 ? [Uint8Array.of(0)] : [...corpus]
    this.#random = new Random(seed)
    this.#limits = limits
    const words = (target.words ?? []).map((word) => new Uint8Array(Buffer.from(word)))
    this.#material = { pool: this.pool, words, maxBytes: target.maxBytes ?? DEFAULT_MAX_BYTES }
  }

  /** The next input, by the form of the target. */
  next(): Uint8Array {
    const random = this.#random
    let input = random.pick(this.pool)
    // A change of a change reaches further.
    for (let rounds = random.isOneIn(4) ? 1 + random.below(4) : 1; rounds > 0; rounds--) input = this.#changed(input)
    return input
  }

  #changed(input: Uint8Array): Uint8Array {
    const [random, material] = [this.#random, this.#material]
    if (random.isOneIn(BYTES_ONE_IN)) return changeBytes(random, input, material)
    switch (this.target.form) {
      case 'netlink':
        return (
          changeTree(random, netlinkFormat(this.target.headerBytes ?? 0), input, material) ??
          changeBytes(random, input, material)
        )
      case 'protobuf':
        return changeTree(random, PROTOBUF_FORMAT, input, material) ?? changeBytes(random, input, material)
      case 'json':
        return changeJson(random, input, material) ?? changeText(random, input, material)
      case 'text':
        return changeText(random, input, material)
      case 'bytes':
        return changeBytes(random, input, material)
    }
  }

  /** Runs one input, and keeps what is wrong with it unless its cause is known. */
  async try(input: Uint8Array): Promise<void> {
    this.inputs++
    this.bytes += input.length
    this.onBegin?.(this.target.name, input)
    const found = await judge(this.target, input, this.#limits)
    if (found === undefined || this.failures.has(found.key) || this.failures.size >= MAX_FAILURES) return
    const again = (candidate: Uint8Array): Promise<Find | undefined> => judge(this.target, candidate, this.#limits)
    const isSlow = found.kind === 'time' || found.kind === 'memory'
    const least = await minimise(input, found.key, again, isSlow ? 40 : undefined)
    this.failures.set(found.key, { ...((await again(least)) ?? found), target: this.target.name, input: least })
  }

  /** The corpus as it is. */
  async tryCorpus(): Promise<void> {
    for (const input of this.pool) await this.try(input)
  }

  /** Changed inputs, until so many were run, or until the time is over. */
  async run(limit: { readonly inputs?: number; readonly milliseconds?: number }): Promise<void> {
    const { inputs = Number.POSITIVE_INFINITY, milliseconds = Number.POSITIVE_INFINITY } = limit
    const end = performance.now() + milliseconds
    for (let count = 0; count < inputs && performance.now() < end; count++) await this.try(this.next())
  }
}
