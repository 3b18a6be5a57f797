/** CLOCK_MONOTONIC in milliseconds: the same in every process of a kernel, which performance.now() is not. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}
