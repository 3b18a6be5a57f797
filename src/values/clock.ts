/** The clock for waits and deadlines; callers pass it in, so that tests can set it. */

/** Milliseconds since an arbitrary moment; never decreases (`performance.now`). */
export type Clock = () => number
