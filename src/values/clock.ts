/** The clock that waits and deadlines are measured on; it is handed in, so that tests can set it. */

/** Milliseconds since an arbitrary moment; it never goes back (`performance.now`). */
export type Clock = () => number
