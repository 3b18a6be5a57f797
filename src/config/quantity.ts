/**
 * Sizes as Kubernetes writes them: `512`, `1K`, `2Ki`, `3e6` (apimachinery resource.Quantity).
 * What could break: nothing here computes with them; what counts is what is refused, in which words, and what is zero.
 */
import type { Parsed } from './go-text.ts'

const WRONG =
  "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
const SUFFIXES: ReadonlySet<string> = new Set(
  ['', 'n', 'u', 'm', 'k', 'M', 'G', 'T', 'P', 'E', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'],
)

/** The text itself when it is a quantity. */
export function parseQuantity(text: string): Parsed<string> {
  const suffix = /^[+-]?\d*(?:\.\d*)?([eEinumkKMGTP]*[-+]?\d*)$/.exec(text)?.[1]
  if (text === '' || suffix === undefined) return { error: WRONG }
  if (!SUFFIXES.has(suffix) && !/^[eE][-+]?\d+$/.test(suffix)) return { error: "unable to parse quantity's suffix" }
  return { value: text }
}

/** Whether a quantity is nothing: no digit but 0 before its suffix. */
export function isZeroQuantity(text: string): boolean {
  return !/^[+-]?[\d.]*[1-9]/.test(text)
}
