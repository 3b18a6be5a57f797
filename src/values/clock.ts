/** The clock for waits and deadlines, and its times; callers pass it in, so that tests can set it. */

/** Milliseconds since an arbitrary moment; never decreases (`performance.now`). */
export type Clock = () => number

/** The first of some times; undefined is never. */
export function earliest(...times: readonly (number | undefined)[]): number | undefined {
  let first: number | undefined
  for (const time of times) if (time !== undefined && (first === undefined || time < first)) first = time
  return first
}
