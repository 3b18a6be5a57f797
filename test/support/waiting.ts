/**
 * Reads of the kernel by programs, inside a wait and outside. Outside, each read starts its
 * program. A wait looks many times, so it asks the kernel over netlink whether anything has
 * changed, and starts the program again only then. A wait ends only after a check whose reads were
 * all made by programs: they are independent of our codecs.
 */
import { AsyncLocalStorage } from 'node:async_hooks'

interface Known {
  readonly fingerprint: string
  readonly text: string
  readonly atMs: number
}

/**
 * What is known is read again after this time. A change between the fingerprint and the program
 * that is undone later leaves the fingerprint of the beginning and a text that is wrong.
 */
const KNOWN_MS = 1000

const waits = new AsyncLocalStorage<Wait>()

/** One wait: what was read during it, by name. */
export class Wait {
  readonly #known = new Map<string, Known>()
  #usesKnown = true
  #hasUsedKnown = false

  /** Runs the check, and once more with nothing but new reads if it succeeds; throws its error. */
  async attempt(check: () => void | Promise<void>): Promise<void> {
    await this.look(check)
    if (this.#hasUsedKnown) await this.lookAgain(check)
  }

  /** Calls `read`, which need not read again what has not changed. */
  look<T>(read: () => T): T {
    return this.#look(read, true)
  }

  /** Calls `read` with nothing but new reads. */
  lookAgain<T>(read: () => T): T {
    return this.#look(read, false)
  }

  #look<T>(read: () => T, usesKnown: boolean): T {
    this.#usesKnown = usesKnown
    this.#hasUsedKnown = false
    return waits.run(this, read)
  }

  read(name: string, fingerprintOf: () => string, program: () => string): string {
    // Before the program, so that a change in between shows at the next look.
    const fingerprint = fingerprintOf()
    const known = this.#known.get(name)
    const atMs = performance.now()
    if (this.#usesKnown && known?.fingerprint === fingerprint && atMs - known.atMs < KNOWN_MS) {
      this.#hasUsedKnown = true
      return known.text
    }
    const text = program()
    this.#known.set(name, { fingerprint, text, atMs })
    return text
  }
}

/**
 * What a program prints about the kernel.
 * @param name of the read, the same for the same program and arguments
 * @param fingerprintOf something that changes whenever the text does; undefined when the kernel
 * tells no such thing
 */
export function readByProgram(name: string, fingerprintOf: (() => string) | undefined, program: () => string): string {
  const wait = waits.getStore()
  return wait === undefined || fingerprintOf === undefined ? program() : wait.read(name, fingerprintOf, program)
}
