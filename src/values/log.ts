/**
 * The log as every layer sees it: a message, fields, a verbosity. `serve/log.ts` formats and writes
 * the lines. Callers build fields before the call, so guard costly ones with `v(level)`.
 */

/**
 * Structured values of one line, printed as `key="value"` in text and as JSON members in JSON.
 * Undefined values are left out; `error` is printed as klog's `err`, before all others.
 */
export type LogFields = Readonly<Record<string, unknown>>

/** Messages are constant texts (they are counted and compared); everything that varies is in fields. */
export interface Log {
  info(message: string, fields?: LogFields): void
  /** Writes a line if lines of this verbosity are wanted. */
  verbose(level: number, message: string, fields?: LogFields): void
  warn(message: string, fields?: LogFields): void
  error(message: string, fields?: LogFields): void
  /**
   * Whether lines of this verbosity are wanted from the calling file (klog's -v and --vmodule): 0
   * always, 2 steady state, 4 debugging, 6 every message.
   */
  v(level: number): boolean
}

/**
 * An object of Kubernetes as a field (klog.KObj): `"demo/web"` in text,
 * `{"name":"web","namespace":"demo"}` in JSON.
 */
export class ObjectName {
  readonly #namespace: string
  readonly #name: string

  constructor(namespace: string, name: string) {
    this.#namespace = namespace
    this.#name = name
  }

  toString(): string {
    return this.#namespace === '' ? this.#name : `${this.#namespace}/${this.#name}`
  }

  toJSON(): { readonly name: string; readonly namespace?: string } {
    return { name: this.#name, ...(this.#namespace === '' ? {} : { namespace: this.#namespace }) }
  }
}

/** A log that drops everything. */
export const silentLog: Log = {
  info: () => {},
  verbose: () => {},
  warn: () => {},
  error: () => {},
  v: () => false,
}
