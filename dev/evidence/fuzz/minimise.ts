/** Makes an input that shows a find shorter, as long as it shows the same one. */
import type { Find } from './judge.ts'

/** Runs that one input may take; slow inputs take three each. */
const MAX_RUNS = 400

/** The shortest input that was found. @param find what an input shows */
export async function minimise(
  input: Uint8Array,
  key: string,
  find: (candidate: Uint8Array) => Promise<Find | undefined>,
  maxRuns = MAX_RUNS,
): Promise<Uint8Array> {
  let best = input
  let runs = 0
  for (let size = Math.ceil(best.length / 2); size >= 1 && runs < maxRuns; ) {
    let isShorter = false
    for (let at = 0; at < best.length && runs < maxRuns; ) {
      const candidate = new Uint8Array(Buffer.concat([best.subarray(0, at), best.subarray(at + size)]))
      runs++
      if ((await find(candidate))?.key === key) {
        best = candidate
        isShorter = true
      } else at += size
    }
    if (!isShorter || size > best.length) size = size === 1 ? 0 : Math.min(Math.ceil(size / 2), best.length)
  }
  return best
}
