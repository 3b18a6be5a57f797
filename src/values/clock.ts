/** The clock for waits and deadlines, and its times; callers pass it in, so that tests can set it. */

/** Milliseconds since an arbitrary moment; never decreases (`performance.now`). */
export type Clock = () => number

/** The earlier of two times; undefined is never. */
export function earliest(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined || other === undefined ? (one ?? other) : Math.min(one, other)
}
