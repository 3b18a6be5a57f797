/** What is fuzzed: a name, how its inputs are changed, and a function that reads one input. */
import { CodedError } from '../../../src/values/errors.ts'

/** How inputs are changed: as attributes of netlink, as fields of protobuf, as JSON, as words and lines, or only as bytes. */
export type Form = 'netlink' | 'protobuf' | 'json' | 'text' | 'bytes'

/** Reads one input as the program does. Whatever it throws is a find. */
export type Run = (input: Uint8Array) => void | Promise<void>

export interface Target {
  readonly name: string
  /** What of the program reads it, for the page. */
  readonly what: string
  readonly form: Form
  /** Of netlink: bytes of the header of the family. */
  readonly headerBytes?: number
  /** Words of the format. */
  readonly words?: readonly string[]
  /** The longest input; default 16 KiB. */
  readonly maxBytes?: number
  /** Microseconds of processor time for each byte; default 1. Readers of YAML need more. */
  readonly microsecondsPerByte?: number
  /** Inputs in `npm test`; default 1000. */
  readonly slice?: number
  /** Inputs to begin with, beside those of the corpus. */
  readonly seeds?: () => readonly (string | Uint8Array)[]
  readonly run: Run
}

/** A rule that the program keeps for every input, and did not. */
export class RuleBroken extends Error {
  override readonly name = 'RuleBroken'
}

/** Throws RuleBroken unless the rule is kept. */
export function rule(isKept: boolean, what: string): asserts isKept {
  if (!isKept) throw new RuleBroken(what)
}

/** The value, or undefined when it is refused with one of these codes. Every other error is thrown. */
export function unlessRefused<T>(codes: readonly string[], read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (error instanceof CodedError && codes.includes(error.code)) return undefined
    throw error
  }
}

/** Nothing that was read may have added members to all objects. */
export function objectsAreClean(): boolean {
  for (const _ in {}) return false
  return true
}
