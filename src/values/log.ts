/**
 * What every layer may know of logging: a message, fields, a component. How lines look and where they go is `serve/log.ts`.
 * What could break: callers build fields before the call, so guard costly ones with `v(level)`.
 */

/** Structured values of one line, printed as `key="value"` in text and as JSON members in JSON. */
export type LogFields = Readonly<Record<string, unknown>>

/** Messages are constant texts (they are counted and compared); everything that varies goes into fields. */
export interface Log {
  info(message: string, fields?: LogFields): void
  warn(message: string, fields?: LogFields): void
  error(message: string, fields?: LogFields): void
  /** Whether lines of this verbosity are wanted (klog's -v): 0 always, 2 steady state, 4 debugging, 6 every message. */
  v(level: number): boolean
  /** The same log with another component name in front of each line: `ipvs`, `watch`. */
  child(component: string): Log
}

/** A log that drops everything. */
export const silentLog: Log = {
  info: () => {},
  warn: () => {},
  error: () => {},
  v: () => false,
  child: () => silentLog,
}
