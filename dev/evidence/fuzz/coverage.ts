/**
 * Which parts of the program have run, as V8 counts them by block: whether inputs reached something
 * that none before them did. One look takes some milliseconds, so many inputs are looked at
 * together, and those that reached it are found by halving.
 */
import { Session } from 'node:inspector/promises'

type Range = readonly [start: number, end: number]
/** By function: the parts of it that have not run. */
type Missing = ReadonlyMap<string, readonly Range[]>

const PROGRAM = /\/(?:src|native)\//

export class Coverage {
  readonly #session = new Session()
  readonly #missing = new Map<string, readonly Range[]>()

  async start(): Promise<void> {
    this.#session.connect()
    await this.#session.post('Profiler.enable')
    await this.#session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true })
  }

  async stop(): Promise<void> {
    await this.#session.post('Profiler.stopPreciseCoverage')
    this.#session.disconnect()
  }

  get missing(): number {
    let n = 0
    for (const r of this.#missing.values()) n += sizeOf(r)
    return n
  }
  /** Begins again, for another target: V8 counts rightly only from the first start in a process. */
  forget(): void {
    this.#missing.clear()
  }

  /** What ran since the last look and had not run when `keep` was called. */
  async #look(): Promise<Missing> {
    const { result } = await this.#session.post('Profiler.takePreciseCoverage')
    const grown = new Map<string, readonly Range[]>()
    for (const { url, functions } of result) {
      if (!PROGRAM.test(url)) continue
      for (const { ranges } of functions) {
        const [whole] = ranges
        if (whole === undefined || whole.count === 0) continue
        const key = `${url}:${whole.startOffset}:${whole.endOffset}`
        const unused = ranges
          .filter(({ count }) => count === 0)
          .map(({ startOffset, endOffset }): Range => [startOffset, endOffset])
        const before = this.#missing.get(key)
        const left = before === undefined ? unused : intersection(before, unused)
        if (before === undefined || sizeOf(left) < sizeOf(before)) grown.set(key, left)
      }
    }
    return grown
  }

  /**
   * Runs all inputs, and returns a few of them that together reached what none before had. What all
   * of them reached counts as known afterwards.
   */
  async reaching(inputs: readonly Uint8Array[], run: (input: Uint8Array) => Promise<void>): Promise<Uint8Array[]> {
    for (const input of inputs) await run(input)
    const grown = await this.#look()
    if (grown.size === 0) return []
    const [only] = inputs
    if (inputs.length === 1 && only !== undefined) {
      for (const [key, left] of grown) this.#missing.set(key, left)
      return [only]
    }
    const half = Math.ceil(inputs.length / 2)
    return [...(await this.reaching(inputs.slice(0, half), run)), ...(await this.reaching(inputs.slice(half), run))]
  }
}

function sizeOf(ranges: readonly Range[]): number {
  return ranges.reduce((sum, [start, end]) => sum + end - start, 0)
}

/** What is in a range of both lists. */
function intersection(a: readonly Range[], b: readonly Range[]): readonly Range[] {
  return a.flatMap(([start, end]) =>
    b.flatMap(([from, to]): Range[] => {
      const [first, last] = [Math.max(start, from), Math.min(end, to)]
      return first < last ? [[first, last]] : []
    }),
  )
}
