/** The time limits of a reflector: how long a watch may be silent, and how long to wait after failures. */

/** Time limits, all in milliseconds with a default. Tests shorten them. */
export interface ReflectorTimes {
  /** A watch without even a bookmark for so long is dead. API servers send one a minute. Default 150,000. */
  readonly inactivityMs?: number
  /**
   * The same where nothing else tells that the server lives (HTTP/1.1); default 75,000. It
   * continues without a list.
   */
  readonly unpingedMs?: number
  /**
   * The same during a streaming list, which never ends on a server that ignores
   * `sendInitialEvents`. Default 30,000.
   */
  readonly initialInactivityMs?: number
  /** A watch that lasted this long was healthy, even if it ended with an error. Default 30,000. */
  readonly healthyMs?: number
  /** First wait after a failure. Default 800. */
  readonly backoffFirstMs?: number
  /** Longest wait after a failure; jitter makes it up to twice as long. Default 30,000. */
  readonly backoffMaxMs?: number
}

/** These times, with the defaults for those that are absent. */
export function reflectorTimes(times: ReflectorTimes = {}): Required<ReflectorTimes> {
  const { inactivityMs = 150_000, unpingedMs = 75_000, initialInactivityMs = 30_000, healthyMs = 30_000 } = times
  // The limits of client-go's reflector.
  const { backoffFirstMs = 800, backoffMaxMs = 30_000 } = times
  return {
    inactivityMs,
    unpingedMs: Math.min(unpingedMs, inactivityMs),
    initialInactivityMs,
    healthyMs,
    backoffFirstMs,
    backoffMaxMs,
  }
}
